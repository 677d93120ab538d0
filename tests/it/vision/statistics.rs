//! The running averages of batch norms: state that is saved, averaged and passed on, and that no optimizer moves.

use super::collect;
use super::contracts::{resnet, sample, task, trained};
use crate::oracle::{difference, write_safetensors};
use burn::module::Module;
use burn::train::{InferenceStep, TrainStep};
use formwork::data::Content;
use formwork::train::ema::Ema;
use formwork::train::start::StartConfig;
use serde_json::json;

#[test]
fn evaluation_and_averages_leave_running_statistics_alone() {
    let config = resnet("basic", json!({ "kind": "batch" }));
    let fresh = task(&config);
    let ema = Ema::new(0.5, &fresh);
    let once = trained(fresh.clone(), &[sample(4, 2)]);
    let before = collect(&once, None);
    InferenceStep::step(&once.valid(), sample(3, 1));
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
    let start = StartConfig {
        freeze: vec!["norm".into()],
        ..StartConfig::default()
    };
    let held = start.frozen(task(&config)).unwrap();
    let before = collect(&held, None);
    let after = collect(&trained(held, &[sample(4, 2)]), None);
    for (path, value) in &before {
        let norm = path.contains("norm");
        assert_eq!(after[path] == *value, norm, "{path}");
    }
}

#[test]
fn another_run_s_statistics_are_taken_with_its_weights() {
    let config = resnet("basic", json!({ "kind": "batch" }));
    let once = trained(task(&config), &[sample(4, 2)]);
    let weights = collect(&once, None);
    let file = tempfile::NamedTempFile::new().unwrap();
    write_safetensors(file.path(), &weights);
    let start = StartConfig::default();
    let (begun, done) = start
        .transfer(task(&config), file.path(), &|_, _| None, false)
        .unwrap();
    assert_eq!(done.loaded.len(), weights.len());
    assert!(collect(&begun, None) == weights);
}

#[test]
fn statistics_that_are_not_finite_are_not_kept() {
    let config = resnet("basic", json!({ "kind": "batch" }));
    let task = task(&config);
    let mut batch = sample(2, 2);
    if let Content::Images(content) = &mut batch.content {
        content.pixels[3] = f32::NAN;
    }
    let loss = TrainStep::step(&task, batch).item.loss.mean();
    assert!(loss.is_nan());
    for (path, array) in collect(&task, None) {
        assert!(array.values.iter().all(|x| x.is_finite()), "{path}");
    }
}
