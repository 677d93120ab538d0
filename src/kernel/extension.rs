//! The Burn backend extension: the operations, forward and backward, of a backend that has its own kernels.
//!
//! The public functions of [`super`] call it through `Dispatch` if `has_kernels` holds. Operations whose name ends in
//! `_backward` are called by the derivatives in [`super::derivative`] on the inner backend and never run under
//! autodiff themselves. Shapes are those of the public functions.

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
    /// A tensor.
    Some(FloatTensor<B>),
    /// No tensor.
    None,
}

impl<B: Backend> Maybe<B> {
    /// Converts to the standard library's `Option`.
    pub fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Maybe::Some(x) => Some(x),
            Maybe::None => None,
        }
    }
}

/// Converts an optional tensor to the form that kernels take.
pub(super) fn maybe<const D: usize>(x: Option<Tensor<D>>) -> Maybe<Dispatch> {
    match x {
        Some(x) => Maybe::Some(x.into_dispatch()),
        None => Maybe::None,
    }
}

/// Settings of a normalisation.
#[derive(Clone, Copy, Debug)]
pub struct NormSettings {
    /// Added to the variance (or mean square) under the root.
    pub eps: f64,
    /// Whether the mean is subtracted: layer normalisation if true, RMS normalisation if false.
    pub centred: bool,
}

/// Settings of attention other than tensors.
#[derive(Clone, Debug)]
pub struct AttentionSettings {
    /// Which keys a query sees.
    pub visible: Visibility,
    /// Position of the first query; keys start at 0.
    pub offset: usize,
    /// Factor of the scores, usually `1/√d_head`.
    pub scale: f64,
    /// Soft cap: scores become `cap·tanh(score/cap)`.
    pub softcap: Option<f64>,
    /// Dropout of the attention weights.
    pub dropout: Option<DropKey>,
}

/// The backward half of the fused operations, which only derivatives call and which is never dispatched.
pub trait BackwardOps: Backend {
    /// `grad·weight`, the gradient of a linear map's input: `[.., d_out]` and `[d_out, d_in]` to `[.., d_in]`.
    fn input_gradient(grad: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;
    /// `gradᵀ·x` over all positions: `[.., d_in]` and `[.., d_out]` to `[d_out, d_in]`.
    fn weight_gradient(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Sums a gradient over all but the last dimension.
    fn bias_gradient(grad: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Returns those gradients of a linear map's input, weight and bias that are wanted; `x` may be rounded to
    /// bfloat16.
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
    /// Runs [`KernelOps::activated_affine`] and also returns the values its backward pass needs.
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
    /// Returns the wanted gradients of input, weight and bias of [`KernelOps::activated_affine`].
    fn activated_affine_backward(
        saved: ActivatedSaved<Self>,
        grad: FloatTensor<Self>,
        activation: Activation,
        wanted: [bool; 3],
    ) -> [Option<FloatTensor<Self>>; 3] {
        let grad = Self::activation_backward(saved.inner, grad, activation);
        Self::affine_backward([saved.x, saved.weight], grad, wanted)
    }
    /// Returns the gradient of `x`.
    fn activation_backward(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;
    /// Returns the gradients of `gate` and `up`.
    fn gated_backward(
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        activation: Activation,
    ) -> [FloatTensor<Self>; 2];
    /// Runs [`KernelOps::norm_of_sum`] and returns the sum, then the normalised result.
    fn norm_of_sum_saving(
        terms: [FloatTensor<Self>; 2],
        gamma: Maybe<Self>,
        beta: Maybe<Self>,
        factor: f64,
        settings: NormSettings,
    ) -> [FloatTensor<Self>; 2];
    /// Returns the gradients of `x`, `gamma` and `beta`.
    fn norm_backward(
        x: FloatTensor<Self>,
        gamma: Maybe<Self>,
        grad: FloatTensor<Self>,
        settings: NormSettings,
    ) -> [FloatTensor<Self>; 3];
    /// Runs attention and keeps the values its backward pass needs.
    fn attention_saving(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: Maybe<Self>,
        settings: AttentionSettings,
    ) -> AttentionSaved<Self>;
    /// Returns the gradients of attention, including its bias if `bias` is true.
    fn attention_backward(
        saved: AttentionSaved<Self>,
        grad: FloatTensor<Self>,
        settings: AttentionSettings,
        bias: bool,
    ) -> AttentionGradients<Self>;
    /// Returns the loss and its gradient, which reuses the logits' buffer.
    fn cross_entropy_saving(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> [FloatTensor<Self>; 2];
    /// Runs [`KernelOps::head_loss`] and also returns the gradients of the summed loss.
    fn head_loss_saving(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Maybe<Self>,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> HeadLossSaved<Self>;
    /// Multiplies `x` by the first element of `factor`.
    fn scaled(x: FloatTensor<Self>, factor: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Adds the gradient's rows into a table of `rows` rows, at the indices `ids`.
    fn rows_backward(
        ids: IntTensor<Self>,
        grad: FloatTensor<Self>,
        rows: usize,
    ) -> FloatTensor<Self>;
    /// Returns the gradient of a convolution's input, whose shape is `input`.
    fn convolved_input_gradient(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        input: [usize; 4],
        settings: ConvolutionSettings,
    ) -> FloatTensor<Self>;
    /// Returns the gradient of a convolution's weight, whose shape is `weight`.
    fn convolved_weight_gradient(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        weight: [usize; 4],
        settings: ConvolutionSettings,
    ) -> FloatTensor<Self>;
}

/// The fused operations, forward.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait KernelOps: Backend {
    /// `x·weightᵀ + bias`; `rounded` is `x` in bfloat16 if products round their operands there.
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

    /// `x + y`, both of the same shape.
    fn residual_add(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `x` plus the elementwise [`Self::dropped`] of `y`, both of the same shape.
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

    /// Softmax attention. A bias of two dimensions is indexed by head and distance.
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
        settings: AttentionSettings,
    ) -> FloatTensor<Self>;

    /// Dropout of elements, or of whole rows if `rows` is true.
    fn dropped(x: FloatTensor<Self>, key: DropKey, rows: bool) -> FloatTensor<Self>;

    /// Summed cross-entropy, `[1]`.
    fn cross_entropy_total(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> FloatTensor<Self>;

    /// Rotates pairs of dimensions by the given angles, or by their negatives if `opposite` is true.
    fn rotate(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        interleaved: bool,
        opposite: bool,
    ) -> FloatTensor<Self>;

    /// Looks up the rows `ids` of a table.
    fn rows(weight: FloatTensor<Self>, ids: IntTensor<Self>) -> FloatTensor<Self>;

    /// Summed cross-entropy of the logits `hidden·weightᵀ + bias`, followed by a flag for every position: 1 if the
    /// target has the highest logit. Shape `[1 + positions]`.
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
