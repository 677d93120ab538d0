//! Stacks whose layers have position schemes of their own, or whose first layer has no norm of its own.

use serde_json::{Value, json};

/// The keys of each, over those of a decoder.
pub fn by_layer() -> Vec<(String, Value)> {
    let of_model = ["rotary", "none", "alibi", "shaw", "learned"];
    let first = ["pre", "sandwich"].map(|placement| {
        let keys = json!({ "norm_placement": placement, "first_norm": false });
        (format!("{placement}, no norm before the first layer"), keys)
    });
    of_model.into_iter().map(beside).chain(first).collect()
}

/// Windows with short rotary positions and a block with other ones, beside two with the model's.
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
