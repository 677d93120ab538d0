//! Activations and gated products, each in one pass over memory, forward and backward.

use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{contiguous, empty_like, or_placeholder, rows_of, units};
use crate::kernel::Activation;
use crate::kernel::extension::Maybe;

/// `tanh` in a form that stays finite for any x.
#[cube]
pub fn bounded_tanh(x: f32) -> f32 {
    1.0f32 - 2.0f32 / ((x * 2.0f32).exp() + 1.0f32)
}

#[cube]
fn value(x: f32, #[comptime] activation: Activation) -> f32 {
    match activation {
        Activation::Relu => select(x < 0.0f32, 0.0f32, x),
        Activation::ReluSquared => {
            let y = select(x < 0.0f32, 0.0f32, x);
            y * y
        }
        Activation::Gelu => x * 0.5f32 * (1.0f32 + Erf::erf(x * 0.707_106_77f32)),
        Activation::GeluTanh => {
            let inner = 0.797_884_6f32 * (x + 0.044_715f32 * x * x * x);
            x * 0.5f32 * (1.0f32 + bounded_tanh(inner))
        }
        Activation::Silu => x / (1.0f32 + (-x).exp()),
        Activation::QuickGelu => x / (1.0f32 + (x * -1.702f32).exp()),
        Activation::Sigmoid => 1.0f32 / (1.0f32 + (-x).exp()),
    }
}

/// The derivative of an activation at x.
#[cube]
pub fn slope(x: f32, #[comptime] activation: Activation) -> f32 {
    match activation {
        Activation::Relu => select(x > 0.0f32, 1.0f32, 0.0f32),
        Activation::ReluSquared => select(x < 0.0f32, 0.0f32, x + x),
        Activation::Gelu => {
            let below = 0.5f32 * (1.0f32 + Erf::erf(x * 0.707_106_77f32));
            below + x * 0.398_942_3f32 * (x * x * -0.5f32).exp()
        }
        Activation::GeluTanh => {
            let square = x * x;
            let t = bounded_tanh(0.797_884_6f32 * x * (1.0f32 + 0.044_715f32 * square));
            let rise = 0.797_884_6f32 * (1.0f32 + 0.134_145f32 * square);
            0.5f32 * (1.0f32 + t) + 0.5f32 * x * (1.0f32 - t * t) * rise
        }
        Activation::Silu => {
            let s = 1.0f32 / (1.0f32 + (-x).exp());
            s * (1.0f32 + x * (1.0f32 - s))
        }
        Activation::QuickGelu => {
            let s = 1.0f32 / (1.0f32 + (x * -1.702f32).exp());
            s * (1.0f32 + 1.702f32 * x * (1.0f32 - s))
        }
        Activation::Sigmoid => {
            let s = 1.0f32 / (1.0f32 + (-x).exp());
            s * (1.0f32 - s)
        }
    }
}

/// Reads an element of x, plus the bias of its column if there is one.
#[cube]
fn shifted(x: &[f32], bias: &[f32], width: u32, #[comptime] biased: bool) -> f32 {
    let mut value = x[ABSOLUTE_POS];
    if comptime!(biased) {
        value += bias[(ABSOLUTE_POS as u32 % width) as usize];
    }
    value
}

#[cube(launch)]
fn values(
    x: &[f32],
    bias: &[f32],
    out: &mut [f32],
    width: u32,
    #[comptime] activation: Activation,
    #[comptime] biased: bool,
) {
    if ABSOLUTE_POS < out.len() {
        out[ABSOLUTE_POS] = value(shifted(x, bias, width, biased), activation);
    }
}

#[cube(launch)]
fn products(gate: &[f32], up: &[f32], out: &mut [f32], #[comptime] activation: Activation) {
    if ABSOLUTE_POS < out.len() {
        out[ABSOLUTE_POS] = value(gate[ABSOLUTE_POS], activation) * up[ABSOLUTE_POS];
    }
}

#[cube(launch)]
fn slopes(
    x: &[f32],
    bias: &[f32],
    grad: &[f32],
    out: &mut [f32],
    width: u32,
    #[comptime] activation: Activation,
    #[comptime] biased: bool,
) {
    if ABSOLUTE_POS < out.len() {
        let x = shifted(x, bias, width, biased);
        out[ABSOLUTE_POS] = slope(x, activation) * grad[ABSOLUTE_POS];
    }
}

#[cube(launch)]
fn product_slopes(
    gate: &[f32],
    up: &[f32],
    grad: &[f32],
    d_gate: &mut [f32],
    d_up: &mut [f32],
    #[comptime] activation: Activation,
) {
    if ABSOLUTE_POS < d_gate.len() {
        let x = gate[ABSOLUTE_POS];
        let grad = grad[ABSOLUTE_POS];
        d_gate[ABSOLUTE_POS] = slope(x, activation) * grad * up[ABSOLUTE_POS];
        d_up[ABSOLUTE_POS] = value(x, activation) * grad;
    }
}

/// Returns `f(x + bias)`.
pub fn forward(x: CubeTensor, bias: Maybe<CubeBackend>, activation: Activation) -> CubeTensor {
    let x = contiguous(x);
    let out = empty_like(&x);
    let [_, width] = rows_of(&x);
    let (bias, biased) = or_placeholder(bias, &x);
    let (cubes, dim) = units(&x, x.meta.shape().num_elements());
    let client = x.client.clone();
    values::launch(
        &client,
        cubes,
        dim,
        x.into_buffer_arg(),
        bias.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        width as u32,
        activation,
        biased,
    );
    out
}

/// Returns `f'(x + bias)·grad`.
pub fn backward(
    x: CubeTensor,
    bias: Maybe<CubeBackend>,
    grad: CubeTensor,
    activation: Activation,
) -> CubeTensor {
    let (x, grad) = (contiguous(x), contiguous(grad));
    let out = empty_like(&x);
    let [_, width] = rows_of(&x);
    let (bias, biased) = or_placeholder(bias, &x);
    let (cubes, dim) = units(&x, x.meta.shape().num_elements());
    let client = x.client.clone();
    slopes::launch(
        &client,
        cubes,
        dim,
        x.into_buffer_arg(),
        bias.into_buffer_arg(),
        grad.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        width as u32,
        activation,
        biased,
    );
    out
}

/// Returns `f(gate)·up`.
pub fn gated(gate: CubeTensor, up: CubeTensor, activation: Activation) -> CubeTensor {
    let (gate, up) = (contiguous(gate), contiguous(up));
    let out = empty_like(&gate);
    let (cubes, dim) = units(&gate, gate.meta.shape().num_elements());
    let client = gate.client.clone();
    let (gate, up) = (gate.into_buffer_arg(), up.into_buffer_arg());
    let y = out.clone().into_buffer_arg();
    products::launch(&client, cubes, dim, gate, up, y, activation);
    out
}

/// Returns the gradients of gate and up.
pub fn gated_backward(
    gate: CubeTensor,
    up: CubeTensor,
    grad: CubeTensor,
    activation: Activation,
) -> [CubeTensor; 2] {
    let [gate, up, grad] = [gate, up, grad].map(contiguous);
    let out = [empty_like(&gate), empty_like(&gate)];
    let (cubes, dim) = units(&gate, gate.meta.shape().num_elements());
    let client = gate.client.clone();
    let [d_gate, d_up] = out.clone().map(CubeTensor::into_buffer_arg);
    let [gate, up, grad] = [gate, up, grad].map(CubeTensor::into_buffer_arg);
    product_slopes::launch(
        &client, cubes, dim, gate, up, grad, d_gate, d_up, activation,
    );
    out
}
