//! Encoders with their own vocabulary: classes of transformers have default ids for keys that config.json lacks, and
//! RoBERTa-like classes number positions from the padding id on.

use super::ties::config;
use super::{Tensors, files, shown};
use crate::binary::{failure, output};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use std::path::Path;

const TRAINED: &str = "name = \"ids\"
[optimizer]
kind = \"sgd\"
lr = 0.1
[train]
steps = 1
batch_size = 1
[data]
kind = \"text\"
path = \"text.txt\"
valid_fraction = 0.2
context = 12
[task]
kind = \"masked_lm\"
";
const SIZES: &str = "n_layers = 1\nd_model = 16\n";
const ROBERTA: &str = "preset = \"roberta-base\"\nattention = { n_heads = 2 }\nfeed_forward = { d_ff = 32 }\n\
                       position = { kind = \"learned\", first = 2, max_len = 18 }\n";
const TABLE: &str = "roberta.embeddings.position_embeddings.weight";

/// Trains in a temporary folder and exports; returns the folder, and the paths of the run and of the export.
pub fn exported(tokenizer: &str, model: &str) -> (tempfile::TempDir, String, String) {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| shown(&work.path().join(name));
    let text = "the cat sat on the mat and saw the dog\n".repeat(30);
    std::fs::write(at("text.txt"), text).unwrap();
    let text = format!("{TRAINED}[tokenizer]\n{tokenizer}[model]\n{model}");
    std::fs::write(at("x.toml"), text).unwrap();
    let (run, out) = (at("run"), at("out"));
    output(&["train", &at("x.toml"), "--quiet", "--run", &run]);
    (work, run, out)
}

/// Returns the id of a special token that tokenizer_config.json names.
fn id_of(out: &str, role: &str) -> u64 {
    let json = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(Path::new(out).join(name)).unwrap()).unwrap()
    };
    let name = json("tokenizer_config.json")[role].clone();
    let added = json("tokenizer.json")["added_tokens"].clone();
    let mut added = added.as_array().unwrap().iter();
    let token = added.find(|token| token["content"] == name).unwrap();
    token["id"].as_u64().unwrap()
}

/// Returns the logits of these tokens.
fn logits(run: &str, ids: &[i64], work: &Path) -> Vec<f32> {
    let (given, found) = (work.join("in.safetensors"), work.join("out.safetensors"));
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::I64, vec![1, ids.len()], &bytes).unwrap();
    safetensors::serialize_to_file([("input_ids", view)], None, &given).unwrap();
    let (given, shown) = (shown(&given), shown(&found));
    output(&["infer", run, "--inputs", &given, "--outputs", &shown]);
    files::read(&found).remove("logits").unwrap().values
}

/// Returns the rows of a table behind the first `unread` ones.
fn read_rows(tensors: &Tensors, name: &str, unread: usize) -> Vec<f32> {
    let table = &tensors[name];
    let width = table.shape[1];
    // A table that is not rearranged keeps its first rows.
    assert!(unread == 2 || table.values[..unread * width].iter().all(|x| *x == 0.0));
    table.values[unread * width..].to_vec()
}

/// A token's position is its index among the tokens that are no padding, plus the padding id and one.
#[test]
fn positions_begin_behind_the_id_of_padding() {
    for tokenizer in [
        "kind = \"byte\"\n",
        "kind = \"word\"\n",
        "kind = \"word\"\nspecial_tokens = [\"<pad>\"]\n",
    ] {
        let (work, run, out) = exported(tokenizer, &format!("{ROBERTA}{SIZES}"));
        output(&["export", &run, &out]);
        let said = config(Path::new(&out));
        let pad = id_of(&out, "pad_token");
        assert_eq!(said["model_type"], "roberta");
        assert_eq!(said["pad_token_id"], pad, "{tokenizer}");
        assert_eq!(said["max_position_embeddings"], 16 + pad + 1, "{tokenizer}");

        let first = pad as usize + 1;
        let weights = Path::new(&run).join("steps/00000001/model.safetensors");
        let ours = &files::read(&weights)["model.position.table"];
        let tensors = files::read_folder(Path::new(&out));
        assert_eq!(tensors[TABLE].shape, [16 + first, 16], "{tokenizer}");
        let theirs = read_rows(&tensors, TABLE, first);
        assert_eq!(theirs, ours.values[2 * ours.shape[1]..], "{tokenizer}");

        // Imported again, it is the same model for every id except padding.
        let again = shown(&work.path().join("again"));
        output(&["import", &out, &again]);
        let size = said["vocab_size"].as_i64().unwrap();
        let ids: Vec<i64> = (0..size).filter(|id| *id != pad as i64).collect();
        for ids in ids.chunks(12) {
            let [a, b] = [&run, &again].map(|run| logits(run, ids, work.path()));
            assert_eq!(a, b, "{tokenizer}: {ids:?}");
        }
        // Exported again, it is unchanged.
        let back = shown(&work.path().join("back"));
        output(&["export", &again, &back]);
        assert_eq!(config(Path::new(&back))["pad_token_id"], pad);
        assert_eq!(files::read_folder(Path::new(&back)), tensors, "{tokenizer}");
    }
}

/// The rows before the first position do not exist in BERT.
#[test]
fn a_roberta_is_a_bert_without_the_rows_before_its_first_position() {
    let (work, run, out) = exported("kind = \"byte\"\n", &format!("{ROBERTA}{SIZES}"));
    output(&["export", &run, &out, "--family", "bert"]);
    assert_eq!(config(Path::new(&out))["max_position_embeddings"], 16);
    let again = shown(&work.path().join("again"));
    output(&["import", &out, &again]);
    let ids: Vec<i64> = (40..52).collect();
    let [a, b] = [&run, &again].map(|run| logits(run, &ids, work.path()));
    assert_eq!(a, b);
    let other = shown(&work.path().join("other"));
    let (_, said) = failure(&["export", &run, &other, "--family", "modernbert"]);
    assert!(said.contains("modernbert"), "{said}");
}

/// ModernBERT's class pads with 50283 by default, which a small vocabulary lacks.
#[test]
fn an_encoder_says_which_tokens_are_special() {
    let full = "[[model.layers]]\nattention = { kind = \"multi_head\", n_heads = 2, bias = false }\n\
                feed_forward = { kind = \"gated\", activation = \"gelu\", d_ff = 32 }\n";
    let windows = "[[model.layers]]\nrepeat = 2\nposition = { kind = \"rotary\" }\n\
                   attention = { kind = \"sliding_window\", window = 5, n_heads = 2, bias = false }\n\
                   feed_forward = { kind = \"gated\", activation = \"gelu\", d_ff = 32 }\n";
    let modernbert =
        format!("preset = \"modernbert-base\"\nn_layers = 3\nd_model = 16\n{full}{windows}");
    let bert = format!(
        "preset = \"bert-base\"\n{SIZES}attention = {{ n_heads = 2 }}\nfeed_forward = {{ d_ff = 32 }}\n\
         position = {{ kind = \"learned\" }}\n"
    );
    for (family, model) in [("modernbert", modernbert), ("bert", bert)] {
        let (_work, run, out) = exported("kind = \"byte\"\n", &model);
        output(&["export", &run, &out]);
        let said = config(Path::new(&out));
        assert_eq!(said["model_type"], family);
        assert_eq!(said["pad_token_id"], id_of(&out, "pad_token"), "{family}");
        for key in ["bos_token_id", "eos_token_id"] {
            let id = said.get(key).map(Value::as_u64);
            assert!(id.is_some_and(|id| id.is_none_or(|id| id < 300)), "{said}");
        }
        if family == "modernbert" {
            assert_eq!(said["cls_token_id"], json!(id_of(&out, "cls_token")));
            assert_eq!(said["sep_token_id"], json!(id_of(&out, "sep_token")));
        }
    }
}
