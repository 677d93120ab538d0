//! Runs of text embeddings through the commands.

use crate::binary::{failure, formwork, output};
use crate::image_text::runs::embeddings;
use crate::in_folder::{goes_on_to_the_same_bits, trained, written};
use crate::infer::{Given, read_outputs, write_inputs};
use crate::inspect::looked::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// An experiment on numbers in words and in digits.
pub const WORDS: &str = r#"name = "words"
[model]
kind = "encoder"
n_layers = 2
d_model = 32
norm_placement = "post"
embedding_norm = true
position = { kind = "learned" }
attention = { kind = "multi_head", n_heads = 2 }
feed_forward = { kind = "dense", activation = "gelu", bias = true }
[data]
kind = "number_words"
valid_items = 100
[task]
kind = "text_embedding"
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 60
batch_size = 32
checkpoint_every = 20
"#;

/// Pairs of sentences in a table, with a score from 0 to 5.
pub const TABLE: &str = "a fox runs\ta fox is running\t4.5\nthe river is deep\ta fox runs\t0.2\n\
    the farmer sleeps\tthe farmer is asleep\t5\nthe mill stands\tthe river is deep\t1\n";

#[test]
fn words_find_digits_and_encode_gives_what_infer_gives() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), WORDS);
    let scores = json(&output(&["eval", &run, "--json"]));
    // By chance, one of a hundred is ranked first, and a tenth in the first ten.
    let of = |name: &str| {
        scores[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {scores}"))
    };
    assert!(of("recall_10") > 0.3, "{scores}");
    assert!(
        of("recall_1") <= of("mrr") && of("mrr") <= of("recall_10") + 0.1,
        "{scores}"
    );
    assert!(of("accuracy") > of("recall_1"), "{scores}");

    let at = |name: &str| folder.path().join(name).display().to_string();
    let lines = written(folder.path(), "lines.txt", "407\nfour hundred and seven\n");
    let out = at("vectors.safetensors");
    output(&["encode", &run, &lines, "--out", &out]);
    let (vectors, _) = embeddings(&out);
    let rows: Vec<&[f32]> = vectors.chunks(32).collect();
    for row in &rows {
        let length: f32 = row.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }
    // 407 with the special tokens of the vocabulary.
    let tokenizer =
        formwork::tokenizer::Tokenizer::load(&Path::new(&run).join("tokenizer.json")).unwrap();
    let ids: Vec<i32> = tokenizer
        .encode("407")
        .unwrap()
        .iter()
        .map(|id| *id as i32)
        .collect();
    let ids = tokenizer.frame().unwrap().around(&ids);
    let (inputs, outputs) = (at("in.safetensors"), at("out.safetensors"));
    let given = BTreeMap::from([("input_ids".to_string(), Given::i64(&[1, ids.len()], &ids))]);
    write_inputs(Path::new(&inputs), &given);
    output(&["infer", &run, "--inputs", &inputs, "--outputs", &outputs]);
    let found = &read_outputs(Path::new(&outputs))["sentence_embedding"];
    assert_eq!(found.shape, [1, 32]);
    for (a, b) in found.values.iter().zip(rows[0]) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
    // The mean of the last hidden states has the same direction.
    let plain = at("plain.safetensors");
    output(&[
        "encode",
        &run,
        &lines,
        "--out",
        &plain,
        "--pool",
        "mean",
        "--normalize",
    ]);
    for (a, b) in embeddings(&plain).0.iter().zip(&vectors) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn a_run_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    goes_on_to_the_same_bits(folder.path(), WORDS, [40, 60]);
}

#[test]
fn cosines_are_held_to_scores() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), "pairs.tsv", &TABLE.repeat(4));
    let data = "[tokenizer]\nkind = \"wordpiece\"\nvocab_size = 80\n[data]\nkind = \"labelled_text\"\npath = \"pairs.tsv\"\n\
        pair = 2\nscore = 3\nvalid_fraction = 0.5\ncontext = 24\n";
    let experiment = WORDS
        .replace("[data]\nkind = \"number_words\"\nvalid_items = 100\n", data)
        .replace(
            "kind = \"text_embedding\"",
            "kind = \"text_embedding\"\nloss = \"cosine\"\ntop_score = 5.0",
        )
        .replace("batch_size = 32", "batch_size = 4");
    let run = trained(folder.path(), &experiment);
    let scores = json(&output(&["eval", &run, "--json"]));
    let pearson = scores["pearson"].as_f64().unwrap();
    assert!(pearson > 0.9, "four couples are learned by heart: {scores}");
    let single = experiment.replace("pair = 2\n", "");
    let file = written(folder.path(), "single.toml", &single);
    let (status, said) = failure(&["check", &file]);
    assert_eq!(status, 2);
    assert!(said.contains("name the second as `pair`"), "{said}");
}

/// Classification can begin from embeddings; differences from the settings under which the weights were trained are reported.
#[test]
fn classes_begin_from_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), WORDS);
    written(
        folder.path(),
        "parity.tsv",
        &(0..80)
            .map(|n| format!("{n}\t{}\n", n % 2))
            .collect::<String>(),
    );
    let data = "[data]\nkind = \"labelled_text\"\npath = \"parity.tsv\"\nvalid_fraction = 0.2\ncontext = 16\n";
    let experiment = |heads: usize| {
        let text = WORDS
            .replace("[data]\nkind = \"number_words\"\nvalid_items = 100\n", data)
            .replace(
                "kind = \"text_embedding\"",
                "kind = \"text_classification\"",
            )
            .replace(
                "position = { kind = \"learned\" }",
                "position = { kind = \"learned\", max_len = 81 }",
            )
            .replace("n_heads = 2", &format!("n_heads = {heads}"))
            .replace("steps = 60", "steps = 2");
        let positions = fs::read_to_string(Path::new(&run).join("data.json")).unwrap();
        let positions: serde_json::Value = serde_json::from_str(&positions).unwrap();
        let context = positions["context"].as_u64().unwrap();
        let text = text.replace("max_len = 81", &format!("max_len = {context}"));
        format!("{text}[init]\nfrom = {run:?}\nnew = [\"^head\"]\n")
    };
    for (heads, told) in [(2, false), (4, true)] {
        let file = written(folder.path(), "classes.toml", &experiment(heads));
        let classes = folder
            .path()
            .join(format!("classes-{heads}"))
            .display()
            .to_string();
        let done = formwork(&["train", &file, "--plain", "--run", &classes])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(done.status.success(), "{said}");
        assert!(
            said.contains("parameters taken; new: head.weight, head.bias"),
            "{said}"
        );
        assert_eq!(
            said.contains("attention.n_heads = 2 (4 here)"),
            told,
            "{said}"
        );
        assert_eq!(said.contains("computes differently"), told, "{said}");
    }
}
