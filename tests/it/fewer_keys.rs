//! Attention over fewer keys: projected along positions (Linformer), compressed by a convolution, within learned spans, or
//! built from a low-rank latent; and the difference of two attentions. Each is tested against external implementations, and
//! equals dense attention in its limit (`tests/goldens/make_fewer_keys.py`).

mod adaptive_span;
mod differential;
mod latent;
mod linformer;
mod memory_compressed;

use crate::experts::{TOLERANCE, device, tensor};
use crate::oracle::{Oracle, difference, values};
use burn::module::Param;
use burn::tensor::{Gradients, Tensor};
use formwork::kernel::Visibility;
use formwork::nn::attention::{Attention, AttentionConfig, AttentionShape};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::layer::LayerContext;
use formwork::nn::pass::Pass;
use serde_json::Value;

const WIDTH: usize = 16;

/// A parameter with this value.
fn parameter<const D: usize>(value: Tensor<D>) -> Param<Tensor<D>> {
    Param::from_tensor(value.detach().require_grad())
}

/// Reads a parameter of an oracle.
fn read<const D: usize>(oracle: &Oracle, name: &str) -> Param<Tensor<D>> {
    parameter(tensor(oracle, name))
}

fn attention(keys: &Value, shape: &AttentionShape) -> Attention {
    let config: AttentionConfig = serde_json::from_value(keys.clone()).unwrap();
    let device = device();
    let init = Init::new(&device, 3, InitConfig::xavier(), 1, 1.0);
    config.init(shape, &init)
}

fn shape(context: usize, causal: bool) -> AttentionShape {
    AttentionShape {
        causal,
        ..AttentionShape::standalone(WIDTH, context)
    }
}

fn attend(attention: &Attention, x: Tensor<3>, visible: &Visibility) -> Tensor<3> {
    let (pass, positions) = (Pass::evaluation(), x.dims()[1]);
    let mut cx = LayerContext {
        visible,
        ..LayerContext::standalone(positions, &pass)
    };
    attention.layer().forward(x, &mut cx)
}

/// Fixed values, `[rows, positions, 16]`.
fn some(rows: usize, positions: usize) -> Tensor<3> {
    let number = |i: usize| ((i * 37 + i / 16 * 11) % 41) as f32 / 20.0 - 1.0;
    let numbers: Vec<f32> = (0..rows * positions * WIDTH).map(number).collect();
    Tensor::<1>::from_floats(numbers.as_slice(), &device()).reshape([rows, positions, WIDTH])
}

/// Compares a tensor with an oracle's.
fn agrees<const D: usize>(oracle: &Oracle, name: &str, ours: Tensor<D>) {
    let theirs = oracle.array(name).values;
    let far = difference(&values(ours), &theirs);
    assert!(far < TOLERANCE, "{name}: {far}");
}

/// Compares the gradient of a parameter with an oracle's.
fn learns<const D: usize>(
    oracle: &Oracle,
    [case, name]: [&str; 2],
    parameter: &Param<Tensor<D>>,
    gradients: &Gradients,
) {
    let gradient = parameter.val().grad(gradients).unwrap();
    agrees(oracle, &format!("{case}.grad.{name}"), gradient);
}

/// Compares the outputs of two layers.
fn near<const D: usize>(ours: Tensor<D>, theirs: Tensor<D>, what: &str) {
    let far = difference(&values(ours), &values(theirs));
    assert!(far < 2e-5, "{what}: {far}");
}

/// Copies the second layer's heads into the first.
macro_rules! same_heads {
    ($ours:expr, $dense:expr) => {
        let formwork::nn::attention::Attention::MultiHead(dense) = $dense else {
            unreachable!("multi-head attention")
        };
        $ours.heads = dense.clone();
    };
}
use same_heads;
