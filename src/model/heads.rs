//! Heads that turn hidden states into scores: LM heads, BERT's head for masked tokens, and classes of whole texts.

use super::encoder::{Encoder, EncoderConfig};
use crate::faults::TableFaults;
use crate::kernel;
use crate::nn::feed_forward::Activation;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::norm::{Norm, scale_by};
use crate::nn::role::{BIAS, Declaration, Place, Roles};
use crate::nn::vocabulary::adaptive_head::AdaptiveSoftmax;
use crate::nn::vocabulary::{TokenHead, TokenVectors};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

/// The LM head: the output projection onto the vocabulary. It has its own matrix, is tied to the embedding table, or is an
/// adaptive softmax.
#[derive(Clone, Copy, Debug)]
pub struct VocabularyHead<'a> {
    /// The head's own parameters; `None` if it is tied.
    pub own: Option<&'a TokenHead>,
    /// The embedding that the head is tied to otherwise.
    pub embedding: &'a TokenVectors,
    /// Bias added to the logits of a tied head, `[vocab]`.
    pub bias: Option<&'a Param<Tensor<1>>>,
    /// Factor on the hidden states before the projection.
    pub factor: f64,
    /// The bound c that turns logits into c·tanh(logit/c). The loss then also computes all logits at once.
    pub softcap: Option<f64>,
}

impl VocabularyHead<'_> {
    /// Computes logits `[batch, seq, vocab]` from hidden states; an adaptive softmax gives log-probabilities.
    pub fn logits(&self, hidden: Tensor<3>) -> Tensor<3> {
        let hidden = self.scale_hidden(hidden);
        let scores = match self.output_projection() {
            // The head's weight may be stored in a format for decoding.
            OutputProjection::Own(head) => head.forward(hidden),
            OutputProjection::Tied(head) => kernel::linear(hidden, head.weight, head.bias),
            OutputProjection::Adaptive(softmax) => return softmax.log_probabilities(hidden),
        };
        match self.softcap {
            Some(cap) => (scores / cap).tanh() * cap,
            None => scores,
        }
    }

    /// Computes the loss of hidden states `[batch, seq, d_model]` against `[batch·seq]` targets. The result's `right` is only
    /// valid if `tells_hits`, and may be all zero otherwise. An adaptive softmax supports no label smoothing.
    pub fn loss(
        &self,
        hidden: Tensor<3>,
        targets: Tensor<1, Int>,
        label_smoothing: f64,
        tells_hits: bool,
    ) -> kernel::HeadLoss {
        let [batch, seq, d] = hidden.dims();
        if self.softcap.is_some() {
            let scores = self.logits(hidden).flatten(0, 1);
            return kernel::logits_loss(scores, targets, label_smoothing);
        }
        let hidden = self.scale_hidden(hidden).reshape([batch * seq, d]);
        let head = match self.output_projection() {
            OutputProjection::Own(head) => head.head(),
            OutputProjection::Tied(head) => head,
            OutputProjection::Adaptive(softmax) => {
                assert!(
                    label_smoothing == 0.0,
                    "an adaptive softmax smooths no labels"
                );
                return softmax.loss(hidden, targets, tells_hits);
            }
        };
        kernel::head_loss(hidden, head, targets, label_smoothing)
    }

    fn output_projection(&self) -> OutputProjection<'_> {
        match (self.own, self.embedding) {
            (Some(TokenHead::Full(head)), _) => OutputProjection::Own(head),
            (None, TokenVectors::Full(table)) => OutputProjection::Tied(kernel::Head {
                bias: self.bias.map(Param::val),
                ..table.head()
            }),
            (Some(TokenHead::Adaptive(head)), TokenVectors::Adaptive(embedding)) => {
                OutputProjection::Adaptive(AdaptiveSoftmax { head, embedding })
            }
            (Some(TokenHead::Adaptive(_)), TokenVectors::Full(_))
            | (None, TokenVectors::Adaptive(_)) => {
                unreachable!("one config makes the vectors and the head")
            }
        }
    }

    fn scale_hidden(&self, hidden: Tensor<3>) -> Tensor<3> {
        match self.factor {
            1.0 => hidden,
            factor => hidden * factor,
        }
    }
}

/// The three ways of computing logits.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, for one call"
)]
enum OutputProjection<'a> {
    Own(&'a Linear),
    Tied(kernel::Head),
    Adaptive(AdaptiveSoftmax<'a>),
}

/// Places of the parameters of [`MlmHead`].
pub const ROLES: Roles = Roles::new(
    "MlmHead",
    &[
        ("transform", Declaration::Place(Place::Head)),
        ("norm", Declaration::Place(Place::Head)),
        ("product", Declaration::Place(Place::TokenHead)),
        ("bias", Declaration::Place(Place::TokenHead)),
        ("bias", BIAS),
    ],
);

/// Head for masked tokens: dense layer, activation, norm, output projection (Devlin et al. 2018, released code). The dense layer's
/// output is as wide as the embeddings.
#[derive(Module, Debug)]
pub struct MlmHead {
    /// The dense layer before the projection.
    pub transform: Option<Linear>,
    /// The norm after the activation.
    pub norm: Option<Norm>,
    /// The output projection, if it is not tied to the embedding table.
    pub product: Option<Linear>,
    /// Bias added to the logits of a tied head, `[vocab]`.
    pub bias: Option<Param<Tensor<1>>>,
    factor: f64,
    #[module(skip)]
    activation: Activation,
}

impl MlmHead {
    /// Multiplications of a forward pass for each position whose logits are computed.
    pub fn products(config: &EncoderConfig, vocab: usize) -> u128 {
        let (d, read) = (config.stack.d_output() as u128, Self::width(config) as u128);
        let transform = if config.head_transform { d * read } else { 0 };
        transform + read * vocab as u128
    }

    /// Width of the vectors that the projection reads: the embeddings' if there is a transform.
    fn width(config: &EncoderConfig) -> usize {
        match config.head_transform {
            true => config.d_embedding(),
            false => config.stack.d_output(),
        }
    }

    /// Reports a head that is tied to the embedding table but reads hidden states of another width.
    pub(super) fn width_faults(config: &EncoderConfig, at: &mut TableFaults) {
        let (read, own) = (config.stack.d_output(), config.stack.d_model);
        if read != own {
            let rule = format!(
                "join = \"concatenation\" produces hidden states of {read} elements, but the head is the embedding table, whose \
                 vectors have {}: set head_transform = true or tie_embeddings = false, or join = \"mean\"",
                config.d_embedding()
            );
            at.fault(
                &["model.reversible.join", "head_transform", "tie_embeddings"],
                rule,
            );
        }
    }

    /// Builds a head over `vocab` tokens for an encoder of this config.
    pub fn new(config: &EncoderConfig, vocab: usize, init: &Init) -> Self {
        let (d, read) = (config.stack.d_output(), Self::width(config));
        let (tied, bias) = (config.tie_embeddings, config.head_bias);
        let transform = config.head_transform;
        let biased = config.head_transform_bias;
        Self {
            transform: transform.then(|| Linear::new(d, read, biased, MatrixRole::Inner, init)),
            norm: transform.then(|| config.stack.norm.init(read, init)),
            product: (!tied).then(|| Linear::new(read, vocab, bias, MatrixRole::Head, init)),
            bias: (tied && bias).then(|| init.vector(vocab, 0.0)),
            factor: config.stack.head_factor(tied),
            activation: config.head_activation,
        }
    }

    /// Computes logits `[n, vocab]` from the hidden states of some positions, `[1, n, d_model]`.
    pub fn forward(&self, hidden: Tensor<3>, encoder: &Encoder) -> Tensor<2> {
        let (x, head) = (self.transform(hidden), self.head(encoder));
        let scores = kernel::linear(x, head.weight, head.bias);
        let [_, n, vocab] = scores.dims();
        scores.reshape([n, vocab])
    }

    /// Computes the loss of the hidden states of some positions, `[1, n, d_model]`, against their targets `[n]`.
    pub fn loss(
        &self,
        hidden: Tensor<3>,
        encoder: &Encoder,
        targets: Tensor<1, Int>,
    ) -> kernel::HeadLoss {
        let x = self.transform(hidden);
        let [_, n, d] = x.dims();
        kernel::head_loss(x.reshape([n, d]), self.head(encoder), targets, 0.0)
    }

    fn transform(&self, hidden: Tensor<3>) -> Tensor<3> {
        let x = match &self.transform {
            Some(transform) => kernel::activate(transform.forward(hidden), self.activation.into()),
            None => hidden,
        };
        let x = match &self.norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        scale_by(x, self.factor)
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

/// Computes class scores `[rows, classes]` from one vector per text, `[rows, d]`.
pub fn class_scores(head: &Linear, x: Tensor<2>) -> Tensor<2> {
    let [rows, d] = x.dims();
    let scores = head.forward(x.reshape([1, rows, d]));
    let classes = scores.dims()[2];
    scores.reshape([rows, classes])
}
