//! Swin V2 against transformers' (`tests/goldens/make_swinv2.py`): the last map, scores, the loss, and the gradients of all parameters,
//! those of networks of distances and of what cosines are multiplied by among them, and of the image.

use super::held_against;
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
