//! Attention whose queries see few keys against torch under masks written out pair by pair
//! (`tests/goldens/make_block_patterns.py` makes the oracle), and its limits: dense attention where every key is seen, the same
//! numbers in decoding, whatever the pieces that a text is read in.

use crate::oracle::{Oracle, difference, values};
use crate::transfer::{Arrays, put};
use burn::tensor::{Device, Tensor, TensorData};
use formwork::interop::weights::Array;
use formwork::kernel::{Documents, ScoreBias, Span, Visibility};
use formwork::nn::attention::{Attention, AttentionConfig, AttentionShape};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::layer::LayerContext;
use formwork::nn::pass::Pass;
use formwork::nn::position::Prepared;
use formwork::nn::state::StateUse;
use serde_json::{Value, json};
use std::ops::Range;

const T: usize = 50;
const D: usize = 16;
const TOLERANCE: f64 = 1e-4;

pub fn near(name: &str, found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len(), "{name}");
    let far = found
        .iter()
        .zip(wanted)
        .map(|(a, b)| f64::from((a - b).abs()));
    let far = far.fold(0.0, f64::max);
    assert!(far < TOLERANCE, "{name} is off by {far:e}");
}

/// Attention of width 16 with some weights for inputs of up to 50 positions.
pub fn at_sizes(keys: &Value, causal: bool) -> Attention {
    build(keys, causal, &Device::flex())
}

fn build(keys: &Value, causal: bool, device: &Device) -> Attention {
    let config: AttentionConfig = serde_json::from_value(keys.clone()).unwrap();
    let shape = AttentionShape {
        causal,
        ..AttentionShape::alone(D, T)
    };
    let init = Init::new(device, 5, &InitConfig::default(), 1, 1.0);
    config.init(&shape, &init)
}

/// Two rows of inputs.
fn input(device: &Device) -> Tensor<3> {
    let numbers: Vec<f32> = (0..2 * T * D)
        .map(|i| ((i * 7 + i / 5) as f32 * 0.37).sin() * 10.0)
        .collect();
    Tensor::from_data(TensorData::new(numbers, [2, T, D]), device)
}

/// Outputs of two rows under some rules, the first so many of each.
pub fn forward(layer: &Attention, visible: &Visibility, lengths: [usize; 2]) -> Vec<f32> {
    let pass = Pass::evaluation();
    let x = input(&Device::flex());
    let mut cx = LayerContext {
        visible,
        ..LayerContext::alone(T, &pass)
    };
    let y = values(layer.layer().forward(x, &mut cx));
    let rows = y.chunks(T * D).zip(lengths);
    rows.flat_map(|(row, length)| row[..length * D].to_vec())
        .collect()
}

struct Case {
    name: &'static str,
    keys: Value,
    causal: bool,
    biased: bool,
    documents: bool,
}

fn cases() -> Vec<Case> {
    let case = |name, keys: Value, [causal, biased, documents]: [bool; 3]| {
        let mut all = json!({ "n_heads": 4, "n_kv_heads": 2, "bias": false });
        let table = all.as_object_mut().unwrap();
        table.extend(keys.as_object().unwrap().clone());
        Case {
            name,
            keys: all,
            causal,
            biased,
            documents,
        }
    };
    vec![
        case(
            "local",
            json!({ "kind": "local", "block": 8 }),
            [false, true, false],
        ),
        case(
            "local_causal",
            json!({ "kind": "local", "block": 8 }),
            [true, true, true],
        ),
        case(
            "local_alone",
            json!({ "kind": "local", "block": 7, "look_back": 0 }),
            [false, false, false],
        ),
        case(
            "local_far",
            json!({ "kind": "local", "block": 6, "look_back": 2, "look_ahead": 1 }),
            [false, false, false],
        ),
        // The root of 50.
        case("strided", json!({ "kind": "strided" }), [true, true, false]),
        case(
            "strided_documents",
            json!({ "kind": "strided", "stride": 7, "local_heads": 1 }),
            [true, true, true],
        ),
        case(
            "fixed",
            json!({ "kind": "fixed", "stride": 8, "summary": 3 }),
            [true, false, false],
        ),
        case(
            "fixed_documents",
            json!({ "kind": "fixed", "stride": 8, "summary": 3, "local_heads": 1 }),
            [true, false, true],
        ),
        case(
            "fixed_merged",
            json!({ "kind": "fixed", "stride": 9, "summary": 2, "merged": true }),
            [true, false, true],
        ),
    ]
}

fn array(oracle: &Oracle, name: &str) -> Array {
    let array = oracle.array(name);
    Array {
        shape: array.shape,
        values: array.values,
    }
}

fn leaf<const N: usize>(oracle: &Oracle, name: &str, device: &Device) -> Tensor<N> {
    let array = oracle.array(name);
    let shape: [usize; N] = array.shape.try_into().unwrap();
    Tensor::from_data(TensorData::new(array.values, shape), device).require_grad()
}

#[test]
fn patterns_are_masks_pair_by_pair() {
    let oracle = Oracle::open("block_patterns");
    let device = Device::flex().autodiff();
    let (_, documents) = oracle.integers("documents");
    for case in cases() {
        let name = case.name;
        let matrices = ["query", "key", "value", "output"];
        let weights: Arrays = matrices
            .iter()
            .map(|matrix| (format!("{matrix}.weight"), array(&oracle, matrix)))
            .collect();
        let layer = put(build(&case.keys, case.causal, &device), &weights);
        let [x, weight] = ["x", "weight"].map(|name| leaf::<3>(&oracle, name, &device));
        let bias = leaf::<2>(&oracle, "bias", &device);
        let visible = Visibility {
            causal: case.causal,
            documents: case.documents.then(|| Documents::new(&documents, T)),
            ..Visibility::default()
        };
        let prepared = Prepared {
            score_bias: match case.biased {
                true => ScoreBias::ByDistance(bias.clone()),
                false => ScoreBias::None,
            },
            ..Prepared::default()
        };
        let pass = Pass::evaluation();
        let mut cx = LayerContext {
            visible: &visible,
            prepared: &prepared,
            ..LayerContext::alone(T, &pass)
        };
        let y = layer.layer().forward(x.clone(), &mut cx);
        let check = |part: &str, found: Vec<f32>| {
            let wanted = oracle.array(&format!("{name}.{part}")).values;
            let off = difference(&found, &wanted);
            assert!(off < TOLERANCE, "{name}: {part} is off by {off:e}");
        };
        check("out", values(y.clone()));
        let grads = (y * weight).sum().backward();
        check("grad.x", values(x.grad(&grads).unwrap()));
        if case.biased {
            check("grad.bias", values(bias.grad(&grads).unwrap()));
        }
        let heads = heads(&layer);
        for (matrix, map) in
            matrices
                .iter()
                .zip([&heads.query, &heads.key, &heads.value, &heads.output])
        {
            let found = map.weight.val().grad(&grads).unwrap();
            check(&format!("grad.{matrix}"), values(found));
        }
    }
}

fn heads(layer: &Attention) -> &formwork::nn::attention::multi_head::MultiHead {
    match layer {
        Attention::Local(heads) | Attention::Strided(heads) | Attention::Fixed(heads) => heads,
        _ => panic!("a pattern of blocks"),
    }
}

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

/// A text in pieces gives what it gives at once: long ones, single positions, several at once behind others.
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
            // As a stack counts positions of a layer that keeps the newest alone.
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
                ..LayerContext::alone(T, &pass)
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
            "kind = \"big_bird\" reads both ways, and this stack reads from left to right",
        ),
        (
            "systems/bigbird",
            "kind = \"strided\"",
            "kind = \"strided\" reads from left to right, and this stack reads both ways",
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
            "summary = 9 is more than a block of stride = 8 has",
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
        let (status, text) = crate::binary::failure(&["check", &file, "--set", &set]);
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
    let (status, text) = crate::binary::failure(&arguments);
    assert!(
        status == 2 && text.contains("cannot be carried by attention of kind = \"fixed\""),
        "{text}"
    );
}
