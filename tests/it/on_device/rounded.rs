//! Linear maps of bfloat16 operands against the same products of rounded values on the CPU.
//!
//! The number format is set for a whole process, so the test runs in a separate one. WGSL has no bfloat16.

use std::process::Command;

use burn::tensor::{Device, FloatDType, Tensor};
use formwork::kernel::{self, Activation, AttentionOptions, Operand, Positional};

use super::{close, device, name, random, values};

/// The variable that makes the test below do its work in a separate process.
const PART: &str = "FORMWORK_TEST_PART";

/// Rounds a tensor's elements to 8 significant bits.
fn rounded<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.cast(FloatDType::BF16).cast(FloatDType::F32)
}

/// Input, weights and biases of two maps, and the gradients of their outputs.
struct Case {
    x: Tensor<3>,
    weights: [Tensor<2>; 2],
    biases: [Tensor<1>; 2],
    grads: [Tensor<3>; 2],
}

impl Case {
    fn new([batch, seq, d_in, d_out]: [usize; 4], device: &Device) -> Self {
        let weight = |seed| random([d_out, d_in], seed).on(device);
        let bias = |seed| random([d_out], seed).on(device);
        let grad = |seed| random([batch, seq, d_out], seed).on(device);
        Self {
            x: random([batch, seq, d_in], 1).on(device),
            weights: [weight(2), weight(3)],
            biases: [bias(4), bias(5)],
            grads: [grad(6), grad(7)],
        }
    }

    /// Runs a plain map and an activated one on one input; returns outputs, then the gradients of the input, the weights and
    /// the biases.
    fn run(self, activation: Activation) -> Vec<Vec<f32>> {
        let x = self.x.require_grad();
        let [w, v] = self.weights.map(Tensor::require_grad);
        let [b, c] = self.biases.map(Tensor::require_grad);
        let operand = Operand::new(x.clone());
        let plain = operand.clone().linear(w.clone(), Some(b.clone()));
        let activated = operand.activated(v.clone(), Some(c.clone()), activation);
        let [g, h] = self.grads;
        let loss = (plain.clone() * g).sum() + (activated.clone() * h).sum();
        let grads = loss.backward();
        let mut all = vec![values(&plain), values(&activated)];
        all.push(values(&x.grad(&grads).unwrap()));
        all.extend([w, v].map(|w| values(&w.grad(&grads).unwrap())));
        all.extend([b, c].map(|b| values(&b.grad(&grads).unwrap())));
        all
    }

    /// Computes the same from its definition.
    fn by_hand(self, activation: Activation) -> Vec<Vec<f32>> {
        let Self {
            x,
            weights,
            biases: [b, c],
            grads: [g, h],
        } = self;
        let [batch, seq, d_in] = x.dims();
        let rows = batch * seq;
        let x = rounded(x.reshape([rows, d_in]));
        let [w, v] = weights.map(rounded);
        let d_out = w.dims()[0];
        let [g, h] = [g, h].map(|g| g.reshape([rows, d_out]));
        let plain = x.clone().matmul(w.clone().transpose()) + b.unsqueeze();
        let inner = x.clone().matmul(v.clone().transpose()) + c.unsqueeze();
        let inner = inner.unsqueeze::<3>().autodiff().require_grad();
        let activated = kernel::activate(inner.clone(), activation);
        let slopes = (activated.clone() * Tensor::from_inner(h.unsqueeze())).sum();
        let slopes = inner.grad(&slopes.backward()).unwrap().squeeze_dim::<2>(0);
        let [d_plain, d_inner] = [g.clone(), slopes.clone()].map(rounded);
        let d_x = d_plain.clone().matmul(w) + d_inner.clone().matmul(v);
        let d_w = d_plain.transpose().matmul(x.clone());
        let d_v = d_inner.transpose().matmul(x);
        let mut all = vec![values(&plain), values(&activated.inner())];
        all.extend([d_x, d_w, d_v].map(|x| values(&x)));
        all.extend([g, slopes].map(|x| values(&x.sum_dim(0))));
        all
    }
}

#[test]
fn linear_maps_in_bfloat16() {
    let Some(name) = name().filter(|name| name.starts_with("cuda")) else {
        eprintln!("skipped: no device that multiplies bfloat16");
        return;
    };
    if std::env::var(PART).is_ok() {
        return compare(&name);
    }
    let own = "on_device::rounded::linear_maps_in_bfloat16";
    for way in ["fastest", "pipelined"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", own, "--nocapture"])
            .envs([(PART, "1"), ("FORMWORK_PRODUCTS", way)])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{way}: {said}");
    }
}

fn compare(name: &str) {
    kernel::round_operands(true);
    let device = device().unwrap().autodiff();
    // Sizes inside a tile of the product, at its edges, and beyond it with sums over several steps.
    let all = [
        [1, 1, 8, 16],
        [3, 5, 16, 24],
        [2, 70, 64, 40],
        [2, 150, 200, 136],
    ];
    for sizes in all {
        for activation in [Activation::Gelu, Activation::Relu] {
            let ours = Case::new(sizes, &device).run(activation);
            let oracle = Case::new(sizes, &Device::flex()).by_hand(activation);
            for (number, (ours, oracle)) in ours.iter().zip(&oracle).enumerate() {
                let what = format!("{name}: {sizes:?}, {activation:?}, {number}");
                match number {
                    // Derivatives that differ in their last digit may be rounded in either direction.
                    2 | 4 => near(&what, ours, oracle),
                    _ => close(&what, ours, oracle),
                }
            }
        }
    }
    compare_tf32(&device.inner());
}

/// Compares linear maps, and products of rows with a single key head, where tensor cores may round 32-bit operands to TF32;
/// other devices do not round.
fn compare_tf32(device: &Device) {
    kernel::round_operands(false);
    kernel::allow_tf32(true);
    let of = |device: &Device| {
        let map = |dims: [usize; 2]| {
            let x = random([dims[0], dims[1]], 1).on(device);
            kernel::linear(
                x.unsqueeze::<3>(),
                random([70, dims[1]], 2).on(device),
                None,
            )
        };
        let heads = |seed| random([2, 600, 1, 32], seed).on(device).swap_dims(1, 2);
        let options = AttentionOptions {
            scale: 0.2,
            softcap: None,
            dropout: None,
        };
        let attended =
            kernel::attention(heads(3), heads(4), heads(5), Positional::default(), options);
        [
            values(&map([90, 33])),
            values(&map([600, 520])),
            values(&attended),
        ]
    };
    for (number, (ours, oracle)) in of(device).iter().zip(&of(&Device::flex())).enumerate() {
        near(&format!("TF32, {number}"), ours, oracle);
    }
}

/// Checks equality to 2e-3 of the largest value.
fn near(what: &str, ours: &[f32], oracle: &[f32]) {
    assert_eq!(ours.len(), oracle.len(), "{what}: sizes");
    let largest = oracle.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    for (i, (a, b)) in ours.iter().zip(oracle).enumerate() {
        assert!(
            (a - b).abs() <= 2e-3 * largest,
            "{what}[{i}]: {a} instead of {b}"
        );
    }
}
