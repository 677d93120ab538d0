//! Positions that are functions of distance: KERPLE, FIRE, dynamic position bias and xPos, against the papers' formulas and
//! x-transformers (`tests/goldens/make_position_functions.py`), then in whole decoders.

use crate::contracts::{ids, near};
use crate::oracle::{Oracle, difference, values};
use crate::transfer::{gradients_of, put, values_of};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use formwork::data::Shape;
use formwork::kernel::diagonals_to_pairs;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig, LanguageModel};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::pass::Pass;
use formwork::nn::position::{
    AttentionView, HeadProjections, Position, PositionConfig, PositionShape, Prepared, ScoreBias,
    Span,
};
use formwork::nn::state::StateUse;
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

const HEADS: usize = 3;
const LENGTH: usize = 7;
const TOLERANCE: f64 = 2e-6;

/// Builds the scheme of a golden's case, in a model of one layer.
fn scheme(oracle: &Oracle, case: &str) -> Position {
    let configs: Value = serde_json::from_str(&oracle.config()).unwrap();
    let config: PositionConfig = serde_json::from_value(configs[case].clone()).unwrap();
    let shape = PositionShape {
        d_model: 24,
        n_heads: HEADS,
        d_head: 8,
        n_layers: 1,
        context: LENGTH,
        causal: true,
        grid: None,
        layers_without_attention: Vec::new(),
        layers_sharing_parameters: Vec::new(),
        dropout: 0.0,
    };
    let device = Device::flex().autodiff();
    let init = Init::new(&device, 3, InitConfig::default(), 1, 1.0);
    let scheme = materialize(name_parameters(config.init(&shape, &init)));
    let mut parameters = values_of(&scheme);
    for (path, array) in &mut parameters {
        *array = oracle.array(&named(oracle, case, "parameter", path));
    }
    put(scheme, &parameters)
}

/// Returns the golden's name for the array `of` of a parameter.
fn named(oracle: &Oracle, case: &str, of: &str, path: &str) -> String {
    let prefix = format!("{case}.{of}.");
    let ends = |name: &&String| {
        let rest = name.strip_prefix(&prefix);
        rest.is_some_and(|rest| path == rest || path.ends_with(&format!(".{rest}")))
    };
    let names = oracle.names();
    // `hidden.bias` must not match `bias` of another map, so the longest matching name is taken.
    let found = names.iter().filter(ends).max_by_key(|name| name.len());
    found
        .unwrap_or_else(|| panic!("{case} has no {path}"))
        .clone()
}

fn stored<const D: usize>(oracle: &Oracle, name: &str) -> Tensor<D> {
    let array = oracle.array(name);
    Tensor::from_data(
        TensorData::new(array.values, array.shape),
        &Device::flex().autodiff(),
    )
}

/// Projections, which none of these schemes uses.
struct NoMaps;

impl HeadProjections for NoMaps {
    fn queries(&self, _: Tensor<2>) -> Tensor<3> {
        unreachable!("functions of distance project nothing")
    }

    fn keys(&self, _: Tensor<2>) -> Tensor<3> {
        unreachable!("functions of distance project nothing")
    }
}

/// Returns the first layer's bias of each score, `[heads, queries, keys]`.
fn bias(position: &Position, span: Span) -> Tensor<3> {
    let device = Device::flex().autodiff();
    let prepared = position.scheme().prepare(span, &device);
    let own = position.scheme().score_bias(&AttentionView {
        layer: 0,
        span,
        scale: 1.0,
        heads: &NoMaps,
        prepared: &Prepared::default(),
        cached_table: None,
        device: &device,
        pass: &Pass::evaluation(),
    });
    match own.unwrap_or(prepared.score_bias) {
        ScoreBias::None => panic!("a function of distance is a bias"),
        ScoreBias::ByDistance(bias) => {
            let [heads, distances] = bias.dims();
            let rows = bias.reshape([1, heads, 1, distances]);
            diagonals_to_pairs(rows.expand([1, heads, span.queries, distances]), span)
                .squeeze_dim(0)
        }
        ScoreBias::Dense(bias) => bias.squeeze_dim(0),
    }
}

/// Whether a query sees a key, for all pairs from the first position on.
fn seen(heads: usize) -> impl Iterator<Item = bool> {
    let pairs = (0..LENGTH).flat_map(|i| (0..LENGTH).map(move |j| j <= i));
    (0..heads).flat_map(move |_| pairs.clone())
}

fn of_seen(all: &[f32]) -> Vec<f32> {
    let pairs = all.iter().zip(seen(HEADS));
    pairs.filter(|(_, seen)| *seen).map(|(x, _)| *x).collect()
}

#[test]
fn biases_and_their_gradients_are_the_oracle_s() {
    let oracle = Oracle::open("position_functions");
    for case in [
        "kerple_log",
        "kerple_power",
        "fire",
        "dynamic_bias",
        "dynamic_bias_log",
    ] {
        let position = scheme(&oracle, case);
        let bias = bias(&position, Span::full(LENGTH));
        let theirs = oracle.array(&format!("{case}.bias")).values;
        let off = difference(&of_seen(&values(bias.clone())), &of_seen(&theirs));
        assert!(off < TOLERANCE, "{case}: the bias is off by {off:e}");
        let loss = (bias * stored(&oracle, &format!("{case}.weights"))).sum();
        let gradients = GradientsParams::from_grads(loss.backward(), &position);
        let found = gradients_of(&position, &gradients);
        assert!(!found.is_empty());
        for (path, array) in found {
            let theirs = oracle.array(&named(&oracle, case, "grad", &path));
            let off = difference(&array.values, &theirs.values);
            assert!(off < 5.0 * TOLERANCE, "{case}: {path} is off by {off:e}");
        }
    }
}

#[test]
fn xpos_turns_and_fades_as_x_transformers_does() {
    let oracle = Oracle::open("position_functions");
    let position = scheme(&oracle, "xpos");
    let device = Device::flex().autodiff();
    let prepared = position.scheme().prepare(Span::full(LENGTH), &device);
    let [q, k] =
        ["q", "k"].map(|name| stored::<4>(&oracle, &format!("xpos.{name}")).require_grad());
    let turned = prepared
        .rotation
        .unwrap()
        .rotate_qkv([q.clone(), k.clone(), k.clone()]);
    let [turned_q, turned_k, v] = turned;
    assert_eq!(values(v), values(k.clone()));
    let scores = turned_q.matmul(turned_k.swap_dims(2, 3));
    let theirs = oracle.array("xpos.scores").values;
    let off = difference(&of_seen(&values(scores.clone())), &of_seen(&theirs));
    assert!(off < TOLERANCE, "scores are off by {off:e}");
    let mut gradients = (scores * stored::<4>(&oracle, "xpos.weights"))
        .sum()
        .backward();
    for (name, tensor) in [("q", q), ("k", k)] {
        let ours = values(tensor.grad_remove(&mut gradients).unwrap());
        let off = difference(&ours, &oracle.array(&format!("xpos.grad.{name}")).values);
        assert!(off < TOLERANCE, "the gradient of {name} is off by {off:e}");
    }
}

const VOCAB: usize = 17;
const WIDTH: usize = 16;

fn decoder(position: &Value, attention: &Value) -> Decoder {
    let config = json!({
        "n_layers": 2, "d_model": WIDTH, "position": position, "attention": attention,
        "init": { "kind": "gpt2", "std": 0.4 },
    });
    let config: DecoderConfig = serde_json::from_value(config).unwrap();
    config.init(&BuildContext {
        shape: &Shape::of_text(64, VOCAB),
        seed: 5,
        device: &Device::flex(),
    })
}

/// Token by token and in chunks, over all keys, and, for schemes that windows support, over a window that drops keys.
#[test]
fn decoding_is_one_pass() {
    let tokens: Vec<i32> = (0..40)
        .map(|i| (i * 7 + i / 3 + i * i % 5) % VOCAB as i32)
        .collect();
    let heads = json!({ "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2 });
    let window = json!({ "kind": "sliding_window", "n_heads": 4, "window": 7 });
    for (position, windows) in [
        (json!({ "kind": "xpos", "scale_base": 8 }), true),
        (json!({ "kind": "kerple" }), true),
        (json!({ "kind": "kerple", "form": "power" }), true),
        (json!({ "kind": "dynamic_bias", "hidden": 8 }), true),
        (
            json!({ "kind": "fire", "hidden": 4, "threshold": 9 }),
            false,
        ),
        (
            json!({ "kind": "fire", "hidden": 4, "threshold": 9, "shared": true }),
            false,
        ),
    ] {
        for attention in [Some(&heads), windows.then_some(&window)]
            .into_iter()
            .flatten()
        {
            let model = decoder(&position, attention);
            let pass = Pass::evaluation();
            let whole = values(model.forward(DecoderInput::new(ids(&tokens, 1)), None, &pass));
            let mut state = model.empty_state(StateUse::Decoding);
            let mut at = 0;
            for chunk in [11, 1, 1, 6].into_iter().chain([1; 21]) {
                let input = DecoderInput::new(ids(&tokens[at..at + chunk], 1));
                let part = model.forward(input, Some(&mut state), &pass);
                let wanted = &whole[at * WIDTH..(at + chunk) * WIDTH];
                near(
                    &values(part),
                    wanted,
                    &format!("{position}, {attention} at {at}"),
                );
                at += chunk;
            }
        }
    }
}
