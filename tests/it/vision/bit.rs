//! Pre-activation residual networks against timm's (`tests/goldens/make_bit.py`): logits, the loss, and the gradients of all
//! parameters and of the image.

use super::{classifier, collect, tensor, with_weights};
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, values};
use burn::tensor::{Device, Tensor};
use formwork::kernel::cross_entropy_sum;
use formwork::model::ModelConfig;
use formwork::nn::pass::Pass;
use formwork::task::ImageClassificationConfig;
use formwork::train::parameters::name_parameters;
use serde_json::{Value, json};

/// Checks the network of a case, whose arrays have this prefix.
fn check(prefix: &str, norm: Value, standardized: bool) {
    let (oracle, device) = (Oracle::open("bit"), Device::flex().autodiff());
    let model: ModelConfig = serde_json::from_value(json!({
        "kind": "resnet", "blocks": "bottleneck", "stages": [2, 1], "width": 8, "stem": "large", "preactivation": true,
        "norm": norm, "standardized": standardized,
    }))
    .unwrap();
    let task = classifier(
        &model,
        &ImageClassificationConfig::default(),
        [3, 21, 18],
        5,
    );
    let arrays = |kind: &str| {
        let prefix = format!("{prefix}{kind}.");
        oracle.arrays(|name| name.strip_prefix(&prefix))
    };
    let task = with_weights(name_parameters(task), &arrays("weight"));
    let array = |name: &str| oracle.array(&format!("{prefix}{name}"));
    let near = |what: &str, ours: &[f32], theirs: &[f32]| {
        let off = difference(ours, theirs);
        assert!(off < TOLERANCE, "{prefix}{what} is off by {off:e}");
    };
    let pixels = tensor::<4>(&array("pixels"), &device).require_grad();
    let features = task.model.pooled(pixels.clone(), &Pass::evaluation());
    let logits = formwork::model::heads::class_scores(&task.head, features);
    near("logits", &values(logits.clone()), &array("logits").values);
    let (_, labels) = oracle.integers(&format!("{prefix}labels"));
    let labels_there = Tensor::from_data(&labels[..], &logits.device());
    let loss = cross_entropy_sum(logits, labels_there, 0.0) / labels.len() as f64;
    near("loss", &values(loss.clone()), &array("loss").values);
    let gradients = loss.backward();
    let found = collect(&task, Some(&gradients));
    let wanted = arrays("grad");
    assert!(found.keys().eq(wanted.keys()), "{prefix}: other gradients");
    for (path, theirs) in &wanted {
        near(path, &found[path].values, &theirs.values);
    }
    let of_pixels = pixels.grad(&gradients).unwrap();
    near(
        "grad_pixels",
        &values(of_pixels),
        &array("grad_pixels").values,
    );
}

#[test]
fn group_norm_and_standardised_weights_are_timm_s() {
    check("", json!({ "kind": "group", "groups": 4 }), true);
}

#[test]
fn batch_norm_in_use_is_timm_s() {
    check("plain.", json!({ "kind": "batch" }), false);
}
