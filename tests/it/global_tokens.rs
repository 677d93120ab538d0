//! Global tokens of sliding windows: attention and gradients equal those under a dense mask; separate projections for global
//! tokens equal shared ones if they are copies; a model that begins from a run on shorter texts; faults of keys.

mod begun;
mod faults;

use crate::contracts::{ids, near};
use crate::oracle::{difference, values};
use crate::transfer::{put, values_of};
use burn::module::Module;
use burn::tensor::{Bool, Device, Tensor, TensorData, activation};
use formwork::data::Shape;
use formwork::kernel::Visibility;
use formwork::model::encoder::EncoderInput;
use formwork::model::{BuildContext, Encoder, EncoderConfig};
use formwork::nn::attention::Attention;
use formwork::nn::attention::multi_head::MultiHead;
use formwork::nn::layer::LayerContext;
use formwork::nn::linear::Linear;
use formwork::nn::pass::Pass;
use serde_json::{Value, json};
use std::sync::Arc;

const SEQ: usize = 70;
const LENGTHS: [usize; 2] = [70, 51];
const WIDTH: usize = 16;
const HEADS: usize = 4;
const VOCAB: usize = 23;

fn globals() -> Arc<[Vec<usize>]> {
    [vec![0, 33, 68], vec![40]].into()
}

fn encoder(attention: Value, position: Value, device: &Device) -> Encoder {
    let config: EncoderConfig = serde_json::from_value(json!({
        "n_layers": 1, "d_model": WIDTH, "attention": attention, "position": position,
        "feed_forward": { "kind": "dense", "d_ff": 24 },
        "init": { "kind": "gpt2", "std": 0.4 },
    }))
    .unwrap();
    config.init(&BuildContext {
        shape: &Shape::of_text(SEQ, VOCAB),
        seed: 7,
        device,
    })
}

fn layer(model: &Encoder) -> &MultiHead {
    match model.stack.blocks[0].attention.as_ref().unwrap() {
        Attention::SlidingWindow(layer) => layer,
        other => panic!("{other:?}"),
    }
}

fn heads_of(linear: &Linear, x: &Tensor<3>, heads: usize) -> Tensor<4> {
    let [batch, seq, _] = x.dims();
    let y = linear.forward(x.clone());
    let y = y
        .reshape([batch, seq, heads, WIDTH / HEADS])
        .swap_dims(1, 2);
    let y: Tensor<5> = y.reshape([batch, heads, 1, seq, WIDTH / HEADS]);
    let y = y.expand([batch, heads, HEADS / heads, seq, WIDTH / HEADS]);
    y.reshape([batch, HEADS, seq, WIDTH / HEADS])
}

/// Computes the layer by its definition, with the full score matrix; `near(head, i, j)` says whether key `j` is in the window
/// of query `i`.
fn by_definition(
    layer: &MultiHead,
    x: &Tensor<3>,
    near: impl Fn(usize, usize, usize) -> bool,
) -> Tensor<3> {
    let globals = globals();
    let device = x.device();
    let kv = layer.key.weight.val().dims()[0] / (WIDTH / HEADS);
    let weighed = |q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, sees: &dyn Fn([usize; 4]) -> bool| {
        let scores = q.matmul(k.transpose()) * (1.0 / ((WIDTH / HEADS) as f64).sqrt());
        let mut hidden = Vec::new();
        for (row, length) in LENGTHS.iter().enumerate() {
            for (head, i, j) in (0..HEADS)
                .flat_map(|h| (0..SEQ).flat_map(move |i| (0..SEQ).map(move |j| (h, i, j))))
            {
                hidden.push(j >= *length || !sees([row, head, i, j]));
            }
        }
        let hidden = TensorData::new(hidden, [LENGTHS.len(), HEADS, SEQ, SEQ]);
        let scores = scores.mask_fill(Tensor::<4, Bool>::from_data(hidden, &device), -1e9);
        activation::softmax(scores, 3).matmul(v)
    };
    let is_global = |row: usize, at: usize| globals[row].contains(&at);
    let [q, k, v] = [(&layer.query, HEADS), (&layer.key, kv), (&layer.value, kv)]
        .map(|(map, heads)| heads_of(map, x, heads));
    let local = weighed(q, k, v, &|[row, head, i, j]| {
        near(head, i, j) || is_global(row, j) || is_global(row, i) && layer.global.is_none()
    });
    let y = match &layer.global {
        None => local,
        Some(own) => {
            let [q, k, v] = [(&own.query, HEADS), (&own.key, kv), (&own.value, kv)]
                .map(|(map, heads)| heads_of(map, x, heads));
            let all = weighed(q, k, v, &|_| true);
            let mut of_globals = vec![false; LENGTHS.len() * SEQ];
            for (row, at) in (0..LENGTHS.len()).flat_map(|row| (0..SEQ).map(move |at| (row, at))) {
                of_globals[row * SEQ + at] = is_global(row, at);
            }
            let flags = TensorData::new(of_globals, [LENGTHS.len(), 1, SEQ, 1]);
            let flags = Tensor::<4, Bool>::from_data(flags, &device);
            let flags = flags.expand([LENGTHS.len(), HEADS, SEQ, WIDTH / HEADS]);
            local.mask_where(flags, all)
        }
    };
    layer
        .output
        .forward(y.swap_dims(1, 2).reshape([LENGTHS.len(), SEQ, WIDTH]))
}

/// Sums the rows that are no padding, weighted so that every value has a different gradient.
fn weighted(y: Tensor<3>) -> Tensor<1> {
    let weights: Vec<f32> = (0..LENGTHS.len() * SEQ * WIDTH)
        .map(|n| {
            let (row, at) = (n / (SEQ * WIDTH), n / WIDTH % SEQ);
            if at < LENGTHS[row] {
                (n as f32 * 0.7).sin()
            } else {
                0.0
            }
        })
        .collect();
    let weights = TensorData::new(weights, [LENGTHS.len(), SEQ, WIDTH]);
    (y.clone() * Tensor::<3>::from_data(weights, &y.device())).sum()
}

#[test]
fn a_window_with_global_tokens_is_masked_dense_attention() {
    let device = Device::flex().autodiff();
    for (keys, step) in [
        (json!({ "window": 9, "global": "own" }), [1; 4]),
        (json!({ "window": 9, "global": "shared" }), [1; 4]),
        (
            json!({ "window": 70, "global": "own", "n_kv_heads": 2 }),
            [1; 4],
        ),
        (
            json!({ "window": 5, "global": "own", "dilation": [1, 2, 1, 3] }),
            [1, 2, 1, 3],
        ),
        (
            json!({ "window": 5, "global": "shared", "dilation": [4, 2, 1, 3] }),
            [4, 2, 1, 3],
        ),
    ] {
        let name = keys.to_string();
        let window = keys["window"].as_u64().unwrap() as usize;
        let mut attention = json!({ "kind": "sliding_window", "n_heads": HEADS });
        attention
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        let model = encoder(attention, json!({ "kind": "none" }), &device);
        let layer = layer(&model);
        let x: Vec<f32> = (0..LENGTHS.len() * SEQ * WIDTH)
            .map(|n| (n as f32 * 1.3 + (n / 16) as f32).sin())
            .collect();
        let x = || {
            let data = TensorData::new(x.clone(), [LENGTHS.len(), SEQ, WIDTH]);
            Tensor::<3>::from_data(data, &device).require_grad()
        };
        let visible = Visibility {
            globals: Some(globals()),
            ..Visibility::from_lengths(&LENGTHS)
        };
        let pass = Pass::evaluation();
        let mut cx = LayerContext::standalone(SEQ, &pass);
        cx.visible = &visible;
        let (ours, theirs) = (x(), x());
        let y = model.stack.blocks[0].attention.as_ref().unwrap().layer();
        let y = weighted(y.forward(ours.clone(), &mut cx));
        let near = |head: usize, i: usize, j: usize| {
            let (far, step) = (i.abs_diff(j), step[head]);
            far < window * step && far.is_multiple_of(step)
        };
        let expected = weighted(by_definition(layer, &theirs, near));
        assert!(
            difference(&values(y.clone()), &values(expected.clone())) < 1e-4,
            "{name}"
        );
        let (mut a, mut b) = (y.backward(), expected.backward());
        let gradient = |x: &Tensor<3>, g: &_| values(x.grad(g).unwrap());
        let off = difference(&gradient(&ours, &a), &gradient(&theirs, &b));
        assert!(off < 1e-4, "{name}: gradients of inputs are {off:e} off");
        let mut maps = vec![&layer.query, &layer.key, &layer.value, &layer.output];
        if let Some(own) = &layer.global {
            maps.extend([&own.query, &own.key, &own.value]);
        }
        for (number, map) in maps.into_iter().enumerate() {
            let [a, b] = [&mut a, &mut b].map(|g| values(map.weight.val().grad_remove(g).unwrap()));
            let off = difference(&a, &b);
            assert!(
                off < 1e-4,
                "{name}: gradients of map {number} are {off:e} off"
            );
        }
    }
}

fn hidden(model: &Encoder, tokens: &[i32], marked: bool) -> Vec<f32> {
    let input = EncoderInput {
        ids: ids(tokens, LENGTHS.len()),
        segments: None,
        lengths: Some(LENGTHS.to_vec()),
        globals: marked.then(globals),
    };
    let x = values(model.forward(input, &Pass::evaluation()));
    let rows = x.chunks(SEQ * WIDTH).zip(LENGTHS);
    rows.flat_map(|(row, length)| row[..length * WIDTH].to_vec())
        .collect()
}

fn tokens() -> Vec<i32> {
    (0..(LENGTHS.len() * SEQ) as i32)
        .map(|i| (i * 7 + i / 3) % VOCAB as i32)
        .collect()
}

#[test]
fn own_projections_that_are_copies_change_nothing() {
    let device = Device::flex().autodiff();
    for position in [
        "none",
        "learned",
        "sinusoidal",
        "rotary",
        "alibi",
        "relative_bias",
    ] {
        for keys in [
            json!({}),
            json!({ "n_kv_heads": 2, "qk_norm": { "kind": "rms" }, "softcap": 2.0 }),
        ] {
            let model = |global: &str| {
                let mut attention = json!({ "kind": "sliding_window", "n_heads": HEADS, "window": 6, "global": global });
                attention
                    .as_object_mut()
                    .unwrap()
                    .extend(keys.as_object().unwrap().clone());
                encoder(attention, json!({ "kind": position }), &device)
            };
            let (shared, own) = (model("shared"), model("own"));
            let mut arrays = values_of(&shared);
            let copies: Vec<_> = ["query", "key", "value"]
                .into_iter()
                .flat_map(|part| ["weight", "bias"].map(|kind| format!("{part}.{kind}")))
                .map(|name| {
                    let at = "stack.blocks.0.attention";
                    (
                        format!("{at}.global.{name}"),
                        arrays[&format!("{at}.{name}")].clone(),
                    )
                })
                .collect();
            arrays.extend(copies);
            let (own, shared) = (put(own, &arrays).valid(), shared.valid());
            let name = format!("{position} {keys}");
            near(
                &hidden(&own, &tokens(), true),
                &hidden(&shared, &tokens(), true),
                &name,
            );
        }
    }
}

#[test]
fn without_marked_tokens_it_is_a_window() {
    let device = Device::flex();
    let of = |keys: Value| encoder(keys, json!({ "kind": "alibi" }), &device);
    let plain = of(json!({ "kind": "sliding_window", "n_heads": HEADS, "window": 6 }));
    for global in ["own", "shared"] {
        let keys =
            json!({ "kind": "sliding_window", "n_heads": HEADS, "window": 6, "global": global });
        let model = of(keys);
        let alone = hidden(&model, &tokens(), false);
        assert_eq!(alone, hidden(&plain, &tokens(), true), "{global}");
        assert_ne!(alone, hidden(&model, &tokens(), true), "{global}");
    }
}

#[test]
fn a_global_token_sees_all_and_is_seen_by_all() {
    let device = Device::flex();
    for global in ["own", "shared"] {
        let keys =
            json!({ "kind": "sliding_window", "n_heads": HEADS, "window": 3, "global": global });
        let model = encoder(keys, json!({ "kind": "none" }), &device);
        let before = hidden(&model, &tokens(), true);
        let changed = |at: usize| {
            let mut tokens = tokens();
            tokens[at] = (tokens[at] + 1) % VOCAB as i32;
            let after = hidden(&model, &tokens, true);
            let pairs = before.chunks(WIDTH).zip(after.chunks(WIDTH));
            let differ = pairs.enumerate().filter(|(_, (a, b))| a != b);
            differ.map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!(changed(33), (0..SEQ).collect::<Vec<_>>(), "{global}");
        assert_eq!(changed(10), [0, 8, 9, 10, 11, 12, 33, 68], "{global}");
    }
}
