//! Adaptive spans against their definition in torch; dense attention if every span is the longest; decoding within the spans,
//! and updates that stay in their range.

use super::{agrees, attend, attention, learns, near, parameter, read, same_heads, shape, some};
use crate::batches;
use crate::binary;
use crate::contracts::{ids, near as equal};
use crate::experts::{device, tensor};
use crate::oracle::{Oracle, values};
use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;
use formwork::data::Shape;
use formwork::kernel::Visibility;
use formwork::model::decoder::DecoderInput;
use formwork::model::language::AnyLanguageModel;
use formwork::model::{BuildContext, Decoder, DecoderConfig, LanguageModel};
use formwork::nn::attention::Attention;
use formwork::nn::attention::LayerCache;
use formwork::nn::attention::adaptive_span::AdaptiveSpan;
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;
use formwork::task::{CausalLm, CausalLmConfig, Objective};
use formwork::train::{optim, parameters};
use serde_json::{Value, json};

fn spans(keys: &Value, positions: usize, causal: bool) -> AdaptiveSpan {
    let mut all = json!({ "kind": "adaptive_span", "n_heads": 4 });
    for (key, value) in keys.as_object().unwrap() {
        all[key] = value.clone();
    }
    match attention(&all, &shape(positions, causal)) {
        Attention::AdaptiveSpan(layer) => layer,
        _ => unreachable!("adaptive spans"),
    }
}

fn oracle_s(oracle: &Oracle, case: &str) -> AdaptiveSpan {
    let keys = json!({ "max_span": 60, "ramp": 4, "bias": false });
    let mut layer = spans(&keys, 150, case == "causal");
    for (name, map) in [
        ("query", &mut layer.heads.query),
        ("key", &mut layer.heads.key),
        ("value", &mut layer.heads.value),
        ("output", &mut layer.heads.output),
    ] {
        map.weight = read(oracle, &format!("{case}.{name}.weight"));
    }
    layer.span = read(oracle, &format!("{case}.span"));
    layer
}

fn visible(case: &str) -> Visibility {
    match case {
        "causal" => Visibility::causal(),
        _ => Visibility::ALL,
    }
}

#[test]
fn a_layer_is_the_definition_s() {
    let oracle = Oracle::open("adaptive_span");
    for case in ["causal", "both"] {
        let layer = oracle_s(&oracle, case);
        let x = tensor::<3>(&oracle, "x").require_grad();
        let out = attend(
            &Attention::AdaptiveSpan(layer.clone()),
            x.clone(),
            &visible(case),
        );
        agrees(&oracle, &format!("{case}.out"), out.clone());
        let gradients = (out * tensor(&oracle, "weight")).sum().backward();
        agrees(
            &oracle,
            &format!("{case}.grad.x"),
            x.grad(&gradients).unwrap(),
        );
        for (name, map) in [
            ("query.weight", &layer.heads.query),
            ("key.weight", &layer.heads.key),
            ("value.weight", &layer.heads.value),
            ("output.weight", &layer.heads.output),
        ] {
            learns(&oracle, [case, name], &map.weight, &gradients);
        }
        learns(&oracle, [case, "span"], &layer.span, &gradients);
    }
}

/// The gradient of each span equals the slope of the output's sum by finite differences.
#[test]
fn gradients_of_spans_are_slopes() {
    let oracle = Oracle::open("adaptive_span");
    let slope = oracle.array("causal.grad.span").values;
    let start = oracle.array("causal.span").values;
    let sum = |span: &[f32]| {
        let mut layer = oracle_s(&oracle, "causal");
        layer.span = parameter(Tensor::<1>::from_floats(span, &device()));
        let layer = Attention::AdaptiveSpan(layer);
        let out = attend(&layer, tensor(&oracle, "x"), &Visibility::causal());
        let terms = values(out * tensor(&oracle, "weight"));
        terms.into_iter().map(f64::from).sum::<f64>()
    };
    // The function has a kink where a ramp ends, so the step is a small fraction of a position.
    let step = 4e-4;
    for head in 0..4 {
        let moved = |by: f32| {
            let mut span = start.clone();
            span[head] += by;
            sum(&span)
        };
        let found = (moved(step) - moved(-step)) / f64::from(2.0 * step);
        let wanted = f64::from(slope[head]);
        assert!(
            (found - wanted).abs() < 0.02 * wanted.abs() + 0.02,
            "{head}: {found}, {wanted}"
        );
    }
}

#[test]
fn with_the_longest_spans_it_is_dense() {
    for case in ["causal", "both"] {
        let causal = case == "causal";
        let dense = json!({ "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2 });
        let dense = attention(&dense, &shape(150, causal));
        let keys = json!({ "max_span": 150, "init_span": 1.0, "n_kv_heads": 2 });
        let mut layer = spans(&keys, 150, causal);
        same_heads!(layer, &dense);
        let x = some(2, 150);
        let ours = attend(&Attention::AdaptiveSpan(layer), x.clone(), &visible(case));
        near(ours, attend(&dense, x, &visible(case)), case);
    }
}

/// Keys beyond span and ramp have no effect.
#[test]
fn a_head_looks_no_farther_than_its_ramp() {
    let oracle = Oracle::open("adaptive_span");
    let mut layer = oracle_s(&oracle, "both");
    layer.span = parameter(Tensor::<1>::from_floats(
        [0.005, 0.123, 0.2, 0.305],
        &device(),
    ));
    let layer = Attention::AdaptiveSpan(layer);
    let x = some(1, 150);
    let at = [0..1, 75..76, 0..16];
    let changed = x
        .clone()
        .slice_assign(at.clone(), x.clone().slice(at) + 1.0);
    let [before, after] = [x, changed].map(|x| values(attend(&layer, x, &Visibility::ALL)));
    // z + R = 0.305·60 + 4 is 22.3: keys at smaller distances have weights.
    for at in 0..150 {
        let rows = [&before, &after].map(|all| &all[at * 16..(at + 1) * 16]);
        assert_eq!(
            rows[0] != rows[1],
            at.abs_diff(75_usize) < 23,
            "position {at}"
        );
    }
}

fn decoder(keys: &Value, device: &Device) -> Decoder {
    let mut attention = json!({ "kind": "adaptive_span", "n_heads": 4 });
    for (key, value) in keys.as_object().unwrap() {
        attention[key] = value.clone();
    }
    let config = json!({ "n_layers": 1, "d_model": 16, "attention": attention });
    let config: DecoderConfig = serde_json::from_value(config).unwrap();
    config.init(&BuildContext {
        shape: &Shape::of_text(250, 17),
        seed: 5,
        device,
    })
}

#[test]
fn decoding_keeps_the_keys_of_the_spans_alone() {
    let keys = json!({ "max_span": 100, "ramp": 4, "init_span": 0.053 });
    let model = decoder(&keys, &Device::flex());
    let tokens: Vec<i32> = (0..250).map(|i| (i * 7 + i / 3) % 17).collect();
    let read = |range: std::ops::Range<usize>, state: Option<&mut _>| {
        let input = DecoderInput::new(ids(&tokens[range], 1));
        values(model.forward(input, state, &Pass::evaluation()))
    };
    let whole = read(0..250, None);
    let mut state = model.empty_state(StateUse::Decoding);
    let first = read(0..100, Some(&mut state));
    equal(&first, &whole[..100 * 16], "the first ones");
    for at in 100..250 {
        let got = read(at..at + 1, Some(&mut state));
        equal(&got, &whole[at * 16..(at + 1) * 16], "cached");
        let Some(cache) = state.layers[0].own.decoding_state::<LayerCache>() else {
            panic!("decoding keeps keys and values")
        };
        // ⌈5.3 + 4⌉ keys, the query's own included.
        assert!(
            cache.capacity() <= 2 * 9 + 16,
            "room for {}",
            cache.capacity()
        );
    }
}

/// An oversized step ends at the limits of the range, and the journal has the mean span in positions.
#[test]
fn updates_keep_spans_within_their_range() {
    let stepped = |coefficient: f64| {
        let keys =
            json!({ "max_span": 64, "ramp": 8, "init_span": 0.25, "span_loss": coefficient });
        let model = decoder(&keys, &device());
        let task = Objective(CausalLm::new(model, &CausalLmConfig::default(), 11, false));
        let task = parameters::materialize(parameters::name_parameters(task));
        let inputs: Vec<i32> = (0..60).map(|i| (i * 7 + i / 3) % 17).collect();
        let targets: Vec<i32> = inputs.iter().map(|i| (i + 1) % 17).collect();
        let batch = batches::of_texts(&inputs, &targets, 2);
        let config = json!({ "kind": "sgd", "lr": 1.0 });
        let config: optim::OptimizerConfig = serde_json::from_value(config).unwrap();
        let mut optimizer = optim::build(&config, &task).unwrap();
        let step = TrainStep::step(&task, batch.into());
        let mean = step.item.metrics["span"].mean();
        assert!((mean - 16.0).abs() < 1e-4, "a mean span of {mean}");
        let task = task.optimize(&mut optimizer, 1.0.into(), step.grads);
        let AnyLanguageModel::Decoder(model) = &task.0.model else {
            panic!("a decoder")
        };
        let Some(Attention::AdaptiveSpan(layer)) = &model.stack.blocks[0].attention else {
            panic!("adaptive spans")
        };
        assert!(layer.span.is_require_grad());
        values(layer.span.val())
    };
    // The slope of the loss with respect to a span's share is 64/4 times the coefficient.
    assert_eq!(stepped(1.0), [0.0; 4]);
    let small = stepped(1e-3);
    assert!(
        small
            .iter()
            .all(|share| (share - (0.25 - 0.016)).abs() < 0.015),
        "{small:?}"
    );
}

#[test]
fn faults_of_its_keys() {
    for (set, said) in [
        ("max_span = 0", "max_span = 0 is not between 1 and"),
        ("ramp = 0", "ramp = 0 is not between 1 and"),
        (
            "init_span = 1.5",
            "init_span = 1.5 must be between 0 and 1, as a fraction of max_span",
        ),
        ("span_loss = -1.0", "span_loss = -1.0 must be at least 0"),
    ] {
        let set = format!("model.attention={{ kind = \"adaptive_span\", n_heads = 4, {set} }}");
        let all = ["check", "experiments/quickstart.toml", "--set", &set];
        let (status, text) = binary::failure(&all);
        assert!(status == 2 && text.contains(said), "{set}: {text}");
    }
}
