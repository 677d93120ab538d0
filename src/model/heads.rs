//! What turns hidden states into scores: BERT's head for masked tokens, and classes of whole texts.

use super::encoder::{Encoder, EncoderConfig};
use crate::kernel::{self, Activation};
use crate::nn::init::{Init, Role};
use crate::nn::linear::Linear;
use crate::nn::norm::Norm;
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// Scores of the vocabulary for single positions: dense, GELU, norm, product (Devlin et al. 2018, released code).
#[derive(Module, Debug)]
pub struct MlmHead {
    /// Before the product.
    pub transform: Option<Linear>,
    /// After the transform.
    pub norm: Option<Norm>,
    /// The product, when it has a matrix of its own.
    pub product: Option<Linear>,
    /// Added to the scores of a tied product, `[vocab]`.
    pub bias: Option<Param<Tensor<1>>>,
}

impl MlmHead {
    /// A head over `vocab` tokens for an encoder of this config.
    pub fn new(config: &EncoderConfig, vocab: usize, init: &Init) -> Self {
        let d = config.d_model;
        let (tied, bias) = (config.tie_embeddings, config.head_bias);
        let transform = config.head_transform;
        Self {
            transform: transform.then(|| Linear::new(d, d, true, Role::Inner, init)),
            norm: transform.then(|| config.norm.init(d, init)),
            product: (!tied).then(|| Linear::new(d, vocab, bias, Role::Head, init)),
            bias: (tied && bias).then(|| init.vector(vocab, 0.0)),
        }
    }

    /// Hidden states `[1, n, d_model]` of some positions → scores `[n, vocab]`.
    pub fn forward(&self, hidden: Tensor<3>, encoder: &Encoder) -> Tensor<2> {
        let x = match &self.transform {
            Some(transform) => kernel::activate(transform.forward(hidden), Activation::Gelu),
            None => hidden,
        };
        let x = match &self.norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        let scores = match (&self.product, &self.bias) {
            (Some(product), _) => product.forward(x),
            (None, Some(bias)) => encoder.embedding.logits(x) + bias.val().reshape([1, 1, -1]),
            (None, None) => encoder.embedding.logits(x),
        };
        let [_, n, vocab] = scores.dims();
        scores.reshape([n, vocab])
    }
}

/// Scores of classes `[rows, classes]` from one vector a text `[rows, d]`.
pub fn classes(head: &Linear, x: Tensor<2>) -> Tensor<2> {
    let [rows, d] = x.dims();
    let scores = head.forward(x.reshape([1, rows, d]));
    let classes = scores.dims()[2];
    scores.reshape([rows, classes])
}
