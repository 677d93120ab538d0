//! Twenty steps of training through the binary, with dropout: the losses on the device equal flex's within 1e-3.

use std::path::Path;

use super::{name, tunes_alone};
use crate::binary::output;
use crate::ranks::experiments::Files;

/// Returns the losses of a run of twenty steps with further settings.
fn losses(files: &Files, device: &str, more: &[&str]) -> Vec<f64> {
    let run = files.path(device);
    let experiment = files.path("x.toml");
    let shown = |path: &Path| path.display().to_string();
    let settings = [
        "train.steps=20",
        "train.log_every=1",
        "train.eval_every=20",
        "train.checkpoint_every=20",
    ];
    let mut arguments = vec!["train".to_string(), shown(&experiment), "--quiet".into()];
    arguments.extend([
        "--device".into(),
        device.into(),
        "--run".into(),
        shown(&run),
    ]);
    for setting in settings.iter().chain(more) {
        arguments.extend(["--set".into(), setting.to_string()]);
    }
    output(&arguments);
    let lines = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = lines.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["loss"].as_f64()
    });
    lines.flatten().collect()
}

fn same_losses(files: &Files, more: &[&str]) {
    let Some(device) = name() else { return };
    let _alone = tunes_alone();
    let [ours, flex] = [device.as_str(), "flex"].map(|device| losses(files, device, more));
    assert!(flex.len() >= 20, "{flex:?}");
    assert_eq!(ours.len(), flex.len());
    for (step, (a, b)) in ours.iter().zip(&flex).enumerate() {
        assert!((a - b).abs() < 1e-3, "step {step}: {a} instead of {b}");
    }
}

#[test]
fn a_decoder() {
    same_losses(&Files::language_model(), &[]);
}

/// Blocks are recomputed in the backward pass.
#[test]
fn a_decoder_that_recomputes() {
    same_losses(&Files::language_model(), &["train.recompute=true"]);
}

#[test]
fn an_encoder_decoder() {
    same_losses(&Files::translation(), &[]);
}

#[test]
fn a_vision_transformer() {
    same_losses(&Files::images(), &[]);
}
