//! Denoising with its shipped experiment on a small text: training, exact resume, use of the run, and refusals.

use super::json;
use crate::binary::{failure, output, piped, shipped};
use std::fs;
use std::path::Path;

/// Writes a text of a few documents with short sentences, and returns its path.
fn text(folder: &Path) -> String {
    let path = folder.join("text.txt");
    let words = ["red", "blue", "owl", "fox", "sees", "the", "old", "two"];
    let sentence = |n: usize| -> String {
        let words: Vec<&str> = (0..6)
            .map(|i| words[(n * 5 + i * (n % 3 + 1)) % 8])
            .collect();
        format!("The {} . ", words.join(" "))
    };
    let document = |n: usize| -> String {
        let sentences: String = (0..12).map(|i| sentence(n * 12 + i)).collect();
        format!(" = Page {n} = \n {sentences}\n")
    };
    fs::write(&path, (0..12).map(document).collect::<String>()).unwrap();
    path.display().to_string()
}

/// Changes that make the shipped experiment small.
fn small(folder: &Path) -> Vec<String> {
    let path = text(folder);
    let files = ["path", "valid_path", "test_path"].map(|key| format!("data.{key}={path:?}"));
    let rest = [
        "tokenizer.vocab_size=300",
        "model.d_model=16",
        "schedule={ kind = \"constant\" }",
        "train.batch_size=8",
        "train.eval_every=3",
        "train.eval_batches=2",
    ];
    files.into_iter().chain(rest.map(String::from)).collect()
}

fn arguments(run: &str, sets: &[String], more: &[&str]) -> Vec<String> {
    let file = shipped("experiments/systems/bart.toml");
    let file = file.display().to_string();
    let begin = ["train", &file, "--run", run, "--quiet"].map(String::from);
    let more = more.iter().map(|set| (*set).to_owned());
    let sets = sets.iter().cloned().chain(more);
    let sets = sets.flat_map(|set| ["--set".to_owned(), set]);
    begin.into_iter().chain(sets).collect()
}

fn trained(folder: &Path, name: &str, more: &[&str]) -> String {
    let run = folder.join(name).display().to_string();
    output(&arguments(&run, &small(folder), more));
    run
}

fn weights(run: &str, file: &str) -> Vec<u8> {
    fs::read(Path::new(run).join("latest").join(file)).unwrap()
}

#[test]
fn a_run_goes_on_as_if_nothing_had_happened() {
    let folder = tempfile::tempdir().unwrap();
    let steps = ["train.steps=6", "train.steps=3"];
    let whole = trained(folder.path(), "whole", &steps[..1]);
    let part = trained(folder.path(), "part", &steps[1..]);
    output(&["resume", &part, "--set", "train.steps=6", "--quiet"]);
    for file in ["model.safetensors", "optimizer.bpk"] {
        assert!(weights(&whole, file) == weights(&part, file), "{file}");
    }
}

/// Returns the output of `translate` for some lines.
fn translated(run: &str, beam: &str, lines: &str) -> String {
    piped(&["translate", run, "--beam", beam], lines)
}

#[test]
fn masks_are_filled_by_writing_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["train.steps=4", "train.micro_batch_size=4"];
    let run = trained(folder.path(), "run", &more);
    let scores = json(&output(&["eval", &run, "--json"]));
    for metric in ["loss", "accuracy", "perplexity"] {
        assert!(scores[metric].is_number(), "{metric}: {scores}");
    }
    // A mask may be written as users write it, or as the vocabulary spells it.
    let written = translated(
        &run,
        "2",
        "The red [MASK] sees the owl .\nThe red<mask> sees the owl .\n",
    );
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines.len(), 2, "{written}");
    assert_eq!(lines[0], lines[1]);
    // The exported run is a BART to other programs: it has the tokens that BART reads around a text.
    let out = folder.path().join("hf");
    output(&["export", &run, &out.display().to_string()]);
    let read = |name: &str| json(&fs::read_to_string(out.join(name)).unwrap());
    assert_eq!(read("config.json")["model_type"], "bart");
    let around = read("tokenizer.json")["post_processor"]["single"].to_string();
    assert!(
        around.contains("<s>") && around.contains("</s>"),
        "{around}"
    );
}

#[test]
fn keys_without_effect_or_out_of_bounds_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (sets, expected) in [
        (
            &["task.infill=0.0", "task.mean_span=4.0"][..],
            "mean_span has no effect: infill = 0 makes no spans",
        ),
        (
            &["task.infill=0.0", "task.random=0.1"],
            "random has no effect: infill = 0 and mask = 0 make no masks",
        ),
        (
            &["task.infill=0.0", "task.permute_sentences=0.0"],
            "are all 0, so source and target would be the same text",
        ),
        (
            &["task.mask=1.0"],
            "mask = 1 must be at least 0 and below 1",
        ),
        (&["task.rotate=1.5"], "rotate = 1.5 must be between 0 and 1"),
        (
            &["task.mean_span=0.5"],
            "mean_span = 0.5 must be between 1 and 100",
        ),
        (&["task.infil=0.1"], "infill"),
        (&["data.windows=\"contiguous\""], "windows has no effect"),
    ] {
        let run = folder.path().join("refused").display().to_string();
        let (status, said) = failure(&arguments(&run, &small(folder.path()), sets));
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(expected), "{sets:?}: {said}");
        assert!(!Path::new(&run).exists());
    }
}

/// An imported BART reads `<s> … </s>` and writes `<s>` before its first word, as in transformers
/// (`tests/goldens/make_bart_writes.py` is the oracle).
#[test]
fn an_imported_bart_writes_hugging_face_s_texts() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").display().to_string();
    let bart = shipped("tests/fixtures/bart_writes");
    output(&["import", &bart.display().to_string(), &run]);
    let written = json(&fs::read_to_string(bart.join("written.json")).unwrap());
    let of = |name: &str| -> String {
        let lines = written[name].as_array().unwrap().iter();
        lines
            .map(|line| format!("{}\n", line.as_str().unwrap()))
            .collect()
    };
    for (beam, name) in [("1", "greedy"), ("4", "beam")] {
        assert_eq!(translated(&run, beam, &of("sources")), of(name), "{name}");
    }
}
