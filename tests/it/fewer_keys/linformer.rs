//! Linformer against PyPI's `linformer`; dense attention if nothing is projected; sharing of projections.

use super::{agrees, attend, attention, learns, near, parameter, read, same_heads, shape, some};
use crate::binary;
use crate::experts::{device, tensor};
use crate::oracle::Oracle;
use burn::module::{Module, Param};
use burn::tensor::{Gradients, Tensor};
use formwork::data::Shape;
use formwork::kernel::Visibility;
use formwork::model::{BuildContext, EncoderConfig};
use formwork::nn::attention::linformer::{Linformer, Projection};
use formwork::nn::attention::{Attention, AttentionShape};
use formwork::nn::layer::{Layer, LayerContext};
use formwork::nn::pass::Pass;
use serde_json::json;

fn linformer(sharing: &str, kv_heads: usize, shape: &AttentionShape, k: usize) -> Linformer {
    let keys = json!({
        "kind": "linformer", "n_heads": 4, "n_kv_heads": kv_heads, "k": k, "sharing": sharing, "bias": false,
        "out_bias": true,
    });
    match attention(&keys, shape) {
        Attention::Linformer(layer) => layer,
        _ => unreachable!("Linformer"),
    }
}

/// Reads a projection `[positions, k]` of the oracle.
fn projection(oracle: &Oracle, name: &str) -> Projection {
    Projection {
        weight: parameter(tensor::<2>(oracle, name).transpose()),
    }
}

/// The layer with the oracle's values.
fn with(mut layer: Linformer, oracle: &Oracle, at: &str) -> Linformer {
    let heads = &mut layer.heads;
    heads.query.weight = read(oracle, &format!("{at}.to_q.weight"));
    heads.key.weight = read(oracle, &format!("{at}.to_k.weight"));
    heads.value.weight = read(oracle, &format!("{at}.to_v.weight"));
    heads.output.weight = read(oracle, &format!("{at}.to_out.weight"));
    heads.output.bias = Some(read(oracle, &format!("{at}.to_out.bias")));
    if layer.project_keys.is_some() {
        layer.project_keys = Some(projection(oracle, &format!("{at}.proj_k")));
    }
    if layer.project_values.is_some() {
        layer.project_values = Some(projection(oracle, &format!("{at}.proj_v")));
    }
    layer
}

fn maps_learn(oracle: &Oracle, [case, at]: [&str; 2], layer: &Linformer, gradients: &Gradients) {
    let heads = &layer.heads;
    let bias = heads.output.bias.as_ref().unwrap();
    for (name, weight) in [
        ("to_q", &heads.query.weight),
        ("to_k", &heads.key.weight),
        ("to_v", &heads.value.weight),
        ("to_out", &heads.output.weight),
    ] {
        learns(
            oracle,
            [case, &format!("{at}{name}.weight")],
            weight,
            gradients,
        );
    }
    learns(oracle, [case, &format!("{at}to_out.bias")], bias, gradients);
    let turned = |x: &Param<Tensor<2>>| x.val().grad(gradients).unwrap().transpose();
    for (name, map) in [
        ("proj_k", &layer.project_keys),
        ("proj_v", &layer.project_values),
    ] {
        if let Some(map) = map {
            agrees(
                oracle,
                &format!("{case}.grad.{at}{name}"),
                turned(&map.weight),
            );
        }
    }
}

#[test]
fn a_layer_is_pypi_s() {
    let oracle = Oracle::open("linformer");
    for (case, sharing, kv_heads) in [
        ("headwise", "headwise", 4),
        ("one_head", "headwise", 1),
        ("key_value", "key_value", 4),
    ] {
        let layer = with(
            linformer(sharing, kv_heads, &shape(12, false), 5),
            &oracle,
            case,
        );
        let x = tensor::<3>(&oracle, "x").require_grad();
        let out = attend(
            &Attention::Linformer(layer.clone()),
            x.clone(),
            &Visibility::ALL,
        );
        agrees(&oracle, &format!("{case}.out"), out.clone());
        let gradients = (out * tensor(&oracle, "weight")).sum().backward();
        agrees(
            &oracle,
            &format!("{case}.grad.x"),
            x.grad(&gradients).unwrap(),
        );
        maps_learn(&oracle, [case, ""], &layer, &gradients);
    }
}

/// The second layer uses the projection of the first, whose gradient is the sum of both.
#[test]
fn layers_share_a_projection_as_pypi_s() {
    let oracle = Oracle::open("linformer");
    let case = "layerwise";
    let of = |layer: usize| {
        let shape = AttentionShape {
            layer,
            ..shape(12, false)
        };
        with(
            linformer("layerwise", 4, &shape, 5),
            &oracle,
            &format!("{case}.{layer}"),
        )
    };
    let [first, second] = [of(0), of(1)];
    assert!(second.project_keys.is_none() && second.lent_matrix().is_none());
    let x = tensor::<3>(&oracle, "x").require_grad();
    let pass = Pass::evaluation();
    let mut out = x.clone();
    for layer in [&first, &second] {
        let mut cx = LayerContext::standalone(9, &pass);
        cx.lent = first.lent_matrix();
        out = layer.forward(out, &mut cx);
    }
    agrees(&oracle, "layerwise.out", out.clone());
    let gradients = (out * tensor(&oracle, "weight")).sum().backward();
    agrees(&oracle, "layerwise.grad.x", x.grad(&gradients).unwrap());
    maps_learn(&oracle, [case, "0."], &first, &gradients);
    maps_learn(&oracle, [case, "1."], &second, &gradients);
}

/// Number of parameters of an encoder with three layers and a context of 12.
fn parameters(sharing: &str) -> usize {
    let config: EncoderConfig = serde_json::from_value(json!({
        "n_layers": 3, "d_model": 16,
        "attention": { "kind": "linformer", "n_heads": 4, "k": 5, "sharing": sharing },
    }))
    .unwrap();
    let model = config.init(&BuildContext {
        shape: &Shape::of_text(12, 17),
        seed: 5,
        device: &device(),
    });
    model.num_params()
}

#[test]
fn projections_are_counted_once_for_those_that_share_them() {
    let map = 5 * 12;
    let none = parameters("none");
    assert_eq!(none - parameters("headwise"), 3 * 2 * (4 - 1) * map);
    assert_eq!(none - parameters("key_value"), 3 * (2 * 4 - 1) * map);
    assert_eq!(none - parameters("layerwise"), (3 * 2 * 4 - 1) * map);
}

/// Heads with equal projections act like heads that share one.
#[test]
fn heads_may_have_their_own() {
    let shape = shape(12, false);
    let shared = linformer("headwise", 4, &shape, 5);
    let mut own = linformer("none", 4, &shape, 5);
    own.heads = shared.heads.clone();
    let repeated = |map: &Option<Projection>| {
        let weight = map.as_ref().unwrap().weight.val();
        Some(Projection {
            weight: parameter(weight.repeat_dim(0, 4)),
        })
    };
    own.project_keys = repeated(&shared.project_keys);
    own.project_values = repeated(&shared.project_values);
    let of = |layer: Linformer| attend(&Attention::Linformer(layer), some(2, 10), &Visibility::ALL);
    near(of(own.clone()), of(shared), "four equal projections");
    let fresh = linformer("none", 4, &shape, 5);
    let weight = fresh.project_keys.as_ref().unwrap().weight.val();
    let [first, second] = [0, 5].map(|from| weight.clone().narrow(0, from, 5));
    assert_ne!(crate::oracle::values(first), crate::oracle::values(second));
}

#[test]
fn with_nothing_projected_it_is_dense() {
    let shape = shape(70, false);
    let dense = attention(
        &json!({ "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2 }),
        &shape,
    );
    for sharing in ["none", "headwise", "key_value", "layerwise"] {
        let mut layer = linformer(sharing, 2, &shape, 70);
        same_heads!(layer, &dense);
        let maps = if sharing == "none" { 2 } else { 1 };
        let identity = || {
            let weight = Tensor::<2>::eye(70, &device()).repeat_dim(0, maps);
            Projection {
                weight: parameter(weight),
            }
        };
        layer.project_keys = layer.project_keys.map(|_| identity());
        layer.project_values = layer.project_values.map(|_| identity());
        let x = some(2, 70);
        let pass = Pass::evaluation();
        let mut cx = LayerContext::standalone(70, &pass);
        cx.lent = layer.lent_matrix();
        let ours = layer.forward(x.clone(), &mut cx);
        near(ours, attend(&dense, x, &Visibility::ALL), sharing);
    }
}

#[test]
fn faults_of_its_keys_and_places() {
    for (file, set, said) in [
        ("masked_lm/grammar", "k = 0", "k = 0 is not between 1 and"),
        ("masked_lm/grammar", "sharing = \"heads\"", "`headwise`"),
        (
            "quickstart",
            "k = 8",
            "kind = \"linformer\" reads both ways, but this stack reads from left to right",
        ),
        (
            "masked_lm/grammar_roformer",
            "k = 8",
            "cannot be used with attention of kind = \"linformer\"",
        ),
    ] {
        let set = format!("model.attention={{ kind = \"linformer\", n_heads = 4, {set} }}");
        let file = format!("experiments/{file}.toml");
        let (status, text) = binary::failure(&["check", &file, "--set", &set]);
        assert!(status == 2 && text.contains(said), "{set}: {text}");
    }
}
