//! Models that read shorter texts than their position table allows: the table is exported whole.

use super::ties::config;
use super::{files, shown};
use crate::binary::output;
use serde_json::{Value, json};
use std::path::Path;

const COMMON: &str = "name = \"short\"
[tokenizer]
kind = \"byte\"
[optimizer]
kind = \"sgd\"
lr = 0.1
[train]
steps = 1
batch_size = 1
";
const TEXT: &str =
    "[data]\nkind = \"text\"\npath = \"text.txt\"\nvalid_fraction = 0.2\ncontext = 16\n";
const PAIRS: &str = "[data]\nkind = \"pairs\"\nsource = \"a.txt\"\ntarget = \"b.txt\"\nvalid_source = \"a.txt\"\n\
                     valid_target = \"b.txt\"\nmax_len = 16\n";
const ONE_STACK: &str = "n_layers = 1\nposition = { kind = \"learned\", max_len = 40 }\n";
const TWO_STACKS: &str = "n_encoder_layers = 1\nn_decoder_layers = 1\n\
                          position = { kind = \"learned\", max_len = 42, first = 2 }\n";
const SIZES: &str = "d_model = 16\nattention = { n_heads = 2 }\nfeed_forward = { d_ff = 32 }\n";

#[test]
fn a_table_with_more_rows_than_texts_have_tokens_goes_out_whole() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| shown(&work.path().join(name));
    std::fs::write(at("text.txt"), "the cat sat on the mat\n".repeat(40)).unwrap();
    std::fs::write(at("a.txt"), "one\ntwo\nsix\n").unwrap();
    std::fs::write(at("b.txt"), "eins\nzwei\nsechs\n").unwrap();
    for (preset, task, data, depth, key) in [
        ("gpt2", "causal_lm", TEXT, ONE_STACK, "n_positions"),
        (
            "bert-base",
            "masked_lm",
            TEXT,
            ONE_STACK,
            "max_position_embeddings",
        ),
        (
            "bart-base",
            "translation",
            PAIRS,
            TWO_STACKS,
            "max_position_embeddings",
        ),
    ] {
        let text = format!(
            "{COMMON}{data}[task]\nkind = \"{task}\"\n[model]\npreset = \"{preset}\"\n{depth}{SIZES}"
        );
        let (file, run, out) = (at("x.toml"), at(preset), at(&format!("{preset}-hf")));
        std::fs::write(&file, text).unwrap();
        output(&["train", &file, "--quiet", "--run", &run]);
        output(&["export", &run, &out]);
        assert_eq!(config(Path::new(&out))[key], 40, "{preset}");
        // The tokenizer still cuts texts at the training length.
        let cut: Value = serde_json::from_slice(
            &std::fs::read(Path::new(&out).join("tokenizer_config.json")).unwrap(),
        )
        .unwrap();
        assert_eq!(cut["model_max_length"], json!(16), "{preset}");
        let (again, back) = (
            at(&format!("{preset}-again")),
            at(&format!("{preset}-back")),
        );
        output(&["import", &out, &again]);
        output(&["export", &again, &back]);
        let tensors = |dir: &str| files::read_folder(Path::new(dir));
        let (before, after) = (tensors(&out), tensors(&back));
        assert_eq!(before.len(), after.len(), "{preset}");
        for (name, numbers) in before {
            assert_eq!(after[&name].shape, numbers.shape, "{preset}: {name}");
            assert_eq!(after[&name].values, numbers.values, "{preset}: {name}");
        }
    }
}
