//! What turns hidden states into scores: BERT's head for masked tokens, and classes of whole texts.

use super::encoder::{Encoder, EncoderConfig};
use crate::kernel;
use crate::nn::embed::Embedding;
use crate::nn::feed_forward::Activation;
use crate::nn::init::{Init, Role};
use crate::nn::linear::Linear;
use crate::nn::norm::Norm;
use crate::nn::role::{BIAS, Place, Roles, Says};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

/// The product onto the vocabulary of a model that writes texts: a matrix of its own, or the table of its embedding.
#[derive(Clone, Copy, Debug)]
pub struct VocabularyHead<'a> {
    /// The matrix of its own.
    pub own: Option<&'a Linear>,
    /// The table it is tied to otherwise.
    pub embedding: &'a Embedding,
    /// Added to the scores of a tied product, `[vocab]`.
    pub bias: Option<&'a Param<Tensor<1>>>,
    /// Multiplies hidden states before the product.
    pub factor: f64,
}

impl VocabularyHead<'_> {
    /// Scores of the vocabulary `[batch, seq, vocab]` from hidden states.
    pub fn logits(&self, hidden: Tensor<3>) -> Tensor<3> {
        let hidden = self.scaled(hidden);
        match self.own {
            Some(head) => head.forward(hidden),
            None => {
                let head = self.tied();
                kernel::linear(hidden, head.weight, head.bias)
            }
        }
    }

    /// The loss of the scores of hidden states `[batch, seq, d_model]` against `[batch·seq]` targets.
    pub fn loss(
        &self,
        hidden: Tensor<3>,
        targets: Tensor<1, Int>,
        label_smoothing: f64,
    ) -> kernel::HeadLoss {
        let [batch, seq, d] = hidden.dims();
        let hidden = self.scaled(hidden).reshape([batch * seq, d]);
        let head = match self.own {
            Some(head) => head.head(),
            None => self.tied(),
        };
        kernel::head_loss(hidden, head, targets, label_smoothing)
    }

    /// The table as a head.
    fn tied(&self) -> kernel::Head {
        kernel::Head {
            bias: self.bias.map(Param::val),
            ..self.embedding.head()
        }
    }

    fn scaled(&self, hidden: Tensor<3>) -> Tensor<3> {
        match self.factor {
            1.0 => hidden,
            factor => hidden * factor,
        }
    }
}

/// What the parameters of [`MlmHead`] are.
pub const ROLES: Roles = Roles::new(
    "MlmHead",
    &[
        ("transform", Says::Stands(Place::Head)),
        ("norm", Says::Stands(Place::Head)),
        ("product", Says::Stands(Place::TokenHead)),
        ("bias", Says::Stands(Place::TokenHead)),
        ("bias", BIAS),
    ],
);

/// Scores of the vocabulary for single positions: dense, nonlinearity, norm, product (Devlin et al. 2018, released code).
/// The dense layer makes vectors as wide as the embeddings are.
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
    #[module(skip)]
    activation: Activation,
}

impl MlmHead {
    /// Multiplications of a forward pass for each scored position.
    pub fn products(config: &EncoderConfig, vocab: usize) -> u128 {
        let (d, read) = (config.stack.d_model as u128, Self::width(config) as u128);
        let transform = if config.head_transform { d * read } else { 0 };
        transform + read * vocab as u128
    }

    /// Width of the vectors that the product reads: the embeddings' when there is a transform.
    fn width(config: &EncoderConfig) -> usize {
        match config.head_transform {
            true => config.d_embedding(),
            false => config.stack.d_model,
        }
    }

    /// A head over `vocab` tokens for an encoder of this config.
    pub fn new(config: &EncoderConfig, vocab: usize, init: &Init) -> Self {
        let (d, read) = (config.stack.d_model, Self::width(config));
        let (tied, bias) = (config.tie_embeddings, config.head_bias);
        let transform = config.head_transform;
        Self {
            transform: transform.then(|| Linear::new(d, read, true, Role::Inner, init)),
            norm: transform.then(|| config.stack.norm.init(read, init)),
            product: (!tied).then(|| Linear::new(read, vocab, bias, Role::Head, init)),
            bias: (tied && bias).then(|| init.vector(vocab, 0.0)),
            activation: config.head_activation,
        }
    }

    /// Hidden states `[1, n, d_model]` of some positions → scores `[n, vocab]`.
    pub fn forward(&self, hidden: Tensor<3>, encoder: &Encoder) -> Tensor<2> {
        let (x, head) = (self.transformed(hidden), self.head(encoder));
        let scores = kernel::linear(x, head.weight, head.bias);
        let [_, n, vocab] = scores.dims();
        scores.reshape([n, vocab])
    }

    /// The loss of the scores of positions `[1, n, d_model]` against their targets `[n]`.
    pub fn loss(
        &self,
        hidden: Tensor<3>,
        encoder: &Encoder,
        targets: Tensor<1, Int>,
    ) -> kernel::HeadLoss {
        let x = self.transformed(hidden);
        let [_, n, d] = x.dims();
        kernel::head_loss(x.reshape([n, d]), self.head(encoder), targets, 0.0)
    }

    fn transformed(&self, hidden: Tensor<3>) -> Tensor<3> {
        let x = match &self.transform {
            Some(transform) => kernel::activate(transform.forward(hidden), self.activation.into()),
            None => hidden,
        };
        match &self.norm {
            Some(norm) => norm.forward(x),
            None => x,
        }
    }

    fn head(&self, encoder: &Encoder) -> kernel::Head {
        match &self.product {
            Some(product) => product.head(),
            None => kernel::Head {
                bias: self.bias.as_ref().map(Param::val),
                ..encoder.embedding.head()
            },
        }
    }
}

/// Scores of classes `[rows, classes]` from one vector a text `[rows, d]`.
pub fn classes(head: &Linear, x: Tensor<2>) -> Tensor<2> {
    let [rows, d] = x.dims();
    let scores = head.forward(x.reshape([1, rows, d]));
    let classes = scores.dims()[2];
    scores.reshape([rows, classes])
}
