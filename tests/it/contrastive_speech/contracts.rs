//! Contracts of network and task: every parameter learns, padding changes nothing, choices are drawn by step and are the same in
//! all evaluations, one batch is learned.

use crate::ctc::cases::{batch, batch_with, shape};
use crate::task_contracts;
use burn::module::Module;
use burn::tensor::Device;
use burn::train::{InferenceStep, TrainStep};
use formwork::data::batch::Batch;
use formwork::model::{BuildContext, ModelConfig};
use formwork::task::{Objective, TaskConfig};
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

fn build(changes: &Value) -> Objective {
    let mut model = json!({
        "kind": "speech_encoder", "n_layers": 2, "d_model": 16, "norm_placement": "post", "embedding_norm": true,
        "position": { "kind": "none" }, "attention": { "kind": "multi_head", "n_heads": 2 },
        "features": { "widths": [6, 8], "sizes": [6, 3], "strides": [4, 2] },
        "convolutional_positions": { "size": 4, "groups": 2 }, "masks": { "time_share": 0.5, "time_width": 2 },
    });
    let mut task = json!({
        "kind": "contrastive_speech", "codebooks": 2, "entries": 5, "d_code": 8, "d_compared": 6, "negatives": 4,
    });
    for (table, key) in [(&mut model, "model"), (&mut task, "task")] {
        let more = changes[key].as_object().cloned().unwrap_or_default();
        table.as_object_mut().unwrap().extend(more);
    }
    let model: ModelConfig = serde_json::from_value(model).unwrap();
    let task: TaskConfig = serde_json::from_value(task).unwrap();
    let inputs = BuildContext {
        shape: &shape(),
        seed: 5,
        device: &Device::flex().autodiff(),
    };
    materialize(name_parameters(task.init(&model, &inputs, false).unwrap()))
}

fn kinds() -> Vec<Value> {
    vec![
        json!({}),
        json!({ "task": { "feature_penalty": 10.0, "feature_gradient": 0.1 } }),
        json!({ "model": { "norm_placement": "pre", "embedding_norm": false, "dropout": 0.1 }, "task": { "dropout_features": 0.1 } }),
        json!({ "task": { "codebooks": 1, "gumbel": { "from": 1.0, "to": 1.0, "decay": 1.0 } } }),
    ]
}

#[test]
fn every_parameter_learns_and_alike_each_time() {
    for kind in kinds() {
        task_contracts::every_parameter_learns(&kind.to_string(), &batch(), || build(&kind));
    }
}

#[test]
fn filling_changes_nothing() {
    for kind in kinds() {
        let both = [batch(), batch_with(3.0)];
        let found = task_contracts::filling_changes_nothing(&kind.to_string(), both, &build(&kind));
        assert!(!found.is_token_loss());
    }
}

#[test]
fn choices_are_drawn_by_step_and_rest_in_evaluation() {
    let task = build(&json!({}));
    let at = |step: u64| {
        let batch = Batch { step, ..batch() };
        TrainStep::step(&task, batch.into()).item.loss.sum
    };
    assert_eq!(at(3), at(3));
    let valid = task.valid();
    let evaluated = || InferenceStep::step(&valid, batch().into());
    let (one, two) = (evaluated(), evaluated());
    assert_eq!(one.loss, two.loss);
    for name in ["accuracy", "diversity_loss", "code_perplexity"] {
        assert_eq!(one.metrics[name], two.metrics[name], "{name}");
    }
    let most = one.metrics["code_perplexity"].mean();
    assert!((2.0..=10.0).contains(&most), "{most}");
}

#[test]
fn gradients_of_features_are_multiplied() {
    let norm = |factor: f64| {
        let task = build(&json!({ "task": { "feature_gradient": factor } }));
        let gradient = formwork::train::gradients::accumulate(&task, vec![batch()]);
        let of = crate::transfer::gradients_of(&task, &gradient.gradients);
        let squares = |path: &str| {
            let values = of[path].values.iter();
            values.map(|x| f64::from(*x).powi(2)).sum::<f64>()
        };
        [
            squares("model.features.convolutions.0.weight"),
            squares("model.projection.weight"),
        ]
    };
    let ([plain, above], [scaled, same]) = (norm(1.0), norm(0.5));
    assert!((scaled / plain - 0.25).abs() < 1e-4, "{plain} {scaled}");
    assert!((same / above - 1.0).abs() < 1e-5, "{above} {same}");
}

/// The masks, comparisons and noise of a step are the same each time.
#[test]
fn one_step_is_learnt_by_heart() {
    let loss = |task: &Objective| {
        let step = TrainStep::step(task, batch().into());
        step.item.loss.mean()
    };
    let before = build(&json!({}));
    let after = task_contracts::trained(before.clone(), &batch(), 5e-3, 300);
    let [before, after] = [before, after].map(|task| loss(&task));
    assert!(after < 0.5 * before, "{before} {after}");
}
