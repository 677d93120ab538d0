//! Per-block features of training for a Swin Transformer, whose blocks are in stages: recomputation of activations, and
//! layer-wise learning rates.

use super::contracts::{part, sample, swin, task};
use crate::binary::output;
use crate::model_details::{DECAYS, learns_at, weights};
use crate::recompute::{killed_and_resumed, last_weights, peak_of, trained};
use crate::transfer::gradients_of;
use formwork::data::Batch;
use formwork::train::gradients::accumulate;
use formwork::train::journal;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Maps of 7 by 7 and of 4 by 4 positions, which are padded with zeros for windows of three; the first is also padded for
/// merging.
const SWIN: &str = r#"
name = "stages"
seed = 3

[model]
kind = "swin"
patch_size = 4
window = 3
stages = [2, 2]
d_model = 8
n_heads = [2, 4]
dropout = 0.1
drop_path = 0.2

[data]
kind = "shapes"
size = 28
valid_items = 8

[task]
kind = "image_classification"

[optimizer]
kind = "adamw"
lr = 3e-3

[train]
steps = 12
batch_size = 8
micro_batch_size = 4
eval_every = 6
checkpoint_every = 3
log_every = 1
"#;

/// Writes the experiment's file and returns its path.
fn written(folder: &Path) -> String {
    let file = folder.join("stages.toml");
    fs::write(&file, SWIN).unwrap();
    file.display().to_string()
}

/// Shifted windows padded with zeros, and one window for the whole map, with patch merging; with dropout, in micro-batches.
#[test]
fn gradients_of_blocks_computed_anew_are_the_same_to_the_last_bit() {
    for mut changes in [
        json!({}),
        json!({ "window": 3, "stages": [3, 2] }),
        json!({ "window": 8, "qkv_bias": false }),
    ] {
        let dropouts = json!({ "dropout": 0.2, "dropout_attention": 0.1, "drop_path": 0.3 });
        let more = dropouts.as_object().unwrap().clone();
        changes.as_object_mut().unwrap().extend(more);
        let task = task(&swin(changes.clone()));
        let whole = sample(3, 6);
        let parts = [part(&whole, 0..1), part(&whole, 1..3)];
        let step = |recompute: bool| {
            let parts = parts
                .iter()
                .cloned()
                .map(|batch| Batch { recompute, ..batch });
            let step = accumulate(&task, parts.collect());
            let gradients = gradients_of(&task, &step.gradients);
            (step.output.loss.sum, gradients)
        };
        let ((stored, ours), (anew, theirs)) = (step(false), step(true));
        assert!(stored == anew, "{changes}: a loss of {anew}, not {stored}");
        assert!(ours.keys().eq(theirs.keys()), "{changes}");
        for (path, gradient) in &ours {
            assert!(*gradient == theirs[path], "{changes}: {path}");
        }
    }
}

/// Compares journals and last weights with recomputation and without, and killed and resumed.
#[test]
fn runs_end_with_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path());
    let run = |name: &str| folder.path().join(name);
    let told = |name: &str| -> Vec<String> {
        let lines = journal::read(run(name).join("metrics.jsonl")).unwrap();
        let lines = lines
            .into_iter()
            .map(|line| format!("{:?}", line.without_timing()));
        lines.collect()
    };
    let recompute = ["train.recompute=true"];
    output(&trained(&run("stored"), &file, &[]));
    output(&trained(&run("anew"), &file, &recompute));
    killed_and_resumed(&run("killed"), &file, &recompute);
    for name in ["anew", "killed"] {
        assert_eq!(told(name), told("stored"), "{name}");
        assert!(
            last_weights(&run(name)) == last_weights(&run("stored")),
            "{name}"
        );
    }
}

/// Memory that sixteen more blocks add to a step.
#[test]
fn a_block_keeps_its_input_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path());
    let peak = |blocks: usize, recompute: bool| {
        let stages = format!("model.stages=[{blocks}]");
        let recompute = format!("train.recompute={recompute}");
        let sets = [
            stages.as_str(),
            recompute.as_str(),
            "model.patch_size=2",
            "model.window=7",
            "model.d_model=48",
            "model.n_heads=[3]",
            "model.dropout=0.0",
            "model.drop_path=0.0",
            "train.batch_size=16",
            "train.micro_batch_size=16",
        ];
        peak_of(&file, &sets)
    };
    let grown = |recompute| peak(20, recompute) - peak(4, recompute);
    let (stored, anew) = (grown(false), grown(true));
    println!("16 more blocks: {stored:.0} MB stored, {anew:.0} MB computed anew");
    assert!(anew < 0.25 * stored, "{anew} MB against {stored} MB");
}

#[test]
fn a_plan_tells_the_memory_and_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path());
    let plan = |recompute: bool| -> Value {
        let recompute = format!("train.recompute={recompute}");
        let mut arguments = vec!["plan", file.as_str(), "--no-probe", "--json"];
        arguments.extend(["--set", "model.stages=[6, 6]", "--set", &recompute]);
        serde_json::from_str(&output(&arguments)).unwrap()
    };
    let kept = |plan: &Value| plan["memory_bytes"]["activations"].as_f64().unwrap();
    let work = |plan: &Value| plan["flops_per_item"].as_f64().unwrap();
    let (stored, anew) = (plan(false), plan(true));
    assert!(kept(&anew) < 0.4 * kept(&stored));
    let more = work(&anew) / work(&stored);
    assert!((1.2..1.34).contains(&more), "{more} times the work");
}

/// Over four blocks in two stages; the norm and the projection of patch merging belong to the last block before them.
#[test]
fn learning_rates_fall_over_the_blocks_of_all_stages() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path());
    let decayed = DECAYS.map(|decay| {
        let run = folder.path().join(decay);
        let init = format!("init.layer_lr_decay={decay}");
        let sets = [
            "model.dropout=0.0",
            "model.drop_path=0.0",
            "optimizer={ kind = \"sgd\", lr = 0.5 }",
            "train.steps=1",
            "train.eval_every=1",
            "train.checkpoint_every=1",
            &init,
        ];
        output(&trained(&run, &file, &sets));
        weights(&run.join("latest/model.safetensors"))
    });
    for (path, layers) in [
        ("model.stages.1.blocks.1.attention.value.weight", 1),
        ("model.stages.1.blocks.0.attention.value.weight", 2),
        ("model.stages.0.merging.reduction.weight", 3),
        ("model.stages.0.blocks.1.attention.value.weight", 3),
        ("model.stages.0.blocks.0.attention.value.weight", 4),
        ("model.stem.projection.weight", 5),
    ] {
        learns_at(&decayed, path, layers);
    }
}
