//! Swin V2 against transformers' (`tests/goldens/make_swinv2.py`): the last map, logits, the loss, and the gradients of all
//! parameters, including the networks of relative positions and the cosine scales, and of the image.

use super::held_against;
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::model::ModelConfig;
use formwork::plan::{ModelCost, PlanRequest, plan};
use serde_json::{Value, json};

fn config(changes: Value) -> Value {
    let mut config = json!({
        "kind": "swin", "key_bias": false, "scores": "cosines", "position_bias": "continuous", "norm_placement": "res_post",
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    config
}

#[test]
fn shifted_windows_of_cosines_are_hf_s() {
    let changes =
        json!({ "patch_size": 2, "window": 4, "stages": [2, 1], "d_model": 8, "n_heads": [2, 4] });
    held_against("swinv2", "shifted", [3, 16, 16], config(changes));
}

#[test]
fn a_map_smaller_than_a_window_has_its_own_distances() {
    let changes = json!({
        "patch_size": 1, "window": 4, "stages": [2, 2, 1], "d_model": 4, "n_heads": [1, 2, 2], "ff_ratio": 2.0,
    });
    held_against("swinv2", "oblong", [3, 8, 16], config(changes));
}

#[test]
fn networks_of_distances_that_learned_by_other_windows_are_hf_s() {
    let changes = json!({
        "patch_size": 2, "window": 4, "stages": [2, 2], "d_model": 4, "n_heads": [2, 2], "qkv_bias": false, "key_bias": true,
        "trained_windows": [3, 2],
    });
    held_against("swinv2", "trained", [1, 12, 12], config(changes));
}

/// Returns the cost of a model with a table or a network for relative positions, alone or as one of two networks.
fn planned(model: &Value, images: usize, recompute: bool) -> ModelCost {
    let model: ModelConfig = serde_json::from_value(model.clone()).unwrap();
    let shape = Shape {
        image: Some([3, 16, 16]),
        ..Shape::of_text(7, 23)
    };
    let question = PlanRequest {
        micro_batch_size: images,
        recompute,
        ..PlanRequest::of(&model, &shape)
    };
    plan(&question, &Device::default()).unwrap()
}

/// Windows of 4 × 4 have 49 distances, mapped through 512 units to 2 heads in two blocks and to 4 in one.
#[test]
fn plans_count_the_networks_of_distances_once_a_pass() {
    let products = (49 * 512 * (2 * (2 + 2) + (2 + 4))) as f64;
    let kept = [49 * (2 * (512 + 4) + (512 + 8)), 49 * (512 + 8)];
    let swin = |bias: &str| {
        json!({
            "kind": "swin", "patch_size": 2, "window": 4, "stages": [2, 1], "d_model": 8, "n_heads": [2, 4],
            "position_bias": bias,
        })
    };
    let text = json!({ "kind": "decoder", "n_layers": 2, "d_model": 16 });
    let towers = |bias: &str| json!({ "kind": "two_towers", "image": swin(bias), "text": text });
    let whole: [&dyn Fn(&str) -> Value; 2] = [&swin, &towers];
    for (model, images) in whole.into_iter().flat_map(|model| [(model, 1), (model, 8)]) {
        for (recompute, kept) in [false, true].into_iter().zip(kept) {
            let [with, without] =
                ["continuous", "table"].map(|bias| planned(&model(bias), images, recompute));
            let activations = |cost: &ModelCost| cost.memory_bytes["activations"];
            assert_eq!(activations(&with) - activations(&without), 4 * kept as u64);
            // Three passes, and a fourth with recomputation.
            let passes = if recompute { 4.0 } else { 3.0 };
            let more = with.flops_per_item - without.flops_per_item;
            assert_eq!(more, 2.0 * passes * products / images as f64);
        }
    }
}
