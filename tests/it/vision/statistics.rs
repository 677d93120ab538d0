//! The running averages of batch norms: state that is saved, averaged and transferred, and that no optimizer updates.

use super::collect;
use super::contracts::{resnet, sample, task, trained};
use crate::binary::{failure, output};
use crate::oracle::{difference, write_weights};
use burn::module::Module;
use burn::train::{InferenceStep, TrainStep};
use formwork::data::Content;
use formwork::train::checkpoint;
use formwork::train::ema::Ema;
use formwork::train::parameters;
use formwork::train::transfer::{GrownTables, Lengths, TransferConfig};
use serde_json::json;

#[test]
fn evaluation_and_averages_leave_running_statistics_alone() {
    let config = resnet("basic", json!({ "kind": "batch" }));
    let fresh = task(&config);
    let ema = Ema::new(0.5, &fresh);
    let once = trained(fresh.clone(), &[sample(4, 2)]);
    let before = collect(&once, None);
    InferenceStep::step(&once.valid(), sample(3, 1).into());
    assert!(before == collect(&once, None));
    let ema = ema.update(&once);
    let averaged = collect(ema.model(), None);
    let start = collect(&task(&config), None);
    for (path, value) in &averaged {
        let ends = start[path].values.iter().zip(&before[path].values);
        let half: Vec<f32> = ends.map(|(a, b)| 0.5 * a + 0.5 * b).collect();
        assert!(difference(&value.values, &half) < 1e-6, "{path}");
    }
}

#[test]
fn a_frozen_batch_norm_keeps_its_statistics() {
    let config = resnet("basic", json!({ "kind": "batch" }));
    let start = TransferConfig {
        freeze: vec!["norm".into()],
        ..TransferConfig::default()
    };
    let held = start.freeze_matching(task(&config)).unwrap();
    let before = collect(&held, None);
    let after = collect(&trained(held, &[sample(4, 2)]), None);
    for (path, value) in &before {
        let norm = path.contains("norm");
        assert_eq!(after[path] == *value, norm, "{path}");
    }
}

fn lengths(moved: bool, longer: &GrownTables) -> Lengths<'_> {
    Lengths {
        resample: &|_, _, _| None,
        positions_differ: moved,
        token_tables: longer,
    }
}

#[test]
fn another_run_s_statistics_are_taken_with_its_weights() {
    let config = resnet("basic", json!({ "kind": "batch" }));
    let once = trained(task(&config), &[sample(4, 2)]);
    let weights = collect(&once, None);
    let file = tempfile::NamedTempFile::new().unwrap();
    write_weights(file.path(), &weights);
    let start = TransferConfig::default();
    let (begun, done) = start
        .transfer(
            task(&config),
            file.path(),
            lengths(false, &GrownTables::new()),
            None,
            None,
        )
        .unwrap();
    assert_eq!(done.loaded.len(), weights.len());
    assert!(collect(&begun, None) == weights);
}

#[test]
fn what_is_new_begins_anew_though_it_is_there() {
    let config = resnet("basic", json!({ "kind": "batch" }));
    let weights = collect(&trained(task(&config), &[sample(4, 2)]), None);
    let file = tempfile::NamedTempFile::new().unwrap();
    write_weights(file.path(), &weights);
    let start = TransferConfig {
        new: vec!["^head".into()],
        ..TransferConfig::default()
    };
    // Without a position table, another grid of patches makes no difference.
    let (begun, done) = start
        .transfer(
            task(&config),
            file.path(),
            lengths(true, &GrownTables::new()),
            None,
            None,
        )
        .unwrap();
    let (begun, fresh) = (collect(&begun, None), collect(&task(&config), None));
    assert_eq!(
        done.new,
        ["head.weight", "head.bias"].map(String::from).to_vec()
    );
    for (path, value) in &begun {
        let from = if path.starts_with("head") {
            &fresh
        } else {
            &weights
        };
        assert!(from[path] == *value, "{path}");
    }
    assert!(begun["head.weight"] != weights["head.weight"]);
}

#[test]
fn statistics_that_are_not_finite_are_not_kept() {
    let config = resnet("basic", json!({ "kind": "batch" }));
    let task = task(&config);
    let mut batch = sample(2, 2);
    if let Content::Images(content) = &mut batch.content {
        content.pixels[3] = f32::NAN;
    }
    let loss = TrainStep::step(&task, batch.into()).item.loss.mean();
    assert!(loss.is_nan());
    for (path, array) in collect(&task, None) {
        assert!(array.values.iter().all(|x| x.is_finite()), "{path}");
    }
}

#[test]
fn statistics_can_be_put_back() {
    let config = resnet("basic", json!({ "kind": "batch" }));
    let task = task(&config);
    let (before, states) = (collect(&task, None), parameters::states(&task));
    TrainStep::step(&task, sample(4, 2).into());
    assert!(before != collect(&task, None));
    assert!(before == collect(&parameters::with_states(task, states), None));
}

const SMALL: &str = r#"
name = "small"
[model]
kind = "resnet"
blocks = "basic"
stages = [1]
width = 4
[data]
kind = "shapes"
size = 12
valid_items = 16
test_items = 16
[task]
kind = "image_classification"
[optimizer]
kind = "sgd"
lr = 0.5
[train]
steps = 60
batch_size = 8
spike_factor = 1.05
"#;

/// The saved state does not include the statistics of the step that ended the run.
#[test]
fn a_spike_leaves_the_state_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("small.toml"), SMALL).unwrap();
    let run = [
        "train",
        &path("small.toml"),
        "--quiet",
        "--run",
        &path("spike"),
    ];
    let (status, said) = failure(&run);
    assert_eq!(status, 1, "{said}");
    let last = *checkpoint::steps(&folder.path().join("spike"))
        .last()
        .unwrap();
    let steps = format!("train.steps={last}");
    let calm = [
        "train",
        &path("small.toml"),
        "--quiet",
        "--run",
        &path("calm"),
    ];
    let sets = ["--set", &steps, "--set", "train.spike_factor=1e9"];
    output(&[&calm[..], &sets[..]].concat());
    let weights = |run: &str| {
        let step = format!("steps/{last:08}/model.safetensors");
        std::fs::read(folder.path().join(run).join(step)).unwrap()
    };
    assert!(weights("spike") == weights("calm"));
}
