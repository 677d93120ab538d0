//! `diagnostics.jsonl` of whole runs: correct values, and training that is not affected.

use super::{lines, train};
use formwork::train::journal;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Returns the numbers of an object by part.
fn numbers(object: &Value) -> Vec<(&str, f64)> {
    let parts = object.as_object().unwrap().iter();
    parts
        .map(|(part, x)| (&part[..], x.as_f64().unwrap()))
        .collect()
}

#[test]
fn watching_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, watched) = (folder.path().join("plain"), folder.path().join("watched"));
    train(&plain, &[]);
    let copies = "journal={csv=true,tensorboard=true}";
    train(&watched, &["diagnostics.every=1", copies]);
    assert_eq!(lines(&watched.join("diagnostics.jsonl")).len(), 40);
    for file in ["model.safetensors", "ema.safetensors", "optimizer.bpk"] {
        let read = |run: &Path| fs::read(run.join("steps/00000040").join(file)).unwrap();
        assert!(read(&plain) == read(&watched), "{file} differs");
    }
    let timeless = |run: &Path| {
        let lines = journal::read(run.join("metrics.jsonl")).unwrap();
        let lines = lines
            .into_iter()
            .map(|line| format!("{:?}", line.without_timing()));
        lines.collect::<Vec<_>>()
    };
    assert_eq!(timeless(&plain), timeless(&watched));
}

#[test]
fn norms_are_those_of_the_accumulated_gradient_and_of_the_step() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    // Plain gradient descent: the update is the learning rate times the gradient.
    let descent = [
        "optimizer={kind=\"sgd\",lr=0.25,momentum=0.0,weight_decay=0.0}",
        "schedule={kind=\"constant\",warmup_steps=0}",
        "train.clip_norm=0.0",
        "train.log_every=1",
        "diagnostics.every=4",
    ];
    train(&run, &descent);
    let metrics = lines(&run.join("metrics.jsonl"));
    let diagnostics = lines(&run.join("diagnostics.jsonl"));
    assert_eq!(diagnostics.len(), 10);
    for line in &diagnostics {
        let own = |l: &&Value| l["step"] == line["step"] && l["split"] == "train";
        let global = metrics.iter().find(own).unwrap()["grad_norm"]
            .as_f64()
            .unwrap();
        let gradients = numbers(&line["gradient_norm"]);
        let parts: Vec<&str> = gradients.iter().map(|(part, _)| *part).collect();
        assert_eq!(parts, ["embedding", "blocks.0", "blocks.1", "final_norm"]);
        let sum: f64 = gradients.iter().map(|(_, norm)| norm * norm).sum();
        assert!((sum.sqrt() / global - 1.0).abs() < 1e-6, "{line}");
        for (update, gradient) in numbers(&line["update_norm"]).iter().zip(&gradients) {
            assert_eq!(update.0, gradient.0);
            // The precision that a float32 weight keeps of a small update.
            assert!(
                (update.1 / (0.25 * gradient.1) - 1.0).abs() < 1e-3,
                "{line}"
            );
        }
        let ratios = numbers(&line["update_ratio"]);
        assert!(
            ratios.iter().all(|(_, ratio)| *ratio > 0.0 && *ratio < 0.5),
            "{line}"
        );
        for readings in ["activation_rms", "attention_entropy"] {
            let blocks: Vec<&str> = numbers(&line[readings]).iter().map(|(p, _)| *p).collect();
            assert_eq!(blocks, ["blocks.0", "blocks.1"], "{readings}");
        }
    }
}

#[test]
fn only_what_is_asked_for_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let off =
        "diagnostics={every=40,gradient_norms=false,update_norms=false,attention_entropy=false}";
    train(&run, &[off]);
    let lines = lines(&run.join("diagnostics.jsonl"));
    let names = lines[0].as_object().unwrap().keys();
    let names: Vec<&str> = names.map(String::as_str).collect();
    assert_eq!((lines.len(), names), (1, vec!["step", "activation_rms"]));
}

#[cfg(target_os = "linux")]
#[test]
fn training_lines_say_how_much_memory_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &[]);
    for line in lines(&run.join("metrics.jsonl")) {
        match line["split"] == "train" {
            true => assert!(line["memory_mb"].as_f64().unwrap() > 1.0, "{line}"),
            false => assert!(line.get("memory_mb").is_none(), "{line}"),
        }
    }
}
