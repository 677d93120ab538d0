//! DINOv2 against transformers' (`tests/goldens/make_dinov2.py`): hidden states, logits from the class token and the mean over
//! patches, the loss, and the gradients of all parameters, including residual scales and registers, and of the image.

use super::held_against;
use serde_json::{Value, json};

fn config(changes: Value) -> Value {
    let mut config = json!({
        "kind": "vision", "n_layers": 2, "d_model": 16, "stem": { "kind": "patches", "size": 4 }, "pooling": "class_and_mean",
        "norm": { "kind": "layer", "eps": 1e-6 }, "residual_scale": { "kind": "layer_scale" },
        "attention": { "kind": "multi_head", "n_heads": 4 },
        "feed_forward": { "kind": "dense", "activation": "gelu", "d_ff": 32 },
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    config
}

#[test]
fn gains_of_results_and_the_two_parts_of_a_head_are_hf_s() {
    held_against("dinov2", "plain", [3, 12, 12], config(json!({})));
}

#[test]
fn registers_and_gated_layers_are_hf_s() {
    let changes = json!({
        "n_registers": 3,
        "attention": { "kind": "multi_head", "n_heads": 4, "bias": false, "out_bias": true },
        "feed_forward": { "kind": "gated", "activation": "silu", "d_ff": 24, "bias": true },
    });
    held_against("dinov2", "registers", [1, 12, 12], config(changes));
}
