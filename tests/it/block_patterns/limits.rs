//! Sparse patterns in their limits: equal to dense attention if every key is visible, the same numbers in decoding however the
//! text is cut into pieces, and faults of keys.

use super::{D, T, at_sizes, forward, input, near};
use crate::binary::failure;
use crate::oracle::values;
use burn::tensor::Device;
use formwork::kernel::{Span, Visibility};
use formwork::nn::layer::LayerContext;
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;
use serde_json::{Value, json};
use std::ops::Range;

/// Patterns that leave out no key.
#[test]
fn a_pattern_of_all_keys_is_dense_attention() {
    let dense = |heads: &Value| {
        let mut keys = heads.clone();
        keys["kind"] = json!("multi_head");
        keys
    };
    let heads = json!({ "n_heads": 4, "n_kv_heads": 2 });
    for (own, causal) in [
        (
            json!({ "kind": "local", "block": 50, "look_back": 0 }),
            false,
        ),
        (
            json!({ "kind": "local", "block": 50, "look_back": 0 }),
            true,
        ),
        (
            json!({ "kind": "local", "block": 10, "look_back": 4 }),
            false,
        ),
        (
            json!({ "kind": "strided", "stride": 49, "local_heads": 4 }),
            true,
        ),
        (
            json!({ "kind": "strided", "stride": 1, "local_heads": 0 }),
            true,
        ),
        (
            json!({ "kind": "fixed", "stride": 50, "local_heads": 4 }),
            true,
        ),
        (
            json!({ "kind": "fixed", "stride": 6, "summary": 6, "local_heads": 0 }),
            true,
        ),
        (
            json!({ "kind": "fixed", "stride": 6, "summary": 6, "merged": true }),
            true,
        ),
    ] {
        let mut keys = heads.clone();
        let table = keys.as_object_mut().unwrap();
        table.extend(own.as_object().unwrap().clone());
        let visible = Visibility {
            causal,
            lengths: Some([50, 31].into()),
            ..Visibility::default()
        };
        let wanted = forward(&at_sizes(&dense(&heads), causal), &visible, [50, 31]);
        let found = forward(&at_sizes(&keys, causal), &visible, [50, 31]);
        near(&keys.to_string(), &found, &wanted);
    }
}

/// A text read in pieces gives the outputs of one pass: long pieces, single positions, and several positions behind earlier
/// ones.
#[test]
fn decoding_sees_the_same_keys() {
    for keys in [
        json!({ "kind": "local", "n_heads": 4, "block": 6, "look_back": 1 }),
        json!({ "kind": "strided", "n_heads": 4, "n_kv_heads": 2, "stride": 5 }),
        json!({ "kind": "fixed", "n_heads": 4, "n_kv_heads": 2, "stride": 6, "summary": 2 }),
        json!({ "kind": "fixed", "n_heads": 4, "stride": 6, "summary": 2, "merged": true }),
    ] {
        let layer = at_sizes(&keys, true);
        let (pass, visible) = (Pass::evaluation(), Visibility::causal());
        let whole = forward(&layer, &visible, [T, T]);
        let reach = layer.layer().reach();
        let mut state = layer.layer().empty_state(StateUse::Decoding);
        let mut read = |range: Range<usize>| {
            let x = input(&Device::flex()).narrow(1, range.start, range.len());
            // As a stack counts positions for a layer that keeps only the newest keys.
            let dropped = reach.map_or(0, |reach| range.start.saturating_sub(reach));
            let span = Span {
                queries: range.len(),
                keys: range.end - dropped,
                offset: range.start - dropped,
            };
            let mut cx = LayerContext {
                visible: &visible,
                span,
                state: Some(&mut state),
                ..LayerContext::standalone(T, &pass)
            };
            let y = values(layer.layer().forward(x, &mut cx));
            for (row, y) in y.chunks(range.len() * D).enumerate() {
                let wanted = &whole[row * T * D..][range.start * D..range.end * D];
                near(&format!("{keys} {range:?} of row {row}"), y, wanted);
            }
        };
        read(0..17);
        (17..31).for_each(|at| read(at..at + 1));
        read(31..40);
        (40..T).for_each(|at| read(at..at + 1));
    }
}

#[test]
fn faults_of_their_keys() {
    for (file, keys, said) in [
        (
            "quickstart",
            "kind = \"local\", block = 0",
            "block = 0 is not between 1 and",
        ),
        (
            "quickstart",
            "kind = \"local\", look_ahead = 1",
            "look_ahead = 1 has no effect in a stack that reads from left to right",
        ),
        (
            "quickstart",
            "kind = \"big_bird\"",
            "kind = \"big_bird\" reads both ways, but this stack reads from left to right",
        ),
        (
            "systems/bigbird",
            "kind = \"strided\"",
            "kind = \"strided\" reads from left to right, but this stack reads both ways",
        ),
        (
            "systems/bigbird",
            "kind = \"big_bird\", random = 0, seed = 3",
            "seed has no effect without random blocks",
        ),
        (
            "quickstart",
            "kind = \"strided\", local_heads = 5",
            "local_heads = 5 is more than n_heads = 4",
        ),
        (
            "quickstart",
            "kind = \"fixed\", stride = 8, summary = 9",
            "summary = 9 is more than the positions of a block, stride = 8",
        ),
        (
            "quickstart",
            "kind = \"fixed\", merged = true, local_heads = 1",
            "local_heads = 1 has no effect with merged = true",
        ),
        (
            "quickstart",
            "kind = \"fixed\", local_heads = 4, summary = 2",
            "summary has no effect: local_heads leaves no head",
        ),
    ] {
        let set = format!("model.attention={{ n_heads = 4, {keys} }}");
        let file = format!("experiments/{file}.toml");
        let (status, text) = failure(&["check", &file, "--set", &set]);
        assert!(status == 2 && text.contains(said), "{keys}: {text}");
    }
    let set = "model.attention={ kind = \"fixed\", n_heads = 4 }";
    let alibi = "model.position={ kind = \"alibi\" }";
    let arguments = [
        "check",
        "experiments/quickstart.toml",
        "--set",
        set,
        "--set",
        alibi,
    ];
    let (status, text) = failure(&arguments);
    assert!(
        status == 2 && text.contains("cannot be used with attention of kind = \"fixed\""),
        "{text}"
    );
}
