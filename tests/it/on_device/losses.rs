//! Cross-entropy from logits and from a head.

use burn::tensor::Device;
use formwork::kernel::{self, Head, IGNORE_INDEX};

use super::{close, device, integers, ints, random, same, values};

fn targets(n: usize, vocab: usize) -> Vec<i64> {
    let mut ids = integers(n, vocab as u64, 5);
    let skipped = ids.iter_mut().enumerate().filter(|(i, _)| i % 4 == 1);
    skipped.for_each(|(_, id)| *id = IGNORE_INDEX);
    ids
}

const SIZES: [[usize; 3]; 4] = [[1, 1, 1], [5, 3, 7], [33, 17, 65], [130, 24, 700]];

#[test]
fn cross_entropies() {
    let Some(device) = device() else { return };
    for [n, _, vocab] in SIZES {
        let targets = targets(n, vocab);
        for smoothing in [0.0, 0.1] {
            let logits = random([n, vocab], 1).times(4.0);
            same("cross-entropy", &device, [logits], |device, [logits]| {
                let targets = ints(&targets, [n], device);
                kernel::cross_entropy_sum(logits, targets, smoothing)
            });
        }
    }
}

#[test]
fn head_losses() {
    let Some(device) = device() else { return };
    for [n, d, vocab] in SIZES {
        let targets = targets(n, vocab);
        for (with_bias, smoothing) in [(false, 0.0), (true, 0.1)] {
            let weight = random([vocab, d], 2).times(1.0 / (d as f32).sqrt());
            let run = |device: &Device| {
                let device = device.clone().autodiff();
                let hidden = random([n, d], 1).on(&device).require_grad();
                let head = Head {
                    weight: weight.on(&device).require_grad(),
                    bias: with_bias.then(|| random([vocab], 3).on(&device).require_grad()),
                };
                let targets = ints(&targets, [n], &device);
                let loss = kernel::head_loss(hidden.clone(), head.clone(), targets, smoothing);
                let mut all = vec![values(&loss.sum), values(&loss.is_correct)];
                let grads = (loss.sum * 0.25).backward();
                all.push(values(&hidden.grad(&grads).unwrap()));
                all.push(values(&head.weight.grad(&grads).unwrap()));
                all.extend(head.bias.map(|bias| values(&bias.grad(&grads).unwrap())));
                all
            };
            let (ours, flex) = (run(&device), run(&Device::flex()));
            for (i, (a, b)) in ours.iter().zip(&flex).enumerate() {
                close(&format!("head loss {n} {vocab}, part {i}"), a, b);
            }
        }
    }
}
