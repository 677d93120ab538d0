//! RWKV-7 against the model of flash-linear-attention in double precision (`tests/goldens/make_rwkv7.py`): logits and every
//! gradient, recomputed blocks, the recurrence by itself, initial values, and which layer computes the first values.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use formwork::data::Shape;
use formwork::kernel::Sequences;
use formwork::kernel::generalized_delta::{GeneralizedDelta, composed, generalized_delta};
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig, LanguageModel};
use formwork::nn::pass::Pass;
use formwork::train::parameters::{materialize, name_parameters};

use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, values};
use crate::transfer::{Arrays, gradients_of, put, values_of};

const VOCAB: usize = 19;
const LENGTH: usize = 40;
const HEAD: usize = 8;

const LAYERS: &str = r#"
[[layers]]
repeat = 3
mixer = { kind = "rwkv7", d_head = 8, decay_rank = 5, rate_rank = 4, value_rank = 3, gate_rank = 6, norm_eps = 8e-5 }
feed_forward = { kind = "rwkv7", d_ff = 24 }
"#;

fn decoder(layers: &str) -> Decoder {
    let keys = "d_model = 16\ntie_embeddings = false\nembedding_norm = true\nposition = { kind = \"none\" }\n";
    let config: DecoderConfig = toml::from_str(&format!("{keys}{layers}")).unwrap();
    let model = config.init(&BuildContext {
        shape: &Shape::of_text(LENGTH, VOCAB),
        seed: 5,
        device: &Device::flex().autodiff(),
    });
    materialize(name_parameters(model))
}

fn stored<const D: usize>(oracle: &Oracle, name: &str) -> Tensor<D> {
    let (array, device) = (oracle.array(name), Device::flex().autodiff());
    Tensor::from_data(TensorData::new(array.values, array.shape), &device)
}

/// Returns the logits of the golden's model with its weights, and all gradients of its loss.
fn read(oracle: &Oracle, layers: &str, pass: &Pass) -> (Vec<f32>, Arrays) {
    let parts = ["embedding.", "stack.", "head."];
    let is_weight = |name: &str| parts.iter().any(|part| name.starts_with(part));
    let weights = oracle.arrays(|name| is_weight(name).then_some(name));
    let model = put(decoder(layers), &weights);
    let (shape, ids) = oracle.integers("input_ids");
    let ids = Tensor::from_data(TensorData::new(ids, shape), &Device::flex().autodiff());
    let hidden = model.forward(DecoderInput::new(ids), None, pass);
    let logits = model.logits(hidden);
    let loss = (logits.clone() * stored(oracle, "weights")).sum();
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    (values(logits), gradients_of(&model, &gradients))
}

#[test]
fn the_model_is_that_of_flash_linear_attention() {
    let oracle = Oracle::open("rwkv7");
    let passes = [
        ("stored", Pass::evaluation()),
        ("anew", Pass::evaluation().with_recomputation()),
    ];
    for (name, pass) in passes {
        let (logits, gradients) = read(&oracle, LAYERS, &pass);
        let off = difference(&logits, &oracle.array("logits").values);
        assert!(off < TOLERANCE, "{name}: logits are off by {off:e}");
        for (path, found) in gradients {
            let wanted = oracle.array(&format!("grad.{path}"));
            assert_eq!(found.shape, wanted.shape, "{path}");
            let off = difference(&found.values, &wanted.values);
            assert!(
                off < TOLERANCE,
                "{name}: gradient of {path} is off by {off:e}"
            );
        }
    }
}

/// The golden would detect a change of any key.
#[test]
fn the_golden_sees_its_details() {
    let oracle = Oracle::open("rwkv7");
    let wanted = oracle.array("logits").values;
    for (key, other) in [
        ("norm_eps = 8e-5", "norm_eps = 64e-5"),
        ("d_head = 8", "d_head = 4"),
    ] {
        let (logits, _) = read(&oracle, &LAYERS.replace(key, other), &Pass::evaluation());
        let off = difference(&logits, &wanted);
        assert!(off > 2.0 * TOLERANCE, "{other} is not seen: {off:e}");
    }
}

#[test]
fn the_recurrence_is_that_of_flash_linear_attention() {
    let oracle = Oracle::open("rwkv7");
    let names = ["r", "decay", "k", "v", "a", "b"];
    let before: Tensor<4> = stored(&oracle, "rule.before");
    let [rows, heads, ..] = before.dims();
    for fused in [true, false] {
        let leaves = names.map(|name| stored::<3>(&oracle, &format!("rule.{name}")).require_grad());
        let [r, decay, k, v, a, b] = leaves.clone();
        let rule = GeneralizedDelta {
            r,
            decay,
            k,
            v,
            a,
            b,
            state: Some(before.clone().reshape([rows, heads * HEAD * HEAD])),
            d_head: HEAD,
        };
        let none = Sequences::default();
        let (y, state) = match fused {
            true => generalized_delta(rule, &none, true),
            false => {
                let (y, state) = composed::generalized_delta(rule, &none);
                (y, Some(state))
            }
        };
        let grads = (y.clone() * stored(&oracle, "rule.weights"))
            .sum()
            .backward();
        let mut found = vec![
            ("y".to_string(), values(y)),
            ("state".to_string(), values(state.unwrap())),
        ];
        for (name, leaf) in names.iter().zip(&leaves) {
            found.push((format!("grad.{name}"), values(leaf.grad(&grads).unwrap())));
        }
        for (name, found) in found {
            let wanted = oracle.array(&format!("rule.{name}")).values;
            let off = difference(&found, &wanted);
            assert!(off < 1e-5, "fused {fused}: {name} is off by {off:e}");
        }
    }
}

#[test]
fn vectors_begin_as_in_flash_linear_attention() {
    let oracle = Oracle::open("rwkv7");
    let fresh = values_of(&decoder(LAYERS));
    let first = oracle.arrays(|name| name.strip_prefix("first."));
    assert!(first.len() > 40);
    for (path, wanted) in first {
        let off = difference(&fresh[&path].values, &wanted.values);
        assert!(off < 1e-6, "{path} is off by {off:e}");
    }
}

/// Attention blocks compute no first values: the first RWKV-7 layer does, and has no gate for them.
#[test]
fn the_first_layer_of_its_kind_makes_the_values() {
    let attention = "[[layers]]\nattention = { kind = \"multi_head\", n_heads = 2 }\n";
    let gates = |layers: &str| {
        let model = values_of(&decoder(layers));
        let has = |block: &usize| {
            let path = format!("stack.blocks.{block}.mixer.residual.up.weight");
            model.contains_key(&path)
        };
        (0..4).filter(has).collect::<Vec<usize>>()
    };
    assert_eq!(gates(&format!("{LAYERS}{attention}")), [1, 2]);
    assert_eq!(gates(&format!("{attention}{LAYERS}")), [2, 3]);
    let apart = LAYERS.replace("value_rank = 3", "value_residual = false");
    assert_eq!(gates(&apart), [0; 0]);
}
