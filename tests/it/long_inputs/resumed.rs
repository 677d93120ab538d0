//! Exact resume: a run that is killed after a checkpoint ends with the bytes of an uninterrupted one.

use super::{every_kind, inline};
use crate::binary::output;
use crate::recompute::killed_and_resumed;
use formwork::nn::attention::{AttentionConfig, ReadingDirection};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Returns weights, averages and optimizer moments of the last step, and the journal without its times.
fn outcome(run: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    let files = ["model.safetensors", "ema.safetensors", "optimizer.bpk"];
    let read = |name| {
        (
            name,
            fs::read(run.join("steps/00000016").join(name)).unwrap(),
        )
    };
    let mut all: BTreeMap<_, _> = files.map(read).into();
    let lines = formwork::train::journal::read(run.join("metrics.jsonl")).unwrap();
    let lines = lines.into_iter();
    let lines: Vec<String> = lines.map(|l| format!("{:?}", l.without_timing())).collect();
    all.insert("metrics.jsonl", lines.join("\n").into_bytes());
    all
}

/// Returns the experiment in which a kind is trained, and the keys that make it small: a decoder if it attends from left to
/// right, otherwise an encoder of texts.
fn experiment(keys: &Value) -> (&'static str, Vec<String>) {
    let config: AttentionConfig = serde_json::from_value(keys.clone()).unwrap();
    let mut sets = vec![
        format!("model.attention={}", inline(keys)),
        "model.position={ kind = \"learned\" }".into(),
        "model.dropout=0.1".into(),
        "train={ steps = 16, batch_size = 8, micro_batch_size = 4, eval_every = 8, checkpoint_every = 4, log_every = 3, ema = 0.9 }"
            .into(),
        "schedule.warmup_steps=5".into(),
    ];
    if config.facts().abilities().reads != ReadingDirection::Bidirectional {
        return ("experiments/smoke/tiny.toml", sets);
    }
    sets.extend(
        [
            "model.d_model=32",
            "model.n_layers=2",
            "data.valid_items=20",
        ]
        .map(Into::into),
    );
    if config.facts().sees_globals() {
        sets.push("task.global_tokens=\"first\"".into());
    }
    ("experiments/text_classification/listops.toml", sets)
}

#[test]
fn a_killed_run_of_every_kind_ends_as_one_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut kinds = every_kind();
    // A reversible stack, whose recomputation reuses the sorting orders of the forward pass.
    kinds.push(json!({ "kind": "lsh", "n_heads": 4, "chunk": 4, "reversible": true }));
    for (number, mut keys) in kinds.into_iter().enumerate() {
        let reversible = keys.as_object_mut().unwrap().remove("reversible");
        let (file, mut sets) = experiment(&keys);
        if reversible.is_some() {
            sets.push("model.reversible={}".into());
        }
        let [whole, killed] =
            ["whole", "killed"].map(|name| folder.path().join(format!("{number}-{name}")));
        let mut arguments = vec!["train", file, "--quiet"];
        for set in &sets {
            arguments.extend(["--set", set]);
        }
        let shown = whole.display().to_string();
        arguments.extend(["--run", &shown]);
        output(&arguments);
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        killed_and_resumed(&killed, file, &sets);
        let (wanted, found) = (outcome(&whole), outcome(&killed));
        for (name, wanted) in wanted {
            assert!(found[name] == wanted, "{keys}: {name} differs");
        }
    }
}
