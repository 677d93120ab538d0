//! Every operation of [`super`] written with plain tensor operations: it runs on devices without kernels and is the
//! reference that the kernels are tested against.
//!
//! Differentiation is left to Burn's autodiff, so intermediate results are kept; nothing here is fast. Arguments and
//! shapes are those of the functions of the same name in [`super`].

use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, FloatDType, Int, Tensor, TensorData, activation as burn_activation};

use super::activation::QUICK_GELU;
use super::{
    Activation, AdamwArgs, ConvolutionSettings, DropKey, Head, HeadLoss, precision::product, read,
    replay,
};
use crate::rng::Purpose;

mod adaptive;
mod attention;
mod recurrent;
pub(super) mod steps;
pub use adaptive::{adaptive_step, adopt_step, mean_step};
pub use attention::{attention, attention_entropy, attention_weights};
pub use recurrent::recurrent;

/// `x·weightᵀ + bias`.
pub fn linear(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
    let [batch, seq, d_in] = x.dims();
    let d_out = weight.dims()[0];
    let y = product(x.reshape([batch * seq, d_in]), weight.transpose());
    let y = match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    };
    y.reshape([batch, seq, d_out])
}

/// `ln(1 + eˣ)`.
pub fn softplus<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.clone().clamp_min(0.0) + x.abs().neg().exp().log1p()
}

/// `x + y`.
pub fn add(x: Tensor<3>, y: Tensor<3>) -> Tensor<3> {
    x + y
}

/// Returns `[taken, factor]`, as defined by [`super::decide_step`].
pub fn decide_step(
    loss: Tensor<1>,
    squares: Tensor<1>,
    limit: Option<f64>,
    before: Option<Tensor<1>>,
) -> Tensor<1> {
    let taken = loss.is_finite().bool_and(squares.clone().is_finite());
    let taken = match before {
        Some(before) => taken.bool_and(before.not_equal_elem(0.0)),
        None => taken,
    };
    let taken = taken.int().cast(FloatDType::F32);
    let factor = match limit {
        Some(limit) => {
            let norm = squares.sqrt();
            let within = norm.clone().lower_equal_elem(limit);
            ((norm + 1e-6).recip() * limit).mask_fill(within, 1.0)
        }
        None => taken.ones_like(),
    };
    Tensor::cat(vec![taken, factor], 0)
}

/// Layer normalisation over the last dimension.
pub fn layer_norm(
    x: Tensor<3>,
    gamma: Option<Tensor<1>>,
    beta: Option<Tensor<1>>,
    eps: f64,
) -> Tensor<3> {
    let centred = x.clone() - x.mean_dim(2);
    let variance = centred.clone().square().mean_dim(2);
    let y = centred / (variance + eps).sqrt();
    let y = match gamma {
        Some(gamma) => y * gamma.unsqueeze(),
        None => y,
    };
    match beta {
        Some(beta) => y + beta.unsqueeze(),
        None => y,
    }
}

/// RMS normalisation over the last dimension.
pub fn rms_norm(x: Tensor<3>, gamma: Option<Tensor<1>>, eps: f64) -> Tensor<3> {
    let mean_square = x.clone().square().mean_dim(2);
    let y = x / (mean_square + eps).sqrt();
    match gamma {
        Some(gamma) => y * gamma.unsqueeze(),
        None => y,
    }
}

/// Dynamic tanh: `gamma·tanh(alpha·x) + beta`.
pub fn dynamic_tanh(
    x: Tensor<3>,
    alpha: Tensor<1>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
) -> Tensor<3> {
    (x * alpha.unsqueeze()).tanh() * gamma.unsqueeze() + beta.unsqueeze()
}

/// 2-D convolution without bias.
pub fn convolution(x: Tensor<4>, weight: Tensor<4>, settings: ConvolutionSettings) -> Tensor<4> {
    let (stride, padding) = ([settings.stride; 2], [settings.padding; 2]);
    let options = ConvOptions::new(stride, padding, [1, 1], 1);
    conv2d(x, weight, None, options)
}

/// Applies the activation elementwise.
pub fn activate(x: Tensor<3>, activation: Activation) -> Tensor<3> {
    match activation {
        Activation::Relu => burn_activation::relu(x),
        Activation::Gelu => {
            let half = x.clone() * 0.5;
            half * ((x * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0)
        }
        Activation::GeluTanh => {
            let inner = x.clone() + x.clone().powi_scalar(3) * 0.044_715;
            let scaled = inner * (2.0 / std::f64::consts::PI).sqrt();
            x * 0.5 * (scaled.tanh() + 1.0)
        }
        Activation::Silu => x.clone() * burn_activation::sigmoid(x),
        Activation::ReluSquared => burn_activation::relu(x).square(),
        Activation::QuickGelu => {
            let steep = x.clone() * f64::from(QUICK_GELU);
            x * burn_activation::sigmoid(steep)
        }
        Activation::Sigmoid => burn_activation::sigmoid(x),
    }
}

/// `activation(gate) · up`.
pub fn gated(gate: Tensor<3>, up: Tensor<3>, activation: Activation) -> Tensor<3> {
    activate(gate, activation) * up
}

/// Dropout of single elements.
pub fn dropout(x: Tensor<3>, key: DropKey) -> Tensor<3> {
    drop_elements(x, key)
}

/// The reason why these masks cannot be recorded: a recording would repeat those of one step.
const DRAWN_ON_HOST: &str = "one of its dropout masks is drawn on the host";

/// Dropout of the elements of a tensor of any rank, with dimension 0 as the row.
pub fn drop_elements<const D: usize>(x: Tensor<D>, key: DropKey) -> Tensor<D> {
    if key.p <= 0.0 {
        return x;
    }
    replay::refuse(DRAWN_ON_HOST);
    let dims = x.dims();
    let per_row = dims.iter().skip(1).product::<usize>();
    let mut factors = vec![0.0f32; dims[0] * per_row];
    for (row, factors) in factors.chunks_exact_mut(per_row.max(1)).enumerate() {
        key.fill(row, 0, factors);
    }
    let data = TensorData::new(factors, dims);
    let factors = Tensor::<D>::from_data(data, &x.device());
    x * factors
}

/// Dropout of whole rows.
pub fn drop_path(x: Tensor<3>, key: DropKey) -> Tensor<3> {
    if key.p <= 0.0 {
        return x;
    }
    replay::refuse(DRAWN_ON_HOST);
    let batch = x.dims()[0];
    let factors: Vec<f32> = (0..batch)
        .map(|row| {
            let word = key.stream(Purpose::DropPath, row).block(0)[0];
            key.factor(word)
        })
        .collect();
    let factors = Tensor::<3>::from_data(TensorData::new(factors, [batch, 1, 1]), &x.device());
    x * factors
}

/// Converts a half-precision tensor to single precision, whose digits and range a long sum needs.
pub fn to_f32<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    match x.dtype() {
        DType::F16 | DType::BF16 => x.cast(FloatDType::F32),
        _ => x,
    }
}

/// Summed cross-entropy.
pub fn cross_entropy_sum(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
) -> Tensor<1> {
    let [positions, vocab] = logits.dims();
    let skipped = targets.clone().equal_elem(super::IGNORE_INDEX);
    let index = targets
        .mask_fill(skipped.clone(), 0)
        .reshape([positions, 1]);
    let log_p = burn_activation::log_softmax(to_f32(logits), 1);
    let picked = log_p.clone().gather(1, index).reshape([positions]);
    let mut loss = picked * (label_smoothing - 1.0);
    if label_smoothing > 0.0 {
        let all = log_p.sum_dim(1).reshape([positions]);
        loss = loss - all * (label_smoothing / vocab as f64);
    }
    loss.mask_fill(skipped, 0.0).sum()
}

/// The loss of an LM head's logits, and the positions at which they are right.
pub fn head_loss(
    hidden: Tensor<2>,
    head: Head,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
) -> HeadLoss {
    let logits = product(hidden, head.weight.transpose());
    let logits = match head.bias {
        Some(bias) => logits + bias.unsqueeze(),
        None => logits,
    };
    HeadLoss {
        is_correct: correct_predictions(&logits, targets.clone()),
        sum: cross_entropy_sum(logits, targets, label_smoothing),
    }
}

/// Returns 1 for every position whose target has the highest logit, else 0; `[N]`, without gradient.
pub fn correct_predictions(scores: &Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    let best = scores.clone().detach().argmax(1).squeeze_dim::<1>(1);
    to_f32(best.equal(targets).float())
}

/// Summed cross-entropy against distributions.
pub fn soft_cross_entropy_sum(logits: Tensor<2>, distribution: Tensor<2>) -> Tensor<1> {
    -(burn_activation::log_softmax(to_f32(logits), 1) * to_f32(distribution)).sum()
}

/// Rotates pairs of the first `R` dimensions of each head.
pub fn rotary(x: Tensor<4>, cos: Tensor<2>, sin: Tensor<2>, interleaved: bool) -> Tensor<4> {
    let [batch, heads, seq, d_head] = x.dims();
    let pairs = cos.dims()[1];
    let turned = x.clone().narrow(3, 0, 2 * pairs);
    let split = if interleaved {
        [batch, heads, seq, pairs, 2]
    } else {
        [batch, heads, seq, 2, pairs]
    };
    let axis = if interleaved { 4 } else { 3 };
    let halves = turned.reshape(split);
    let part = |i| {
        halves
            .clone()
            .narrow(axis, i, 1)
            .reshape([batch, heads, seq, pairs])
    };
    let (a, b) = (part(0), part(1));
    let cos = cos.reshape([1, 1, seq, pairs]);
    let sin = sin.reshape([1, 1, seq, pairs]);
    let first = a.clone() * cos.clone() - b.clone() * sin.clone();
    let second = b * cos + a * sin;
    let joined = Tensor::<4>::stack::<5>(vec![first, second], axis);
    let turned = joined.reshape([batch, heads, seq, 2 * pairs]);
    if 2 * pairs == d_head {
        return turned;
    }
    Tensor::cat(vec![turned, x.narrow(3, 2 * pairs, d_head - 2 * pairs)], 3)
}

/// Looks up rows of `weight`.
pub fn embedding(weight: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<3> {
    let ([batch, seq], d_model) = (ids.dims(), weight.dims()[1]);
    weight
        .select(0, ids.reshape([batch * seq]))
        .reshape([batch, seq, d_model])
}

/// Returns the sum of squares, read back to the host.
pub fn sum_of_squares<const D: usize>(x: Tensor<D>) -> f64 {
    read(squares(x)).iter::<f32>().map(f64::from).sum()
}

/// Returns the sum of squares, `[1]`.
pub fn squares<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    to_f32(x).square().sum()
}

/// Returns the sum of squared differences, read back to the host.
pub fn squared_distance<const D: usize>(x: Tensor<D>, y: Tensor<D>) -> f64 {
    sum_of_squares(to_f32(x) - to_f32(y))
}

/// Takes one step of AdamW.
pub fn adamw_step<const D: usize>(
    param: Tensor<D>,
    grad: Tensor<D>,
    moment_1: Tensor<D>,
    moment_2: Tensor<D>,
    args: AdamwArgs,
) -> (Tensor<D>, Tensor<D>, Tensor<D>) {
    let factors = args.factors();
    let moment_1 = moment_1 * args.beta_1 + grad.clone() * (1.0 - args.beta_1);
    let moment_2 = moment_2 * args.beta_2 + grad.square() * (1.0 - args.beta_2);
    let scale = moment_2.clone().sqrt() * factors.second_scale + args.eps;
    let param = param * factors.decay - moment_1.clone() / scale * factors.step_size;
    (param, moment_1, moment_2)
}
