//! Positions that differ from their defaults; stacks whose layers have their own position schemes, or whose first layer has no
//! norm.

use serde_json::{Value, json};

/// Position schemes that differ from their kind's defaults, in a model of width 16 with inputs of up to 16 tokens.
pub fn of_their_own() -> Vec<(String, Value)> {
    let v3 = json!({
        "kind": "disentangled", "max_distance": 6, "buckets": 4, "shared_projections": true,
        "norm": { "kind": "layer" },
    });
    let all = [
        json!({
            "kind": "shaw", "clip": 3, "shared_heads": false, "values": false, "content_bias": true,
            "distance_bias": true,
        }),
        json!({ "kind": "transformer_xl", "untie_r": true, "clamp_len": 4 }),
        json!({ "kind": "disentangled", "max_distance": 3, "terms": ["c2p"] }),
        json!({ "kind": "disentangled", "max_distance": 3, "terms": ["p2c"] }),
        v3,
        json!({ "kind": "kerple", "form": "power" }),
        json!({ "kind": "dynamic_bias", "hidden": 5, "depth": 1, "log_distance": true }),
        json!({ "kind": "axial", "axial_shape": [4, 5], "axial_widths": [5, 11] }),
        json!({ "kind": "axial", "joined": "sum" }),
        json!({ "kind": "learned_2d", "joined": "sum" }),
    ];
    all.map(|keys| (keys.to_string(), keys)).into()
}

/// Returns names and keys that are merged into those of a decoder.
pub fn by_layer() -> Vec<(String, Value)> {
    let of_model = ["rotary", "none", "alibi", "shaw", "learned"];
    let first = ["pre", "sandwich"].map(|placement| {
        let keys = json!({ "norm_placement": placement, "first_norm": false });
        (format!("{placement}, no norm before the first layer"), keys)
    });
    of_model.into_iter().map(beside).chain(first).collect()
}

/// A block of windows with local rotary positions and a block with another scheme, beside two blocks with the model's scheme.
fn beside(of_model: &str) -> (String, Value) {
    let heads = json!({ "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2 });
    let window = json!({ "kind": "sliding_window", "n_heads": 4, "window": 3 });
    let near = json!({ "kind": "rotary", "theta": 100.0, "fraction": 0.5 });
    let mut other = json!({ "attention": heads });
    match of_model {
        "none" => {}
        "learned" => other["position"] = json!({ "kind": "alibi" }),
        _ => other["position"] = json!({ "kind": "none" }),
    }
    let layers = json!([
        { "attention": window, "position": near, "feed_forward": { "kind": "dense" } },
        other,
        { "repeat": 2, "attention": heads },
    ]);
    let keys = json!({ "n_layers": 4, "position": { "kind": of_model }, "layers": layers });
    (
        format!("{of_model}, and other positions in some blocks"),
        keys,
    )
}
