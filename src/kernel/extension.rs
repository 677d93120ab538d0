//! The Burn backend extension: what a backend with kernels of its own provides, forward and backward.
//!
//! The public functions of this floor call it through `Dispatch` where `has_kernels` holds. Operations whose
//! name ends in `_backward` are called by the derivatives in [`super::derivative`] on the inner backend and
//! never run under autodiff themselves. Shapes are those of the public functions.

use burn::backend::{
    Backend, Dispatch, ExtensionType, backend_extension,
    tensor::{FloatTensor, IntTensor},
};

use burn::tensor::Tensor;

mod saved;

pub use saved::{ActivatedSaved, AttentionGradients, AttentionSaved, HeadLossSaved};

use super::{Activation, ConvolutionSettings, DropKey, Visibility};

/// A float tensor that may be absent.
#[derive(Clone, Debug, ExtensionType)]
pub enum Maybe<B: Backend> {
    /// There is one.
    Some(FloatTensor<B>),
    /// There is none.
    None,
}

impl<B: Backend> Maybe<B> {
    /// As the standard library's option.
    pub fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Maybe::Some(x) => Some(x),
            Maybe::None => None,
        }
    }
}

/// An optional tensor on its way to a kernel.
pub(super) fn maybe<const D: usize>(x: Option<Tensor<D>>) -> Maybe<Dispatch> {
    match x {
        Some(x) => Maybe::Some(x.into_dispatch()),
        None => Maybe::None,
    }
}

/// Normalisation's settings.
#[derive(Clone, Copy, Debug)]
pub struct NormSettings {
    /// Added under the root.
    pub eps: f64,
    /// Subtract the mean: layer normalisation; else root mean square.
    pub centred: bool,
}

/// Attention's settings that are not tensors.
#[derive(Clone, Debug)]
pub struct AttentionSettings {
    /// Which keys a query sees.
    pub visible: Visibility,
    /// Position of the first query.
    pub offset: usize,
    /// Factor of the scores.
    pub scale: f64,
    /// Bound of the scores.
    pub softcap: Option<f64>,
    /// Dropout of weights.
    pub dropout: Option<DropKey>,
}

/// The fused operations that a backend provides to itself: the backward half, which is never dispatched.
pub trait BackwardOps: Backend {
    /// `grad·weight`, the gradient of a linear map's input: `[.., d_out]` and `[d_out, d_in]` to `[.., d_in]`.
    fn input_gradient(grad: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;
    /// `gradᵀ·x` over all positions: `[.., d_in]` and `[.., d_out]` to `[d_out, d_in]`.
    fn weight_gradient(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Sum over all but the last dimension.
    fn bias_gradient(grad: FloatTensor<Self>) -> FloatTensor<Self>;
    /// The wanted gradients of a linear map's input, weight and bias; `x` may be rounded.
    fn affine_backward(
        [x, weight]: [FloatTensor<Self>; 2],
        grad: FloatTensor<Self>,
        [of_x, of_weight, of_bias]: [bool; 3],
    ) -> [Option<FloatTensor<Self>>; 3] {
        let bias = of_bias.then(|| Self::bias_gradient(grad.clone()));
        let d_weight = of_weight.then(|| Self::weight_gradient(x, grad.clone()));
        let d_x = of_x.then(|| Self::input_gradient(grad, weight));
        [d_x, d_weight, bias]
    }
    /// [`KernelOps::activated_affine`] and what its backward pass needs.
    fn activated_affine_saving(
        x: FloatTensor<Self>,
        rounded: Maybe<Self>,
        weight: FloatTensor<Self>,
        bias: Maybe<Self>,
        activation: Activation,
    ) -> (FloatTensor<Self>, ActivatedSaved<Self>)
    where
        Self: KernelOps,
    {
        let inner = Self::affine(x.clone(), rounded, weight.clone(), bias);
        let out = Self::activation(inner.clone(), activation);
        let saved = ActivatedSaved {
            x,
            weight,
            inner,
            bias: Maybe::None,
        };
        (out, saved)
    }
    /// The wanted gradients of input, weight and bias.
    fn activated_affine_backward(
        saved: ActivatedSaved<Self>,
        grad: FloatTensor<Self>,
        activation: Activation,
        wanted: [bool; 3],
    ) -> [Option<FloatTensor<Self>>; 3] {
        let grad = Self::activation_backward(saved.inner, grad, activation);
        Self::affine_backward([saved.x, saved.weight], grad, wanted)
    }
    /// Gradient of x.
    fn activation_backward(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;
    /// Gradients of gate and up.
    fn gated_backward(
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        activation: Activation,
    ) -> [FloatTensor<Self>; 2];
    /// [`KernelOps::norm_of_sum`] with the sum before it.
    fn norm_of_sum_saving(
        terms: [FloatTensor<Self>; 2],
        gamma: Maybe<Self>,
        beta: Maybe<Self>,
        factor: f64,
        settings: NormSettings,
    ) -> [FloatTensor<Self>; 2];
    /// Gradients of x, gamma and beta.
    fn norm_backward(
        x: FloatTensor<Self>,
        gamma: Maybe<Self>,
        grad: FloatTensor<Self>,
        settings: NormSettings,
    ) -> [FloatTensor<Self>; 3];
    /// Attention that also gives what its backward pass needs.
    fn attention_saving(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: Maybe<Self>,
        settings: AttentionSettings,
    ) -> AttentionSaved<Self>;
    /// Gradients of attention, of its bias when that is wanted.
    fn attention_backward(
        saved: AttentionSaved<Self>,
        grad: FloatTensor<Self>,
        settings: AttentionSettings,
        bias: bool,
    ) -> AttentionGradients<Self>;
    /// The loss, and its gradient over the logits' buffer.
    fn cross_entropy_saving(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> [FloatTensor<Self>; 2];
    /// [`KernelOps::head_loss`] with the gradients of its sum.
    fn head_loss_saving(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Maybe<Self>,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> HeadLossSaved<Self>;
    /// `x·factor` with the first element of `factor`.
    fn scaled(x: FloatTensor<Self>, factor: FloatTensor<Self>) -> FloatTensor<Self>;
    /// The gradient's rows added into a table of `rows` rows.
    fn rows_backward(
        ids: IntTensor<Self>,
        grad: FloatTensor<Self>,
        rows: usize,
    ) -> FloatTensor<Self>;
    /// The gradient of a convolution's images, whose shape is `input`.
    fn convolved_input_gradient(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        input: [usize; 4],
        settings: ConvolutionSettings,
    ) -> FloatTensor<Self>;
    /// The gradient of its weights, whose shape is `weight`.
    fn convolved_weight_gradient(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        weight: [usize; 4],
        settings: ConvolutionSettings,
    ) -> FloatTensor<Self>;
}

/// The fused operations.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait KernelOps: Backend {
    /// `x·weightᵀ + bias`; `rounded` is x in bfloat16 where the products here round it.
    fn affine(
        x: FloatTensor<Self>,
        #[extension_type] rounded: Maybe<Self>,
        weight: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
    ) -> FloatTensor<Self>;

    /// `activation(x·weightᵀ + bias)`; `rounded` as in [`Self::affine`].
    fn activated_affine(
        x: FloatTensor<Self>,
        #[extension_type] rounded: Maybe<Self>,
        weight: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// `x + y`, of one shape.
    fn residual_add(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `x` plus [`Self::dropped`] of `y`, single elements, of one shape.
    fn dropped_onto(x: FloatTensor<Self>, y: FloatTensor<Self>, key: DropKey) -> FloatTensor<Self>;

    /// Layer or root mean square normalisation.
    fn norm(
        x: FloatTensor<Self>,
        #[extension_type] gamma: Maybe<Self>,
        #[extension_type] beta: Maybe<Self>,
        settings: NormSettings,
    ) -> FloatTensor<Self>;

    /// Normalisation of `factor·x + y`.
    fn norm_of_sum(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        #[extension_type] gamma: Maybe<Self>,
        #[extension_type] beta: Maybe<Self>,
        factor: f64,
        settings: NormSettings,
    ) -> FloatTensor<Self>;

    /// `activation(x)`.
    fn activation(x: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self>;

    /// `activation(gate)·up`.
    fn gated(
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// Softmax attention; a bias of two dimensions is one by distance.
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
        settings: AttentionSettings,
    ) -> FloatTensor<Self>;

    /// Dropout of elements, or of whole rows.
    fn dropped(x: FloatTensor<Self>, key: DropKey, rows: bool) -> FloatTensor<Self>;

    /// Summed cross-entropy, `[1]`.
    fn cross_entropy_total(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> FloatTensor<Self>;

    /// Rotation by the angles, or by their opposites.
    fn rotate(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        interleaved: bool,
        opposite: bool,
    ) -> FloatTensor<Self>;

    /// Rows of a table.
    fn rows(weight: FloatTensor<Self>, ids: IntTensor<Self>) -> FloatTensor<Self>;

    /// Summed cross-entropy of the scores `hidden·weightᵀ + bias`, then a flag for every position whose target has
    /// the highest score: `[1 + positions]`.
    fn head_loss(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> FloatTensor<Self>;

    /// 2-D convolution.
    fn convolved(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        settings: ConvolutionSettings,
    ) -> FloatTensor<Self>;
}
