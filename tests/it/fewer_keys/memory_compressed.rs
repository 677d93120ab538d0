//! Memory-compressed attention against PyPI's `memory-compressed-attention`; dense attention if nothing is compressed; the
//! state of decoding.

use super::{agrees, attend, attention, learns, near, parameter, read, same_heads, shape, some};
use crate::binary;
use crate::contracts::{ids, near as equal};
use crate::experts::{device, tensor};
use crate::oracle::{Oracle, values};
use burn::tensor::{Device, Gradients, Tensor};
use formwork::data::Shape;
use formwork::kernel::Visibility;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, DecoderConfig, LanguageModel};
use formwork::nn::attention::Attention;
use formwork::nn::attention::memory_compressed::{CompressedState, MemoryCompressed};
use formwork::nn::linear::Linear;
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;
use serde_json::{Value, json};

fn compressed(keys: &Value, positions: usize, causal: bool) -> MemoryCompressed {
    let mut all = json!({ "kind": "memory_compressed", "n_heads": 4 });
    for (key, value) in keys.as_object().unwrap() {
        all[key] = value.clone();
    }
    match attention(&all, &shape(positions, causal)) {
        Attention::MemoryCompressed(layer) => layer,
        _ => unreachable!("memory-compressed attention"),
    }
}

/// Indices in Formwork's kernel `[16, 3 · 16]` of the elements (output, input within the head, position in the block) of the
/// oracle's kernel `[16, 4, 3]`; heads are groups of four channels.
fn places() -> Vec<i32> {
    let of = |output: usize, input: usize, place: usize| {
        output * 48 + place * 16 + output / 4 * 4 + input
    };
    let outputs = (0..16).flat_map(|o| (0..4).map(move |i| (o, i)));
    let all = outputs.flat_map(|(o, i)| (0..3).map(move |p| of(o, i, p) as i32));
    all.collect()
}

/// The oracle's grouped convolution as one over the full width.
fn convolution(oracle: &Oracle, case: &str) -> Linear {
    let kernel = oracle
        .array(&format!("{case}.compress_fn.conv.weight"))
        .values;
    let mut all = vec![0.0; 16 * 48];
    for (place, number) in places().into_iter().zip(kernel) {
        all[place as usize] = number;
    }
    let all = Tensor::<1>::from_floats(all.as_slice(), &device());
    Linear {
        weight: parameter(all.reshape([16, 48])),
        bias: Some(read(oracle, &format!("{case}.compress_fn.conv.bias"))),
    }
}

fn with(mut layer: MemoryCompressed, oracle: &Oracle, case: &str) -> MemoryCompressed {
    let all = tensor::<2>(oracle, &format!("{case}.to_qkv.weight"));
    let part = |number: usize| parameter(all.clone().narrow(0, 16 * number, 16));
    layer.heads.query.weight = part(0);
    layer.heads.key.weight = part(1);
    layer.heads.value.weight = part(2);
    layer.heads.output.weight = read(oracle, &format!("{case}.to_out.weight"));
    layer.heads.output.bias = Some(read(oracle, &format!("{case}.to_out.bias")));
    layer.compress_keys = convolution(oracle, case);
    layer.compress_values = convolution(oracle, case);
    let null = |name: &str| parameter(tensor::<3>(oracle, &format!("{case}.{name}")).reshape([16]));
    layer.null_key = Some(null("null_k"));
    layer.null_value = Some(null("null_v"));
    layer
}

fn maps_learn(oracle: &Oracle, case: &str, layer: &MemoryCompressed, gradients: &Gradients) {
    let heads = &layer.heads;
    let of = |x: &Linear| x.weight.val().grad(gradients).unwrap();
    let thirds = [&heads.query, &heads.key, &heads.value].map(of);
    let thirds = Tensor::cat(thirds.to_vec(), 0);
    agrees(oracle, &format!("{case}.grad.to_qkv.weight"), thirds);
    learns(
        oracle,
        [case, "to_out.weight"],
        &heads.output.weight,
        gradients,
    );
    // The oracle shares one convolution between keys and values.
    let [keys, of_values] = [&layer.compress_keys, &layer.compress_values];
    let both: Vec<f32> = values(of(keys) + of(of_values));
    let taken: Vec<f32> = places().iter().map(|at| both[*at as usize]).collect();
    let taken = Tensor::<1>::from_floats(taken.as_slice(), &device());
    agrees(
        oracle,
        &format!("{case}.grad.compress_fn.conv.weight"),
        taken,
    );
    let bias = |x: &Linear| x.bias.as_ref().unwrap().val().grad(gradients).unwrap();
    let both = bias(keys) + bias(of_values);
    agrees(oracle, &format!("{case}.grad.compress_fn.conv.bias"), both);
    for (name, null) in [("null_k", &layer.null_key), ("null_v", &layer.null_value)] {
        learns(oracle, [case, name], null.as_ref().unwrap(), gradients);
    }
}

#[test]
fn a_layer_is_pypi_s_where_blocks_are_whole() {
    let oracle = Oracle::open("memory_compressed");
    for (case, visible) in [("causal", Visibility::causal()), ("both", Visibility::ALL)] {
        let keys = json!({ "factor": 3, "null_key": true, "bias": false, "out_bias": true, "scale": 0.25 });
        let layer = with(compressed(&keys, 150, case == "causal"), &oracle, case);
        let x = tensor::<3>(&oracle, "x").require_grad();
        let out = attend(
            &Attention::MemoryCompressed(layer.clone()),
            x.clone(),
            &visible,
        );
        agrees(&oracle, &format!("{case}.out"), out.clone());
        let gradients = (out * tensor(&oracle, "weight")).sum().backward();
        agrees(
            &oracle,
            &format!("{case}.grad.x"),
            x.grad(&gradients).unwrap(),
        );
        maps_learn(&oracle, case, &layer, &gradients);
    }
}

#[test]
fn with_blocks_of_one_that_are_themselves_it_is_dense() {
    for (causal, visible) in [
        (true, Visibility::causal()),
        (false, Visibility::ALL),
        (false, Visibility::from_lengths(&[100, 61])),
        (
            true,
            Visibility {
                prefix: Some([40, 0].into()),
                ..Visibility::causal()
            },
        ),
    ] {
        let dense = json!({ "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2 });
        let dense = attention(&dense, &shape(100, causal));
        let mut layer = compressed(&json!({ "factor": 1, "n_kv_heads": 2 }), 100, causal);
        same_heads!(layer, &dense);
        let identity = || Linear {
            weight: parameter(Tensor::<2>::eye(8, &device())),
            bias: None,
        };
        layer.compress_keys = identity();
        layer.compress_values = identity();
        let x = some(2, 100);
        let ours = attend(&Attention::MemoryCompressed(layer), x.clone(), &visible);
        near(ours, attend(&dense, x, &visible), &format!("{visible:?}"));
    }
}

/// A query sees blocks that end at or before its position; the first queries see none and give only the output's bias.
#[test]
fn a_query_sees_whole_blocks_alone() {
    let layer = compressed(&json!({ "factor": 3 }), 100, true);
    let layer = Attention::MemoryCompressed(layer);
    let of = |x: Tensor<3>| values(attend(&layer, x, &Visibility::causal()));
    let x = some(1, 100);
    let before = of(x.clone());
    assert!(before[..2 * 16].iter().all(|y| *y == 0.0), "no block yet");
    assert!(before[2 * 16..3 * 16].iter().any(|y| *y != 0.0));
    // Position 60 begins the block 60 to 62: the change reaches position 60 only through its query, 61 not at all, and
    // positions from 62 on through the block.
    let changed = x.clone().slice_assign(
        [0..1, 60..61, 0..16],
        x.clone().slice([0..1, 60..61, 0..16]) + 1.0,
    );
    let after = of(changed);
    for at in 0..100 {
        let rows = [&before, &after].map(|all| &all[at * 16..(at + 1) * 16]);
        assert_eq!(rows[0] != rows[1], at == 60 || at >= 62, "position {at}");
    }
}

#[test]
fn decoding_keeps_a_third_of_the_keys() {
    for null_key in [false, true] {
        let config: DecoderConfig = serde_json::from_value(json!({
            "n_layers": 1, "d_model": 16,
            "attention": { "kind": "memory_compressed", "n_heads": 4, "null_key": null_key },
        }))
        .unwrap();
        let model = config.init(&BuildContext {
            shape: &Shape::of_text(200, 17),
            seed: 5,
            device: &Device::flex(),
        });
        let tokens: Vec<i32> = (0..200).map(|i| (i * 7 + i / 3) % 17).collect();
        let read = |range: std::ops::Range<usize>, state: Option<&mut _>| {
            let input = DecoderInput::new(ids(&tokens[range], 1));
            values(model.forward(input, state, &Pass::evaluation()))
        };
        let whole = read(0..200, None);
        let mut state = model.empty_state(StateUse::Decoding);
        let mut at = 0;
        for chunk in [1, 1, 100, 5, 2].into_iter().chain([1; 91]) {
            let got = read(at..at + chunk, Some(&mut state));
            equal(&got, &whole[at * 16..(at + chunk) * 16], "cached");
            at += chunk;
            let Some(kept) = state.layers[0].own.decoding_state::<CompressedState>() else {
                panic!("decoding keeps compressed keys")
            };
            assert_eq!(kept.keys(), at / 3 + usize::from(null_key));
        }
        assert_eq!(at, 200);
    }
}

#[test]
fn faults_of_its_keys_and_places() {
    for (set, more, said) in [
        ("factor = 0", "seed=1", "factor = 0 is not between 1 and"),
        ("factor = 99", "seed=1", "no query would see a key"),
        (
            "factor = 3",
            "model.position.kind=\"alibi\"",
            "cannot be used with attention of kind = \"memory_compressed\"",
        ),
    ] {
        let set = format!("model.attention={{ kind = \"memory_compressed\", n_heads = 4, {set} }}");
        let sets = ["--set", &set, "--set", more];
        let all = [&["check", "experiments/quickstart.toml"], &sets[..]].concat();
        let (status, text) = binary::failure(&all);
        assert!(status == 2 && text.contains(said), "{set}: {text}");
    }
}
