//! Results and saved values of passes that consist of several tensors.

use super::Maybe;
use burn::backend::{Backend, tensor::FloatTensor};

/// Values of attention's forward pass that its backward pass needs.
#[derive(Clone, Debug)]
pub struct AttentionSaved<B: Backend> {
    /// Queries.
    pub q: FloatTensor<B>,
    /// Keys.
    pub k: FloatTensor<B>,
    /// Values.
    pub v: FloatTensor<B>,
    /// Bias added to the scores: by distance if it has two dimensions, one number per score if it has four.
    pub bias: Maybe<B>,
    /// Attention's output.
    pub out: FloatTensor<B>,
    /// Log-sum-exp of each query's scores, `[B, H, Q]`.
    pub lse: FloatTensor<B>,
}

/// Gradients of attention's float arguments.
#[derive(Debug)]
pub struct AttentionGradients<B: Backend> {
    /// Gradient of the queries.
    pub q: FloatTensor<B>,
    /// Gradient of the keys.
    pub k: FloatTensor<B>,
    /// Gradient of the values.
    pub v: FloatTensor<B>,
    /// Gradient of the bias, if it was wanted.
    pub bias: Option<FloatTensor<B>>,
}

/// The loss of an LM head with its gradients.
#[derive(Clone, Debug)]
pub struct HeadLossSaved<B: Backend> {
    /// Sum of the losses, followed by a flag for every position.
    pub out: FloatTensor<B>,
    /// Gradient of the hidden states.
    pub hidden: FloatTensor<B>,
    /// Gradient of the head's weight matrix.
    pub weight: FloatTensor<B>,
    /// Gradient of the head's bias, if it has one.
    pub bias: Option<FloatTensor<B>>,
}

/// Values of an activated linear map's forward pass that its backward pass needs.
#[derive(Clone, Debug)]
pub struct ActivatedSaved<B: Backend> {
    /// The map's input, which may be rounded.
    pub x: FloatTensor<B>,
    /// The map's weight.
    pub weight: FloatTensor<B>,
    /// The map's result before the activation. If `bias` is given here, `inner` does not contain it.
    pub inner: FloatTensor<B>,
    /// The bias that `inner` does not contain yet.
    pub bias: Maybe<B>,
}
