//! Less common norms and residual scales, at every norm placement.

use serde_json::{Value, json};

/// Returns names and keys that are merged into those of a decoder.
pub fn placed() -> Vec<(String, Value)> {
    // Embeddings with deviation 0.02 would reach only the linear middle of a tanh.
    let wide = json!({ "kind": "gpt2", "std": 0.2, "depth_scaled": false });
    let norms = [
        json!({ "norm": { "kind": "scale" } }),
        json!({ "norm": { "kind": "dynamic_tanh" }, "init": wide }),
    ];
    let scales = [
        json!({ "residual_scale": { "kind": "layer_scale", "init": 0.4 } }),
        json!({ "residual_scale": { "kind": "rezero", "init": 0.3 } }),
    ];
    let placements = ["pre", "post", "sandwich", "parallel", "deepnorm"];
    let admin = json!({ "residual_scale": { "kind": "admin" }, "norm_placement": "post" });
    let all = norms.into_iter().chain(scales).flat_map(|keys| {
        placements.map(|placement| {
            let mut keys = keys.clone();
            keys["norm_placement"] = json!(placement);
            (keys.to_string(), keys)
        })
    });
    all.chain([(admin.to_string(), admin)]).collect()
}
