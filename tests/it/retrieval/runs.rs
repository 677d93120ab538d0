//! Runs that retrieve: trained, resumed, evaluated with neighbours and without, and generating; and a plain decoder to which
//! retrieval is added afterwards.

use crate::binary::{failure, output};
use crate::in_folder::at;
use serde_json::Value;
use std::fs;
use std::path::Path;

const EXPERIMENT: &str = r#"name = "letters"
[model]
kind = "decoder"
n_layers = 2
d_model = 16
position = { kind = "rotary" }
attention = { kind = "multi_head", n_heads = 2 }
dropout = 0.1
[model.retrieval]
chunk = 8
neighbours = 2
layers = [2]
[data]
kind = "people"
letters = 60
valid_items = 8
context = 32
[data.retrieval]
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 1e-2
[train]
steps = 8
batch_size = 4
micro_batch_size = 3
eval_every = 4
checkpoint_every = 4
log_every = 1
"#;

/// Writes a folder with an experiment, in which some lines are replaced.
pub fn written(changes: &[(&str, &str)]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut text = EXPERIMENT.to_string();
    for (old, new) in changes {
        assert!(text.contains(old), "{old}");
        text = text.replace(old, new);
    }
    let path = folder.path().join("letters.toml");
    fs::write(&path, text).unwrap();
    (folder, path.display().to_string())
}

fn weights(run: &str) -> Vec<u8> {
    fs::read(Path::new(run).join("steps/00000008/model.safetensors")).unwrap()
}

#[test]
fn a_run_is_resumed_to_the_bit_and_tells_what_retrieval_brings() {
    let (folder, experiment) = written(&[]);
    let (whole, parted) = (at(folder.path(), "whole"), at(folder.path(), "parted"));
    output(&["train", &experiment, "--quiet", "--run", &whole]);
    // Up to the checkpoint of step 4, and nothing after it.
    output(&[
        "train",
        &experiment,
        "--quiet",
        "--run",
        &parted,
        "--set",
        "train.steps=4",
    ]);
    output(&["resume", &parted, "--quiet", "--set", "train.steps=8"]);
    let text = output(&["eval", &whole, "--json"]);
    let scores: Value = serde_json::from_str(&text).unwrap();
    let number = |name: &str| {
        let found = [&scores, &scores["metrics"]]
            .into_iter()
            .find_map(|at| at[name].as_f64());
        found.unwrap_or_else(|| panic!("{name} in {text}"))
    };
    let (with, without) = (number("loss"), number("loss_without_retrieval"));
    assert!(
        (without - with - number("retrieval_gain")).abs() < 1e-4,
        "{text}"
    );
    assert!((without - with).abs() > 1e-6, "neighbours change something");
    // With a constant learning rate, the number of steps does not matter.
    assert!(weights(&whole) == weights(&parted), "resumed");
    let prompt = "dear friend , mara tolven came to see me today . mara tolven was";
    let generate = |more: &[&str]| {
        let fixed = [
            "generate",
            &whole,
            "--prompt",
            prompt,
            "--tokens",
            "12",
            "--temperature",
            "0",
        ];
        output(&[&fixed[..], more].concat())
    };
    assert_eq!(generate(&[]), generate(&[]));
    generate(&["--without-retrieval"]);
}

#[test]
fn generation_needs_the_database_as_it_was() {
    let (folder, experiment) = written(&[
        (
            "kind = \"people\"\nletters = 60\nvalid_items = 8\n",
            "kind = \"text\"\npath = \"texts.txt\"\nwindows = \"documents\"\ndocument_separator = \"\\n\"\nvalid_fraction = 0.2\n",
        ),
        (
            "[task]",
            "[tokenizer]\nkind = \"char\"\nend_of_text = \"<|endoftext|>\"\n[task]",
        ),
    ]);
    let line = |number: usize| format!("the number after {number} is {} and no other", number + 1);
    let text: Vec<String> = (0..80).map(|number| line(number * 7 % 80)).collect();
    let texts = folder.path().join("texts.txt");
    fs::write(&texts, text.join("\n")).unwrap();
    let run = at(folder.path(), "run");
    output(&["train", &experiment, "--quiet", "--run", &run]);
    let generate = [
        "generate",
        &run,
        "--prompt",
        "the number after 3",
        "--tokens",
        "10",
    ];
    for aspect in ["context", "attention"] {
        let (status, said) = failure(&["inspect", &run, aspect]);
        assert_eq!(status, 2);
        assert!(
            said.contains("reads retrieved neighbours of a text's chunks"),
            "{said}"
        );
    }
    output(&generate);
    fs::write(&texts, text[1..].join("\n")).unwrap();
    let (status, said) = failure(&generate);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("differs from the one that the run began with"),
        "{said}"
    );
    output(&[&generate[..], &["--without-retrieval"]].concat());
    let given = texts.display().to_string();
    let (_, said) = failure(&["eval", &run, "--data", &given]);
    assert!(
        said.contains("the database of the run is its training text"),
        "{said}"
    );
}

/// Borgeaud et al. 2022, section 4.4: a run begins from a plain decoder, whose parameters are frozen, and trains only those of
/// retrieval.
#[test]
fn a_plain_decoder_is_fitted_with_retrieval() {
    let plain = "[model.retrieval]\nchunk = 8\nneighbours = 2\nlayers = [2]\n";
    let (folder, experiment) = written(&[(plain, ""), ("[data.retrieval]\n", "")]);
    let (base, fitted) = (at(folder.path(), "base"), at(folder.path(), "fitted"));
    output(&["train", &experiment, "--quiet", "--run", &base]);
    let frozen = [
        "^model\\\\.embedding",
        "^model\\\\.stack\\\\.final_norm",
        "^model\\\\.stack\\\\.blocks\\\\.[0-9]+\\\\.(attention|feed_forward)",
    ];
    let init = format!(
        "[init]\nfrom = {base:?}\ncheckpoint = \"latest\"\nnew = [\"\\\\.cross\\\\.\", \"^model\\\\.retrieval\"]\nfreeze = [\"{}\"]\n[train]",
        frozen.join("\", \"")
    );
    let (_other, experiment) = written(&[("[train]", &init)]);
    output(&["train", &experiment, "--quiet", "--run", &fitted]);
    let arrays = |run: &str| {
        let bytes = weights(run);
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let each = file.tensors().into_iter();
        each.map(|(name, view)| (name, view.data().to_vec()))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    let (before, after) = (arrays(&base), arrays(&fitted));
    for (name, values) in &before {
        assert!(after[name] == *values, "{name} moved");
    }
    let new: Vec<&String> = after
        .keys()
        .filter(|name| !before.contains_key(*name))
        .collect();
    assert!(
        new.iter().any(|name| name.contains("cross")) && new.len() > 10,
        "{new:?}"
    );
    let score = |run: &str, name: &str| {
        let text = output(&["eval", run, "--json", "--checkpoint", "latest"]);
        let scores: Value = serde_json::from_str(&text).unwrap();
        let found = [&scores, &scores["metrics"]]
            .into_iter()
            .find_map(|at| at[name].as_f64());
        found.unwrap_or_else(|| panic!("{name} in {text}"))
    };
    let plain = score(&base, "loss");
    assert!((score(&fitted, "loss_without_retrieval") - plain).abs() < 1e-5 * plain);
    assert!(
        (score(&fitted, "loss") - plain).abs() > 1e-5,
        "neighbours change something"
    );
}

/// An experiment on an encoder of the same texts, with its own tokenizer.
const ENCODER: &str = r#"name = "encoder"
[model]
kind = "encoder"
n_layers = 1
d_model = 16
attention = { kind = "multi_head", n_heads = 2 }
[tokenizer]
kind = "wordpiece"
vocab_size = 80
[data]
kind = "text"
path = "texts.txt"
valid_fraction = 0.2
context = 24
[task]
kind = "masked_lm"
[optimizer]
kind = "adamw"
lr = 1e-2
[train]
steps = 3
batch_size = 4
"#;

#[test]
fn chunks_are_compared_by_the_vectors_of_a_run() {
    let (folder, experiment) = written(&[
        (
            "kind = \"people\"\nletters = 60\nvalid_items = 8\n",
            "kind = \"text\"\npath = \"texts.txt\"\nwindows = \"documents\"\ndocument_separator = \"\\n\"\nvalid_fraction = 0.2\n",
        ),
        (
            "[data.retrieval]\n",
            "[data.retrieval]\ncompare = { kind = \"encoded\", run = \"encoder\" }\n",
        ),
        (
            "[task]",
            "[tokenizer]\nkind = \"char\"\nend_of_text = \"<|endoftext|>\"\n[task]",
        ),
    ]);
    let line = |number: usize| format!("the number after {number} is {} and no other", number + 1);
    let text: Vec<String> = (0..60).map(|number| line(number * 7 % 60)).collect();
    fs::write(folder.path().join("texts.txt"), text.join("\n")).unwrap();
    let (status, said) = failure(&[
        "train",
        &experiment,
        "--quiet",
        "--run",
        &at(folder.path(), "run"),
    ]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("[data.retrieval.compare] run"), "{said}");
    let of_encoder = at(folder.path(), "encoder.toml");
    fs::write(&of_encoder, ENCODER).unwrap();
    let encoder = at(folder.path(), "encoder");
    output(&["train", &of_encoder, "--quiet", "--run", &encoder]);
    let run = at(folder.path(), "run");
    output(&["train", &experiment, "--quiet", "--run", &run]);
    let generate = [
        "generate",
        &run,
        "--prompt",
        "the number after 3",
        "--tokens",
        "10",
    ];
    output(&generate);
    // Another encoder makes another database.
    fs::remove_dir_all(&encoder).unwrap();
    output(&[
        "train",
        &of_encoder,
        "--quiet",
        "--run",
        &encoder,
        "--set",
        "seed=2",
    ]);
    let (status, said) = failure(&generate);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("the database differs from the one that the run began with"),
        "{said}"
    );
}
