//! BEiT against transformers' (`tests/goldens/make_beit.py`): hidden states, logits, the loss, and the gradients of all
//! parameters, including relative position tables, and of the image.

use super::held_against;
use serde_json::{Value, json};

fn config(changes: Value) -> Value {
    let mut config = json!({
        "kind": "vision", "n_layers": 2, "d_model": 16, "stem": { "kind": "patches", "size": 4 },
        "pooling": "mean_then_norm", "final_norm": false,
        "norm": { "kind": "layer", "eps": 1e-12 }, "residual_scale": { "kind": "layer_scale" },
        "position": { "kind": "relative_bias_2d_per_layer" },
        "attention": { "kind": "multi_head", "n_heads": 2, "key_bias": false },
        "feed_forward": { "kind": "dense", "activation": "gelu", "d_ff": 24 },
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    config
}

#[test]
fn tables_of_each_layer_and_the_norm_of_the_mean_are_hf_s() {
    held_against("beit", "own", [3, 12, 12], config(json!({})));
}

#[test]
fn one_table_for_all_layers_and_a_class_token_are_hf_s() {
    let changes = json!({
        "pooling": "class", "final_norm": true, "residual_scale": { "kind": "none" }, "position": { "kind": "relative_bias_2d" },
    });
    held_against("beit", "shared", [1, 12, 12], config(changes));
}

#[test]
fn a_table_of_positions_in_their_place_is_hf_s() {
    let changes = json!({ "position": { "kind": "learned" } });
    held_against("beit", "learned", [3, 12, 12], config(changes));
}
