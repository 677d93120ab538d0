//! Texts that become pairs, with their shipped experiment: training, evaluation, use, resume, and senseless keys.

use super::json;
use crate::binary::{failure, output, shipped};
use std::fs;
use std::path::Path;

const SPANS: &str = "experiments/smoke/spans.toml";

/// Builds arguments followed by `--set` changes.
fn command(first: &[&str], sets: &[&str]) -> Vec<String> {
    let sets = sets.iter().flat_map(|set| ["--set", *set]);
    first.iter().copied().chain(sets).map(Into::into).collect()
}

/// Trains the experiment with changes and returns the run's folder.
fn trained(folder: &Path, name: &str, sets: &[&str]) -> String {
    let run = folder.join(name).display().to_string();
    let file = shipped(SPANS).display().to_string();
    output(&command(&["train", &file, "--run", &run, "--quiet"], sets));
    run
}

#[test]
fn spans_are_learnt_measured_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", &[]);
    let scores = json(&output(&["eval", &run, "--json"]));
    // A uniform guess over the words and 100 sentinels has a loss above 5.4.
    assert!(scores["loss"].as_f64().unwrap() < 4.5, "{scores}");
    for metric in ["perplexity", "accuracy"] {
        assert!(scores[metric].is_number(), "{metric}: {scores}");
    }
    assert!(scores["bleu"].is_null(), "{scores}");
    assert_eq!(
        scores["loss"],
        json(&output(&["eval", &run, "--json"]))["loss"]
    );
    let input = folder.path().join("in.txt");
    fs::write(
        &input,
        "there is a red <extra_id_0> and two <extra_id_1> owls .\n",
    )
    .unwrap();
    let input = input.display().to_string();
    let written = output(&["translate", &run, "--input", &input]);
    assert_eq!(written.lines().count(), 1, "{written}");
    let (status, said) = failure(&["eval", &run, "--beam", "2"]);
    assert_eq!(status, 2);
    assert!(
        said.contains("has no reference texts to compare with"),
        "{said}"
    );
    let (status, said) = failure(&["eval", &run, "--set", "decode.search.beam=2"]);
    assert_eq!(status, 2);
    assert!(
        said.contains("--set decode.search.beam=2 has no effect"),
        "{said}"
    );
    let exported = folder.path().join("hf").display().to_string();
    let said = output(&["export", &run, &exported]);
    assert!(said.contains("t5 with"), "{said}");
}

/// A run that lost its last checkpoints ends bit for bit like the whole one.
#[test]
fn a_run_resumes_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let whole = trained(folder.path(), "whole", &[]);
    let cut = trained(folder.path(), "cut", &[]);
    for step in [20, 30, 40] {
        fs::remove_dir_all(Path::new(&cut).join(format!("steps/{step:08}"))).unwrap();
    }
    output(&["resume", &cut, "--quiet"]);
    for file in ["model.safetensors", "optimizer.bpk"] {
        let [whole, cut] =
            [&whole, &cut].map(|run| fs::read(Path::new(run).join("steps/00000040").join(file)));
        assert!(whole.unwrap() == cut.unwrap(), "{file} differs");
    }
}

/// Micro-batches of a step make one batch, each with its own corruptions.
#[test]
fn micro_batches_are_one_batch() {
    let folder = tempfile::tempdir().unwrap();
    let losses = |name: &str, size: &str| -> Vec<f64> {
        let sets = [
            "train.steps=3",
            "train.eval_every=3",
            "schedule.warmup_steps=1",
            size,
        ];
        let run = trained(folder.path(), name, &sets);
        let journal = fs::read_to_string(Path::new(&run).join("metrics.jsonl")).unwrap();
        let lines = journal.lines().map(json);
        lines.filter_map(|line| line["loss"].as_f64()).collect()
    };
    let (parts, one) = (
        losses("parts", "train.micro_batch_size=2"),
        losses("one", "train.micro_batch_size=8"),
    );
    assert_eq!(parts.len(), one.len());
    assert!(parts.len() > 3);
    for (parts, one) in parts.iter().zip(&one) {
        assert!((parts - one).abs() < 1e-4, "{parts} and {one}");
    }
}

#[test]
fn a_decoder_writes_spans_after_the_text() {
    let folder = tempfile::tempdir().unwrap();
    for (name, task) in [
        ("causal", "task={ kind = \"span_corruption\" }"),
        (
            "prefix",
            "task={ kind = \"span_corruption\", bidirectional_source = true, mean_span = 2.0 }",
        ),
    ] {
        let model = "model={ kind = \"decoder\", n_layers = 2, d_model = 32, position = { kind = \"rotary\" } }";
        let run = trained(folder.path(), name, &[model, task]);
        assert!(json(&output(&["eval", &run, "--json"]))["accuracy"].is_number());
    }
}

#[test]
fn keys_without_sense_are_faults_of_a_check() {
    let file = shipped(SPANS).display().to_string();
    for (set, message) in [
        (
            "task.share=0.7",
            "[task] share = 0.7 must be above 0 and at most 0.5",
        ),
        ("task.mean_span=0", "mean_span = 0 must be 1 or more"),
        (
            "task.mean_span=12",
            "[task] mean_span = 12 must be between 1 and 11: share = 0.15 removes 11 of the 73 tokens of the longest text for [data] context = 64",
        ),
        ("data.context=8", "mean_span = 3 must be 1: share = 0.15"),
        ("train.batch_tokens=100", "batch_tokens has no effect"),
        ("decode.valid_items=3", "valid_items has no effect"),
        ("decode.metrics=[\"bleu\"]", "metrics has no effect"),
        ("expect.valid_bleu={ at_least = 1 }", "valid_bleu"),
        ("task.bidirectional_source=true", "bidirectional_source"),
        (
            "model={ kind = \"encoder\" }",
            "kind = \"span_corruption\" is not for [model] kind = \"encoder\"",
        ),
        (
            "data={ kind = \"dates\" }",
            "reads texts, but [data] kind = \"dates\" provides pairs of texts",
        ),
        (
            "data={ kind = \"copy\" }",
            "no text in which tokens can be masked",
        ),
    ] {
        let (status, said) = failure(&["check", &file, "--set", set]);
        assert_eq!(status, 2, "{set}: {said}");
        assert!(said.contains(message), "{set}: {said}");
    }
}
