//! Twenty steps of a small decoder made only of kernels, with dropout, AdamW and shared key-value heads: the losses on the
//! device equal flex's within 1e-3.

use burn::tensor::{Device, Tensor};
use formwork::kernel::{
    self, Activation, AdamwArgs, AttentionOptions, DropKey, Head, Positional, Visibility,
};

use super::{Numbers, device, integers, ints, random, values};

const VOCAB: usize = 19;
const WIDTH: usize = 16;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const ROWS: usize = 3;
const LEN: usize = 11;

/// The decoder's matrices and vectors, all as matrices.
fn parameters() -> Vec<Numbers<2>> {
    let kv = WIDTH / HEADS * KV_HEADS;
    let shapes = [
        [VOCAB, WIDTH],
        [1, WIDTH],
        [WIDTH + 2 * kv, WIDTH],
        [WIDTH, WIDTH],
        [1, WIDTH],
        [2 * WIDTH, WIDTH],
        [2 * WIDTH, WIDTH],
        [WIDTH, 2 * WIDTH],
        [1, WIDTH],
    ];
    let each = shapes.into_iter().zip(1..);
    each.map(|(dims, seed)| match dims {
        [1, _] => Numbers {
            dims,
            values: vec![1.0; WIDTH],
        },
        _ => random(dims, seed).times(0.25),
    })
    .collect()
}

fn loss(all: &[Tensor<2>], step: u64, device: &Device) -> Tensor<1> {
    let [embedding, first, qkv, out, second, gate, up, down, last] = all else {
        unreachable!("as many parameters as shapes")
    };
    let vector = |x: &Tensor<2>| x.clone().reshape([WIDTH]);
    let drop = |site| DropKey {
        p: 0.1,
        seed: 5,
        step,
        first_row: 0,
        site,
    };
    let ids = integers(ROWS * LEN, VOCAB as u64 / 2, step % 4);
    let targets: Vec<i64> = ids.iter().map(|id| (id * 2 + 1) % VOCAB as i64).collect();
    let x = kernel::embedding(embedding.clone(), ints(&ids, [ROWS, LEN], device));
    let x = kernel::dropout(x, drop(1));
    let h = kernel::rms_norm(x.clone(), Some(vector(first)), 1e-6);
    let qkv = kernel::linear(h, qkv.clone(), None);
    let d_head = WIDTH / HEADS;
    let heads = |from: usize, count: usize| {
        let part = qkv.clone().narrow(2, from, count * d_head);
        part.reshape([ROWS, LEN, count, d_head]).swap_dims(1, 2)
    };
    let kv = d_head * KV_HEADS;
    let [q, k, v] = [
        heads(0, HEADS),
        heads(WIDTH, KV_HEADS),
        heads(WIDTH + kv, KV_HEADS),
    ];
    let angles = random([LEN, d_head / 2], 31).on(device);
    let turned = |x| kernel::rotary(x, angles.clone().cos(), angles.clone().sin(), false);
    let relations = Positional {
        visible: Visibility::causal(),
        ..Positional::default()
    };
    let options = AttentionOptions {
        scale: 0.5,
        softcap: None,
        dropout: Some(drop(2)),
    };
    let y = kernel::attention(turned(q), turned(k), v, relations, options);
    let y = y.swap_dims(1, 2).reshape([ROWS, LEN, WIDTH]);
    let x = kernel::add(
        x,
        kernel::dropout(kernel::linear(y, out.clone(), None), drop(3)),
    );
    let h = kernel::layer_norm(x.clone(), Some(vector(second)), None, 1e-5);
    let sides = [gate, up].map(|w| kernel::linear(h.clone(), w.clone(), None));
    let [gate, up] = sides;
    let y = kernel::linear(
        kernel::gated(gate, up, Activation::Silu),
        down.clone(),
        None,
    );
    let x = kernel::rms_norm_of_sum([y, x], 1.0, Some(vector(last)), 1e-6);
    let head = Head {
        weight: embedding.clone(),
        bias: None,
    };
    let hidden = x.reshape([ROWS * LEN, WIDTH]);
    kernel::head_loss(hidden, head, ints(&targets, [ROWS * LEN], device), 0.05).sum
}

fn losses(device: &Device) -> Vec<f32> {
    let tracked = device.clone().autodiff();
    let all = parameters();
    let mut all: Vec<Tensor<2>> = all.iter().map(|x| x.on(device)).collect();
    let zeros: Vec<Tensor<2>> = all.iter().map(Tensor::zeros_like).collect();
    let mut moments = [zeros.clone(), zeros];
    let mut losses = Vec::new();
    for step in 1..=20 {
        let leaves: Vec<Tensor<2>> = all
            .iter()
            .map(|x| Tensor::from_inner(x.clone()).require_grad())
            .collect();
        let loss = loss(&leaves, step, &tracked) / (ROWS * LEN) as f64;
        losses.push(values(&loss)[0]);
        let grads = loss.backward();
        for (i, leaf) in leaves.iter().enumerate() {
            let args = AdamwArgs {
                lr: 1e-2,
                beta_1: 0.9,
                beta_2: 0.99,
                eps: 1e-8,
                weight_decay: 0.1,
                time: step,
            };
            let [first, second] = [0, 1].map(|m| moments[m][i].clone());
            let grad = leaf.grad(&grads).unwrap();
            let (param, first, second) =
                kernel::adamw_step(all[i].clone(), grad, first, second, args);
            all[i] = param;
            moments[0][i] = first;
            moments[1][i] = second;
        }
    }
    losses
}

#[test]
fn a_decoder_of_kernels() {
    let Some(device) = device() else { return };
    let (ours, flex) = (losses(&device), losses(&Device::flex()));
    assert!(flex[19] < 0.8 * flex[0], "it learns: {flex:?}");
    for (step, (a, b)) in ours.iter().zip(&flex).enumerate() {
        assert!((a - b).abs() < 1e-3, "step {step}: {a} instead of {b}");
    }
}
