//! The step loop if training goes wrong, or has run long enough.

use crate::binary::{failure, formwork, output};
use crate::recompute::killed_and_resumed;
use formwork::train::journal;
use std::fs;
use std::path::Path;
use std::process::Output;

fn train(run: &Path, sets: &[&str]) -> Output {
    let shown = run.display().to_string();
    let mut arguments = vec![
        "train",
        "experiments/smoke/tiny.toml",
        "--quiet",
        "--run",
        &shown,
    ];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    formwork(&arguments).output().unwrap()
}

#[test]
fn ruined_weights_stop_the_run_and_are_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let ended = train(&run, &["optimizer.lr=1e30", "train.clip_norm=0"]);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("diverged: the loss is NaN"), "{said}");
    assert!(said.contains("its batch contains the samples ["), "{said}");
    assert!(said.contains("there is no earlier checkpoint"), "{said}");
    assert!(said.contains("on_divergence = \"skip\""), "{said}");
    assert!(formwork::train::checkpoint::steps(&run).is_empty());
    let compared = crate::binary::output(&["compare", &run.display().to_string()]);
    assert!(compared.contains("diverged at step 2"), "{compared}");
    // Checkpoints that are due are not written either.
    let run = folder.path().join("saved");
    let sets = [
        "optimizer.lr=1e30",
        "train.clip_norm=0",
        "train.checkpoint_every=1",
    ];
    let said = String::from_utf8(train(&run, &sets).stderr).unwrap();
    assert!(said.contains("are not saved"), "{said}");
    assert!(formwork::train::checkpoint::steps(&run).is_empty());
}

#[test]
fn a_run_that_only_skips_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let sets = [
        "optimizer.lr=1e30",
        "train.clip_norm=0",
        "train.checkpoint_every=1000",
        "train.eval_every=1000",
        "train.on_divergence=skip",
    ];
    let ended = train(&run, &sets);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("20 steps in a row were skipped"), "{said}");
    let lines = journal::read(run.join("metrics.jsonl")).unwrap();
    let logged = lines.iter().find(|line| line.numbers.contains_key("lr"));
    // Step 1 was taken, steps 2 and 3 were not; the line of step 3 exists nevertheless.
    assert_eq!(logged.map(|line| line.step), Some(3));
}

#[test]
fn a_spike_stops_the_run_with_the_state_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let ended = train(
        &run,
        &[
            "train.spike_factor=1.001",
            "train.steps=200",
            "optimizer.lr=0.1",
        ],
    );
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let steps = formwork::train::checkpoint::steps(&run);
    let last = format!("is saved in {}", run.join("steps").display());
    assert!(said.contains(&last), "{said}");
    assert!(
        said.contains(&format!("{:08}", steps.last().unwrap())),
        "{said}"
    );
    formwork::train::checkpoint::Checkpoint::open(run.join("latest")).unwrap();
}

#[test]
fn spikes_are_left_out_and_logged_when_the_file_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let sets = [
        "train.spike_factor=1.001",
        "train.on_divergence=skip",
        "train.steps=200",
        "optimizer.lr=0.1",
    ];
    let ended = train(&run, &sets);
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let printed = String::from_utf8(ended.stdout).unwrap();
    assert!(printed.contains("steps were skipped"), "{printed}");
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let skipped: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &serde_json::Value| line["skipped"] == true)
        .collect();
    assert!(!skipped.is_empty());
    assert_eq!(skipped[0]["samples"].as_array().unwrap().len(), 8);
}

#[test]
fn a_run_that_no_longer_improves_stops_early() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    // With a learning rate of almost zero, nothing improves after the first evaluation.
    let sets = [
        "optimizer.lr=1e-30",
        "train.patience=2",
        "train.eval_every=2",
        "train.ema=0.5",
    ];
    let ended = train(&run, &sets);
    let printed = String::from_utf8(ended.stdout).unwrap();
    assert!(printed.contains("stopped early"), "{printed}");
    let evaluations = journal::read(run.join("metrics.jsonl"))
        .unwrap()
        .into_iter()
        .filter(|line| line.split == "valid")
        .count();
    assert!((3..10).contains(&evaluations), "{evaluations} evaluations");
}

#[test]
fn half_precision_is_one_setting() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let both = train(&run, &["train.dtype=bf16"]);
    let said = String::from_utf8(both.stderr).unwrap();
    assert_eq!(both.status.code(), Some(2), "{said}");
    assert!(
        said.contains("[train] ema needs dtype = \"f32\" or \"mixed_bf16\""),
        "{said}"
    );
    let tiny = fs::read_to_string("experiments/smoke/tiny.toml").unwrap();
    let file = folder.path().join("half.toml");
    fs::write(&file, tiny.replace("ema = 0.9", "dtype = \"bf16\"")).unwrap();
    let (file, shown) = (file.display().to_string(), run.display().to_string());
    output(&["train", &file, "--quiet", "--run", &shown]);
    let (status, said) = failure(&["resume", &shown, "--set", "train.dtype=f32"]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("train.dtype is \"bf16\" in the run"),
        "{said}"
    );
    let scores = output(&["eval", &shown, "--json"]);
    let scores: serde_json::Value = serde_json::from_str(scores.trim()).unwrap();
    assert!(scores["loss"].as_f64().unwrap() < 2.4, "{scores}");
}

/// Products of bfloat16 operands: losses are close to those of 32 bits and not equal, and a checkpoint's weights have 32 bits.
#[test]
fn products_of_bfloat16_follow_those_of_32_bits() {
    let folder = tempfile::tempdir().unwrap();
    let losses = |dtype: &str| -> Vec<f64> {
        let run = folder.path().join(dtype);
        let set = format!("train.dtype={dtype}");
        let ended = train(&run, &[&set, "train.steps=10"]);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.success(), "{said}");
        let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter_map(|line| line["loss"].as_f64()).collect()
    };
    let (whole, mixed) = (losses("f32"), losses("mixed_bf16"));
    assert_eq!(whole.len(), mixed.len());
    for (whole, mixed) in whole.iter().zip(&mixed) {
        assert!((whole - mixed).abs() < 5e-3, "{whole} and {mixed}");
    }
    assert_ne!(whole, mixed);
    let weights = folder
        .path()
        .join("mixed_bf16/steps/00000010/model.safetensors");
    let weights = fs::read(weights).unwrap();
    let weights = safetensors::SafeTensors::deserialize(&weights).unwrap();
    for (name, tensor) in weights.tensors() {
        assert_eq!(tensor.dtype(), safetensors::Dtype::F32, "{name}");
    }
}

/// Exact resume with products of bfloat16 operands: weights, moments and averaged weights.
#[test]
fn a_killed_run_of_mixed_bf16_ends_as_one_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let sets = [
        "train.dtype=mixed_bf16",
        "train.steps=40",
        "train.checkpoint_every=4",
    ];
    let [whole, killed] = ["whole", "killed"].map(|name| folder.path().join(name));
    let ended = train(&whole, &sets);
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    killed_and_resumed(&killed, "experiments/smoke/tiny.toml", &sets);
    for name in ["model.safetensors", "ema.safetensors", "optimizer.bpk"] {
        let [whole, killed] =
            [&whole, &killed].map(|run| fs::read(run.join("steps/00000040").join(name)).unwrap());
        assert!(whole == killed, "{name} differs");
    }
}
