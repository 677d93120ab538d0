//! Experts as in DeepSeek-V3, beyond what its folders test (`tests/it/hf_folders`): shared experts, sigmoid scores, groups, and
//! the correction, which changes choices but no weight.

use crate::diagnostics::{RIGHT, judged};
use crate::oracle::{difference, values};
use burn::module::{Module, RunningState};
use burn::tensor::{Device, Tensor};
use formwork::nn::feed_forward::moe::{Moe, MoeConfig};
use formwork::nn::feed_forward::{Gated, GatedConfig};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::layer::{Layer, LayerContext};
use formwork::nn::pass::Pass;
use serde_json::{Value, json};

const WIDTH: usize = 8;

fn layer(keys: &Value) -> Moe {
    let mut all = json!({ "n_experts": 4, "expert": { "kind": "gated", "d_ff": 6 } });
    let keys = keys.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(keys);
    let config: MoeConfig = serde_json::from_value(all).unwrap();
    let device = Device::flex();
    let init = Init::new(&device, 3, InitConfig::xavier(), 1, 1.0);
    Moe::new(&config, WIDTH, 0.0, &init)
}

fn some() -> Tensor<3> {
    let number = |i: usize| ((i * 37 + i / 8 * 11) % 41) as f32 / 10.0 - 2.0;
    let numbers: Vec<f32> = (0..2 * 5 * WIDTH).map(number).collect();
    Tensor::<1>::from_floats(numbers.as_slice(), &Device::flex()).reshape([2, 5, WIDTH])
}

fn result(layer: &Moe) -> Vec<f32> {
    let pass = Pass::evaluation();
    values(layer.forward(some(), &mut LayerContext::standalone(5, &pass)))
}

#[test]
fn shared_experts_are_one_layer_that_every_token_uses() {
    let mut both = layer(&json!({ "shared": 2 }));
    let device = Device::flex();
    let init = Init::new(&device, 9, InitConfig::xavier(), 1, 1.0);
    let config = GatedConfig {
        d_ff: Some(12),
        ..GatedConfig::default()
    };
    let alone = Gated::new(&config, WIDTH, 0.0, &init);
    assert_eq!(
        both.shared.as_ref().unwrap().num_params(),
        alone.num_params()
    );
    let with = result(&both);
    let shared = both.shared.take().unwrap();
    let pass = Pass::evaluation();
    let added = shared.forward(some(), &mut LayerContext::standalone(5, &pass));
    let routed = result(&both);
    let sum: Vec<f32> = routed
        .iter()
        .zip(values(added))
        .map(|(x, y)| x + y)
        .collect();
    assert!(difference(&with, &sum) < 1e-6);
}

/// The same constant on all experts changes nothing; a large one selects its expert, with that expert's own small weight.
#[test]
fn a_correction_moves_choices_and_no_weight() {
    for score in ["softmax", "sigmoid"] {
        let keys =
            json!({ "score": score, "top_k": 4, "normalize_weights": false, "correction": true });
        let corrected = |numbers: [f32; 4], top_k: usize| {
            let mut keys = keys.clone();
            keys["top_k"] = top_k.into();
            let mut layer = layer(&keys);
            let numbers = Tensor::<1>::from_floats(numbers, &Device::flex());
            layer.correction = Some(RunningState::new(numbers));
            result(&layer)
        };
        let all = corrected([0.0; 4], 4);
        assert!(difference(&all, &corrected([3.0, 1.0, -4.0, 2.0], 4)) < 1e-6);
        let two = corrected([0.0; 4], 2);
        assert!(difference(&two, &corrected([1.5; 4], 2)) < 1e-6);
        assert!(difference(&two, &corrected([0.0, 9.0, 0.0, 9.0], 2)) > 1e-2);
        // Experts 1 and 3, then 0 and 2, each with its own weight, sum to all four.
        let first = corrected([0.0, 9.0, 0.0, 9.0], 2);
        let second = corrected([9.0, 0.0, 9.0, 0.0], 2);
        let sum: Vec<f32> = first.iter().zip(second).map(|(x, y)| x + y).collect();
        assert!(difference(&all, &sum) < 1e-5, "{score}");
    }
}

#[test]
fn a_factor_multiplies_the_weights() {
    for score in ["softmax", "sigmoid"] {
        let plain = result(&layer(&json!({ "score": score })));
        let scaled = result(&layer(&json!({ "score": score, "scale": 2.5 })));
        let wanted: Vec<f32> = plain.iter().map(|x| 2.5 * x).collect();
        assert!(difference(&scaled, &wanted) < 1e-6);
    }
}

/// The sigmoid of a product with each token's vector scales the shared expert's output.
#[test]
fn a_gate_multiplies_the_shared_experts() {
    let mut gated = layer(&json!({ "shared": 1, "shared_gate": true }));
    let with = result(&gated);
    let gate = gated.shared_gate.take().unwrap();
    let shared = gated.shared.take().unwrap();
    let pass = Pass::evaluation();
    let added = values(shared.forward(some(), &mut LayerContext::standalone(5, &pass)));
    let shares = values(gate.forward(some()));
    let routed = result(&gated);
    let sum = routed.iter().zip(added).enumerate();
    let sum: Vec<f32> = sum
        .map(|(at, (x, y))| x + y / (1.0 + (-shares[at / WIDTH]).exp()))
        .collect();
    assert!(difference(&with, &sum) < 1e-6);
}

#[test]
fn groups_without_effect_are_refused() {
    let said = |keys: &str| {
        let set = format!("model.feed_forward={{ kind = \"moe\", n_experts = 8, {keys} }}");
        match judged(RIGHT, &[set]) {
            Ok(_) => "nothing".to_string(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(said("groups = 4, top_groups = 2"), "nothing");
    for (keys, words) in [
        ("groups = 4", "groups has no effect without top_groups"),
        ("top_groups = 4", "top_groups has no effect without groups"),
        ("groups = 4, top_groups = 4", "excludes no group"),
        (
            "groups = 3, top_groups = 2",
            "cannot be divided into groups = 3",
        ),
        ("groups = 8, top_groups = 2", "of 2 or more experts each"),
        (
            "groups = 4, top_groups = 1, top_k = 3",
            "top_k = 3 is more than the 2 experts of top_groups = 1",
        ),
        ("scale = 0.0", "scale = 0.0 must be above 0"),
        (
            "shared_gate = true",
            "shared_gate = true has no effect without shared experts",
        ),
        (
            "expert = { kind = \"gated\", clamp = 0.0 }",
            "clamp = 0.0 must be above 0",
        ),
        ("score = \"sigmoids\"", "sigmoid"),
    ] {
        let found = said(keys);
        assert!(found.contains(words), "{keys}: {found}");
    }
}
