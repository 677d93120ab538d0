//! Sparse attention patterns against torch under masks written out pair by pair (`tests/goldens/make_block_patterns.py` makes
//! the oracle), and their limits.

mod limits;

use crate::oracle::{Oracle, difference, values};
use crate::transfer::{Arrays, put};
use burn::tensor::{Device, Tensor, TensorData};
use formwork::interop::weights::Array;
use formwork::kernel::{Documents, ScoreBias, Visibility};
use formwork::nn::attention::{Attention, AttentionConfig, AttentionShape};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::layer::LayerContext;
use formwork::nn::pass::Pass;
use formwork::nn::position::Prepared;
use serde_json::{Value, json};

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

/// Attention of width 16 with fixed weights for inputs of up to 50 positions.
pub fn at_sizes(keys: &Value, causal: bool) -> Attention {
    build(keys, causal, &Device::flex())
}

fn build(keys: &Value, causal: bool, device: &Device) -> Attention {
    let config: AttentionConfig = serde_json::from_value(keys.clone()).unwrap();
    let shape = AttentionShape {
        causal,
        ..AttentionShape::standalone(D, T)
    };
    let init = Init::new(device, 5, InitConfig::default(), 1, 1.0);
    config.init(&shape, &init)
}

/// Two rows of inputs.
fn input(device: &Device) -> Tensor<3> {
    let numbers: Vec<f32> = (0..2 * T * D)
        .map(|i| ((i * 7 + i / 5) as f32 * 0.37).sin() * 10.0)
        .collect();
    Tensor::from_data(TensorData::new(numbers, [2, T, D]), device)
}

/// Returns the outputs of two rows under this visibility, each cut to its length.
pub fn forward(layer: &Attention, visible: &Visibility, lengths: [usize; 2]) -> Vec<f32> {
    let pass = Pass::evaluation();
    let x = input(&Device::flex());
    let mut cx = LayerContext {
        visible,
        ..LayerContext::standalone(T, &pass)
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
        // The default stride is √50.
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
            ..LayerContext::standalone(T, &pass)
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
