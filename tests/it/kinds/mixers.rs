//! Layers in place of attention.

use serde_json::json;

/// Layers in place of attention: alone, combined with it, and in stacks other than their usual ones.
pub fn mixers() -> Vec<(String, serde_json::Value)> {
    let attention = json!({ "attention": { "kind": "multi_head", "n_heads": 4 } });
    let rwkv = json!({ "mixer": { "kind": "rwkv", "width": 12 }, "feed_forward": { "kind": "rwkv", "d_ff": 20 } });
    let plain =
        json!({ "kind": "mamba", "d_state": 3, "d_conv": 1, "bias": true, "conv_bias": false });
    let mamba = json!({ "mixer": { "kind": "mamba", "dt_rank": 3 } });
    let dual = json!({ "mixer": { "kind": "mamba2", "d_state": 5, "d_head": 4, "n_groups": 2 } });
    let odd = json!({ "kind": "mamba2", "d_state": 3, "d_head": 8, "d_conv": 1, "bias": true, "conv_bias": false,
                      "dt_limit": [0.01, 0.9] });
    let delta = json!({ "mixer": { "kind": "gated_delta", "n_heads": 4, "n_key_heads": 2, "d_key": 5, "d_value": 6 } });
    let net = json!({ "kind": "gated_delta", "n_heads": 2, "d_conv": 1, "decay": false, "gate": false, "negative_eigenvalues": true });
    let kept = json!({ "mixer": { "kind": "retention", "n_heads": 2, "d_key": 6, "d_value": 5 } });
    let plain_kept = json!({ "kind": "retention", "n_heads": 4, "rotation": false, "gate": false });
    let goose = json!({ "mixer": { "kind": "rwkv7", "d_head": 8, "decay_rank": 3, "rate_rank": 4, "value_rank": 5, "gate_rank": 6 },
                        "feed_forward": { "kind": "rwkv7", "d_ff": 20 } });
    let apart = json!({ "mixer": { "kind": "rwkv7", "d_head": 4, "value_residual": false, "decay_rank": 3 }, "feed_forward": { "kind": "dense" } });
    let alone =
        |layers: serde_json::Value| json!({ "layers": layers, "position": { "kind": "none" } });
    let mut all = vec![
        ("mamba".to_string(), alone(json!([mamba]))),
        ("mamba2".to_string(), alone(json!([dual]))),
        ("gated_delta".to_string(), alone(json!([delta]))),
        ("retention".to_string(), alone(json!([kept]))),
        ("rwkv".to_string(), alone(json!([rwkv]))),
        ("rwkv7".to_string(), alone(json!([goose]))),
        (
            "attention before rwkv7 whose values go from layer to layer".to_string(),
            json!({ "n_layers": 4, "position": { "kind": "rotary" }, "layers": [attention, goose, apart, goose] }),
        ),
        (
            "rwkv7 with share_layers".to_string(),
            json!({ "n_layers": 3, "layers": [goose], "position": { "kind": "none" }, "share_layers": { "kind": "all" } }),
        ),
        (
            "reversible rwkv7 without earlier values".to_string(),
            json!({ "layers": [apart], "position": { "kind": "none" }, "reversible": {}, "embedding_norm": true }),
        ),
        (
            "a plain retention without rotation or gate, and attention".to_string(),
            json!({ "position": { "kind": "rotary" },
                    "layers": [{ "mixer": plain_kept, "feed_forward": { "kind": "gated" } }, attention] }),
        ),
        (
            "a parallel mamba without neighbours".to_string(),
            json!({ "norm_placement": "parallel", "position": { "kind": "learned" },
                    "layers": [{ "mixer": plain, "feed_forward": { "kind": "dense" } }] }),
        ),
        (
            "a mamba2 of limited steps and attention".to_string(),
            json!({ "position": { "kind": "learned" },
                    "layers": [{ "mixer": odd, "feed_forward": { "kind": "dense" } }, attention] }),
        ),
        (
            "a plain delta rule without neighbours or gate, and attention".to_string(),
            json!({ "position": { "kind": "rotary" },
                    "layers": [{ "mixer": net, "feed_forward": { "kind": "gated" } }, attention] }),
        ),
        (
            "rwkv, mamba and attention with rotation".to_string(),
            json!({ "n_layers": 3, "position": { "kind": "rotary" }, "layers": [rwkv, mamba, attention] }),
        ),
        (
            "reversible rwkv".to_string(),
            json!({ "layers": [rwkv], "position": { "kind": "none" }, "reversible": {}, "embedding_norm": true }),
        ),
        (
            "rwkv's feed-forward layers behind attention with share_layers".to_string(),
            json!({ "feed_forward": { "kind": "rwkv" }, "share_layers": { "kind": "all" } }),
        ),
    ];
    for kind in ["elman", "gru", "lstm"] {
        let layers = json!([{ "mixer": { "kind": kind }, "feed_forward": { "kind": "dense" } }]);
        all.push((format!("mixer {kind}"), alone(layers)));
    }
    all
}
