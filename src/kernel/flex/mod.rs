//! The kernels for Burn's CPU backend, on float32 slices.
//!
//! Work is divided by size only, so sums have the same order for any number of threads.

pub mod activation;
pub mod adaptive;
pub mod attention;
pub mod attention_backward;
pub mod attention_bias;
pub mod attention_heads;
mod attention_packed;
pub mod attention_rows;
pub mod attention_single_query;
pub mod buffer;
mod chunk_scan;
mod chunks;
pub mod convolution;
pub mod cross_entropy;
pub mod ctc;
pub mod delta_rule;
mod disjoint;
pub mod dropout;
pub mod dynamic_tanh;
pub mod embedding;
pub mod generalized_delta;
pub mod grouped;
pub mod head_loss;
pub mod linear;
pub mod linear_attention;
mod maps;
pub mod math;
pub mod norm;
pub mod optim;
pub mod product;
pub mod recurrent;
pub mod recurrent_backward;
pub mod recurrent_cells;
pub mod recurrent_forward;
pub mod relative;
pub mod rotary;
pub mod selective_scan;
pub mod short_convolution;
pub mod simd;
pub mod sorted_chunks;
pub mod ssd;
mod strips;
pub mod threads;
pub mod wkv;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn_flex::{Flex, FlexTensor};

use super::extension::{
    AttentionGradients, AttentionSaved, AttentionSettings, BackwardOps, HeadLossSaved, KernelOps,
    Maybe, NormSettings,
};
use super::profile::timed;
use super::{Activation, ConvolutionSettings, DropKey};
use attention::Problem;
use head_loss::Problem as HeadProblem;

impl KernelOps for Flex {
    fn affine(
        x: FlexTensor,
        _rounded: Maybe<Self>,
        weight: FlexTensor,
        bias: Maybe<Self>,
    ) -> FlexTensor {
        timed("linear", || linear::forward(x, weight, bias.into_option()))
    }

    fn activated_affine(
        x: FlexTensor,
        rounded: Maybe<Self>,
        weight: FlexTensor,
        bias: Maybe<Self>,
        activation: Activation,
    ) -> FlexTensor {
        Self::activation(Self::affine(x, rounded, weight, bias), activation)
    }

    fn residual_add(x: FlexTensor, y: FlexTensor) -> FlexTensor {
        timed("addition", || linear::add(x, y))
    }

    fn dropped_onto(x: FlexTensor, y: FlexTensor, key: DropKey) -> FlexTensor {
        let y = Self::dropped(y, key, false);
        Self::residual_add(x, y)
    }

    fn norm(
        x: FlexTensor,
        gamma: Maybe<Self>,
        beta: Maybe<Self>,
        settings: NormSettings,
    ) -> FlexTensor {
        timed("norm", || {
            norm::forward(x, gamma.into_option(), beta.into_option(), settings)
        })
    }

    fn norm_of_sum(
        x: FlexTensor,
        y: FlexTensor,
        gamma: Maybe<Self>,
        beta: Maybe<Self>,
        factor: f64,
        settings: NormSettings,
    ) -> FlexTensor {
        let [_, out] = Self::norm_of_sum_saving([x, y], gamma, beta, factor, settings);
        out
    }

    fn activation(x: FlexTensor, activation: Activation) -> FlexTensor {
        timed("activation", || activation::forward(x, activation))
    }

    fn gated(gate: FlexTensor, up: FlexTensor, activation: Activation) -> FlexTensor {
        timed("gated product", || activation::gated(gate, up, activation))
    }

    fn fused_attention(
        q: FlexTensor,
        k: FlexTensor,
        v: FlexTensor,
        bias: Maybe<Self>,
        settings: AttentionSettings,
    ) -> FlexTensor {
        timed("attention", || {
            let [out, _] = attention::forward(&Problem::new([q, k, v], bias, settings));
            out
        })
    }

    fn dropped(x: FlexTensor, key: DropKey, rows: bool) -> FlexTensor {
        timed("dropout", || dropout::forward(x, key, rows))
    }

    fn cross_entropy_total(
        logits: FlexTensor,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> FlexTensor {
        timed("cross-entropy", || {
            cross_entropy::total_only(logits, targets, label_smoothing)
        })
    }

    fn rotate(
        x: FlexTensor,
        cos: FlexTensor,
        sin: FlexTensor,
        interleaved: bool,
        opposite: bool,
    ) -> FlexTensor {
        timed("rotary", || {
            rotary::forward(x, cos, sin, interleaved, opposite)
        })
    }

    fn rows(weight: FlexTensor, ids: IntTensor<Self>) -> FlexTensor {
        timed("embedding", || embedding::forward(weight, ids))
    }

    fn head_loss(
        hidden: FlexTensor,
        weight: FlexTensor,
        bias: Maybe<Self>,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> FlexTensor {
        timed("head and loss", || {
            let bias = bias.into_option();
            head_loss::forward(&HeadProblem::new(
                hidden,
                weight,
                bias,
                targets,
                label_smoothing,
            ))
        })
    }

    fn convolved(x: FlexTensor, weight: FlexTensor, settings: ConvolutionSettings) -> FlexTensor {
        timed("convolution", || convolution::forward(x, weight, settings))
    }
}

impl BackwardOps for Flex {
    fn input_gradient(grad: FlexTensor, weight: FlexTensor) -> FlexTensor {
        timed("linear: input's gradient", || {
            linear::input_gradient(grad, weight)
        })
    }

    fn weight_gradient(x: FlexTensor, grad: FlexTensor) -> FlexTensor {
        timed("linear: weights' gradient", || {
            linear::weight_gradient(x, grad)
        })
    }

    fn bias_gradient(grad: FlexTensor) -> FlexTensor {
        timed("linear: bias's gradient", || linear::bias_gradient(grad))
    }

    fn activation_backward(x: FlexTensor, grad: FlexTensor, activation: Activation) -> FlexTensor {
        timed("activation, backward", || {
            activation::backward(x, grad, activation)
        })
    }

    fn gated_backward(
        gate: FlexTensor,
        up: FlexTensor,
        grad: FlexTensor,
        activation: Activation,
    ) -> [FlexTensor; 2] {
        timed("gated product, backward", || {
            activation::gated_backward(gate, up, grad, activation)
        })
    }

    fn norm_of_sum_saving(
        terms: [FlexTensor; 2],
        gamma: Maybe<Self>,
        beta: Maybe<Self>,
        factor: f64,
        settings: NormSettings,
    ) -> [FlexTensor; 2] {
        timed("norm of a sum", || {
            let vectors = [gamma.into_option(), beta.into_option()];
            norm::forward_of_sum(terms, factor, vectors, settings)
        })
    }

    fn norm_backward(
        x: FlexTensor,
        gamma: Maybe<Self>,
        grad: FlexTensor,
        settings: NormSettings,
    ) -> [FlexTensor; 3] {
        timed("norm, backward", || {
            norm::backward(x, gamma.into_option(), grad, settings)
        })
    }

    fn attention_saving(
        q: FlexTensor,
        k: FlexTensor,
        v: FlexTensor,
        bias: Maybe<Self>,
        settings: AttentionSettings,
    ) -> AttentionSaved<Self> {
        timed("attention", || {
            let inputs = [q.clone(), k.clone(), v.clone()];
            let problem = Problem::new(inputs, bias.clone(), settings);
            let [out, lse] = attention::forward(&problem);
            AttentionSaved {
                q,
                k,
                v,
                bias,
                out,
                lse,
            }
        })
    }

    fn attention_backward(
        saved: AttentionSaved<Self>,
        grad: FloatTensor<Self>,
        settings: AttentionSettings,
        bias: bool,
    ) -> AttentionGradients<Self> {
        timed("attention, backward", || {
            let inputs = [saved.q, saved.k, saved.v];
            let problem = Problem::new(inputs, saved.bias, settings);
            attention_backward::backward(&problem, saved.out, saved.lse, grad, bias, None)
        })
    }

    fn cross_entropy_saving(
        logits: FlexTensor,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> [FlexTensor; 2] {
        timed("cross-entropy", || {
            cross_entropy::saving(logits, targets, label_smoothing)
        })
    }

    fn head_loss_saving(
        hidden: FlexTensor,
        weight: FlexTensor,
        bias: Maybe<Self>,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> HeadLossSaved<Self> {
        timed("head and loss", || {
            let bias = bias.into_option();
            head_loss::saving(&HeadProblem::new(
                hidden,
                weight,
                bias,
                targets,
                label_smoothing,
            ))
        })
    }

    fn scaled(x: FlexTensor, factor: FlexTensor) -> FlexTensor {
        timed("scaling", || {
            let factor = buffer::contiguous(factor);
            let factor = buffer::slice(&factor)[0];
            if factor == 1.0 {
                return x;
            }
            optim::scale(x, factor)
        })
    }

    fn rows_backward(ids: IntTensor<Self>, grad: FlexTensor, rows: usize) -> FlexTensor {
        timed("embedding, backward", || {
            embedding::backward(ids, grad, rows)
        })
    }

    fn convolved_input_gradient(
        weight: FlexTensor,
        grad: FlexTensor,
        input: [usize; 4],
        settings: ConvolutionSettings,
    ) -> FlexTensor {
        timed("convolution: input's gradient", || {
            convolution::input_gradient(weight, grad, input, settings)
        })
    }

    fn convolved_weight_gradient(
        x: FlexTensor,
        grad: FlexTensor,
        weight: [usize; 4],
        settings: ConvolutionSettings,
    ) -> FlexTensor {
        timed("convolution: weights' gradient", || {
            convolution::weight_gradient(x, grad, weight, settings)
        })
    }
}
