//! The GPU kernels, written in CubeCL: one source for CUDA, Vulkan, Metal and WebGPU, compiled when a process first
//! launches it. The backend is Burn's without fusion; under fusion the composed form is used.
//!
//! Each file is one kernel with its backward pass. Sums have a fixed order and nothing is accumulated through
//! atomics, so the same kernels on the same device give the same bits; products choose among several forms by
//! measuring ([`multiply`]).

#![allow(
    clippy::collapsible_if,
    clippy::manual_div_ceil,
    clippy::manual_is_multiple_of,
    reason = "kernels are written as CubeCL translates them: conditions known when it compiles stand alone"
)]

pub mod activated;
pub mod activation;
pub mod attention;
pub mod bias_gradient;
pub mod blocks;
pub mod chunks;
pub mod columns;
pub mod convolution;
pub mod cross_entropy;
pub mod decision;
pub mod delta_rule;
pub mod dropout;
pub mod dynamic_tanh;
pub mod embedding;
pub mod fragment;
pub mod head_loss;
pub mod launch;
pub mod linear;
pub mod multiply;
pub mod norm;
pub mod optim;
pub mod parts;
pub mod philox;
pub mod relative;
pub mod replay;
pub mod rotary;
pub mod row_products;
pub mod scores;
pub mod selective_scan;
pub mod shared_launch;
pub mod softmax;
pub mod square;
pub mod squares;
pub mod ssd;
pub mod step_inputs;
pub mod strided;
pub mod structure;
pub mod updates;
pub mod visibility_data;
pub mod wkv;

use burn::backend::ops::FloatTensorOps;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::extension::{
    ActivatedSaved, AttentionGradients, AttentionSaved, AttentionSettings, BackwardOps,
    HeadLossSaved, KernelOps, Maybe, NormSettings,
};
use super::relative::extension::WantedGradients;
use super::{Activation, ConvolutionSettings, DropKey};
use head_loss::Problem;

impl KernelOps for CubeBackend {
    fn affine(
        x: CubeTensor,
        rounded: Maybe<Self>,
        weight: CubeTensor,
        bias: Maybe<Self>,
    ) -> CubeTensor {
        linear::forward(rounded.into_option().unwrap_or(x), weight, bias)
    }

    fn activated_affine(
        x: CubeTensor,
        rounded: Maybe<Self>,
        weight: CubeTensor,
        bias: Maybe<Self>,
        activation: Activation,
    ) -> CubeTensor {
        let x = rounded.into_option().unwrap_or(x);
        let [out, _] = activated::saving(x, weight, bias, activation);
        out
    }

    fn residual_add(x: CubeTensor, y: CubeTensor) -> CubeTensor {
        Self::float_add(x, y)
    }

    fn dropped_onto(x: CubeTensor, y: CubeTensor, key: DropKey) -> CubeTensor {
        dropout::add_dropped(x, y, key)
    }

    fn norm(
        x: CubeTensor,
        gamma: Maybe<Self>,
        beta: Maybe<Self>,
        settings: NormSettings,
    ) -> CubeTensor {
        norm::forward(x, gamma, beta, settings)
    }

    fn norm_of_sum(
        x: CubeTensor,
        y: CubeTensor,
        gamma: Maybe<Self>,
        beta: Maybe<Self>,
        factor: f64,
        settings: NormSettings,
    ) -> CubeTensor {
        let [_, out] = norm::forward_of_sum([x, y], gamma, beta, factor, settings);
        out
    }

    fn activation(x: CubeTensor, activation: Activation) -> CubeTensor {
        activation::forward(x, Maybe::None, activation)
    }

    fn gated(gate: CubeTensor, up: CubeTensor, activation: Activation) -> CubeTensor {
        activation::gated(gate, up, activation)
    }

    fn fused_attention(
        q: CubeTensor,
        k: CubeTensor,
        v: CubeTensor,
        bias: Maybe<Self>,
        settings: AttentionSettings,
    ) -> CubeTensor {
        attention::saving([q, k, v], bias, settings, None).out
    }

    fn dropped(x: CubeTensor, key: DropKey, rows: bool) -> CubeTensor {
        dropout::forward(x, key, rows)
    }

    fn cross_entropy_total(
        logits: CubeTensor,
        targets: CubeTensor,
        label_smoothing: f64,
    ) -> CubeTensor {
        let [loss, _] = cross_entropy::total(logits, targets, label_smoothing, false);
        loss
    }

    fn rotate(
        x: CubeTensor,
        cos: CubeTensor,
        sin: CubeTensor,
        interleaved: bool,
        opposite: bool,
    ) -> CubeTensor {
        rotary::forward(x, cos, sin, interleaved, opposite)
    }

    fn rows(weight: CubeTensor, ids: CubeTensor) -> CubeTensor {
        embedding::forward(weight, ids)
    }

    fn head_loss(
        hidden: CubeTensor,
        weight: CubeTensor,
        bias: Maybe<Self>,
        targets: CubeTensor,
        label_smoothing: f64,
    ) -> CubeTensor {
        Problem {
            hidden,
            weight,
            bias,
            targets,
            smoothing: label_smoothing,
        }
        .forward()
    }

    fn convolved(x: CubeTensor, weight: CubeTensor, settings: ConvolutionSettings) -> CubeTensor {
        convolution::forward(x, weight, settings)
    }
}

impl BackwardOps for CubeBackend {
    fn input_gradient(grad: CubeTensor, weight: CubeTensor) -> CubeTensor {
        linear::input_gradient(grad, weight)
    }

    fn weight_gradient(x: CubeTensor, grad: CubeTensor) -> CubeTensor {
        linear::weight_gradient(x, grad)
    }

    fn bias_gradient(grad: CubeTensor) -> CubeTensor {
        columns::sum(grad)
    }

    fn affine_backward(
        operands: [CubeTensor; 2],
        grad: CubeTensor,
        wanted: [bool; 3],
    ) -> [Option<CubeTensor>; 3] {
        linear::gradients(operands, grad, wanted)
    }

    fn activated_affine_saving(
        x: CubeTensor,
        rounded: Maybe<Self>,
        weight: CubeTensor,
        bias: Maybe<Self>,
        activation: Activation,
    ) -> (CubeTensor, ActivatedSaved<Self>) {
        let x = rounded.into_option().unwrap_or(x);
        let [out, inner] = activated::saving(x.clone(), weight.clone(), bias.clone(), activation);
        let saved = ActivatedSaved {
            x,
            weight,
            inner,
            bias,
        };
        (out, saved)
    }

    fn activated_affine_backward(
        saved: ActivatedSaved<Self>,
        grad: CubeTensor,
        activation: Activation,
        wanted: [bool; 3],
    ) -> [Option<CubeTensor>; 3] {
        activated::gradients(saved, grad, activation, wanted)
    }

    fn activation_backward(x: CubeTensor, grad: CubeTensor, activation: Activation) -> CubeTensor {
        activation::backward(x, Maybe::None, grad, activation)
    }

    fn gated_backward(
        gate: CubeTensor,
        up: CubeTensor,
        grad: CubeTensor,
        activation: Activation,
    ) -> [CubeTensor; 2] {
        activation::gated_backward(gate, up, grad, activation)
    }

    fn norm_of_sum_saving(
        terms: [CubeTensor; 2],
        gamma: Maybe<Self>,
        beta: Maybe<Self>,
        factor: f64,
        settings: NormSettings,
    ) -> [CubeTensor; 2] {
        norm::forward_of_sum(terms, gamma, beta, factor, settings)
    }

    fn norm_backward(
        x: CubeTensor,
        gamma: Maybe<Self>,
        grad: CubeTensor,
        settings: NormSettings,
    ) -> [CubeTensor; 3] {
        norm::backward(x, gamma, grad, settings)
    }

    fn attention_saving(
        q: CubeTensor,
        k: CubeTensor,
        v: CubeTensor,
        bias: Maybe<Self>,
        settings: AttentionSettings,
    ) -> AttentionSaved<Self> {
        attention::saving([q, k, v], bias, settings, None)
    }

    fn attention_backward(
        saved: AttentionSaved<Self>,
        grad: CubeTensor,
        settings: AttentionSettings,
        bias: bool,
    ) -> AttentionGradients<Self> {
        let wanted = WantedGradients {
            bias,
            tensors: [false; 5],
        };
        attention::backward(saved, grad, settings, None, wanted).attention
    }

    fn cross_entropy_saving(
        logits: CubeTensor,
        targets: CubeTensor,
        label_smoothing: f64,
    ) -> [CubeTensor; 2] {
        cross_entropy::total(logits, targets, label_smoothing, true)
    }

    fn head_loss_saving(
        hidden: CubeTensor,
        weight: CubeTensor,
        bias: Maybe<Self>,
        targets: CubeTensor,
        label_smoothing: f64,
    ) -> HeadLossSaved<Self> {
        Problem {
            hidden,
            weight,
            bias,
            targets,
            smoothing: label_smoothing,
        }
        .saving()
    }

    fn scaled(x: CubeTensor, factor: CubeTensor) -> CubeTensor {
        optim::scaled(x, factor)
    }

    fn rows_backward(ids: CubeTensor, grad: CubeTensor, rows: usize) -> CubeTensor {
        embedding::backward(ids, grad, rows)
    }

    fn convolved_input_gradient(
        weight: CubeTensor,
        grad: CubeTensor,
        input: [usize; 4],
        settings: ConvolutionSettings,
    ) -> CubeTensor {
        convolution::input_gradient(weight, grad, input, settings)
    }

    fn convolved_weight_gradient(
        x: CubeTensor,
        grad: CubeTensor,
        weight: [usize; 4],
        settings: ConvolutionSettings,
    ) -> CubeTensor {
        convolution::weight_gradient(x, grad, weight, settings)
    }
}
