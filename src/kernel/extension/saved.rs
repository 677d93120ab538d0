//! What passes keep and give that are more than one tensor.

use super::Maybe;
use burn::backend::{Backend, tensor::FloatTensor};

/// The values that attention's backward pass needs of its forward pass.
#[derive(Clone, Debug)]
pub struct AttentionSaved<B: Backend> {
    /// Queries.
    pub q: FloatTensor<B>,
    /// Keys.
    pub k: FloatTensor<B>,
    /// Values.
    pub v: FloatTensor<B>,
    /// Added to the scores: by distance when it has two dimensions, to each score when it has four.
    pub bias: Maybe<B>,
    /// The result.
    pub out: FloatTensor<B>,
    /// Log of the sum of the exponentials of each query's scores, `[B, H, Q]`.
    pub lse: FloatTensor<B>,
}

/// The gradients of attention's float arguments.
#[derive(Debug)]
pub struct AttentionGradients<B: Backend> {
    /// Of the queries.
    pub q: FloatTensor<B>,
    /// Of the keys.
    pub k: FloatTensor<B>,
    /// Of the values.
    pub v: FloatTensor<B>,
    /// Of the bias, when it is wanted.
    pub bias: Option<FloatTensor<B>>,
}

/// The loss of a head with its gradients.
#[derive(Clone, Debug)]
pub struct HeadLossSaved<B: Backend> {
    /// The sum of the losses, then a flag for every position.
    pub out: FloatTensor<B>,
    /// Gradient of the hidden states.
    pub hidden: FloatTensor<B>,
    /// Gradient of the head's matrix.
    pub weight: FloatTensor<B>,
    /// Gradient of its bias, when there is one.
    pub bias: Option<FloatTensor<B>>,
}

/// The values that the backward pass of a linear map's activation needs of its forward pass.
#[derive(Clone, Debug)]
pub struct ActivatedSaved<B: Backend> {
    /// The map's input, which may be rounded.
    pub x: FloatTensor<B>,
    /// Its weight.
    pub weight: FloatTensor<B>,
    /// Its result, without the bias where there is one here.
    pub inner: FloatTensor<B>,
    /// The bias that is missing there.
    pub bias: Maybe<B>,
}
