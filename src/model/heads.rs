//! What turns hidden states into scores: BERT's head for masked tokens, and classes of whole texts.

use super::encoder::{Encoder, EncoderConfig};
use crate::faults::TableFaults;
use crate::kernel;
use crate::nn::feed_forward::Activation;
use crate::nn::init::{Init, Role};
use crate::nn::linear::Linear;
use crate::nn::norm::{Norm, scaled};
use crate::nn::role::{BIAS, Place, Roles, Says};
use crate::nn::vocabulary::adaptive_head::AdaptiveSoftmax;
use crate::nn::vocabulary::{TokenHead, TokenVectors};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

/// The product onto the vocabulary of a model that writes texts: a matrix of its own, the table of its embedding, or an
/// adaptive softmax.
#[derive(Clone, Copy, Debug)]
pub struct VocabularyHead<'a> {
    /// Parameters of its own.
    pub own: Option<&'a TokenHead>,
    /// The vectors that it is tied to otherwise.
    pub embedding: &'a TokenVectors,
    /// Added to the scores of a tied product, `[vocab]`.
    pub bias: Option<&'a Param<Tensor<1>>>,
    /// Multiplies hidden states before the product.
    pub factor: f64,
    /// The bound c of scores that become c·tanh(score/c). They are all made at once then, for the loss, too.
    pub softcap: Option<f64>,
}

impl VocabularyHead<'_> {
    /// Scores of the vocabulary `[batch, seq, vocab]` from hidden states; of an adaptive softmax its log-probabilities.
    pub fn logits(&self, hidden: Tensor<3>) -> Tensor<3> {
        let hidden = self.scaled(hidden);
        let scores = match self.scores() {
            // Its weight may be stored for decoding.
            Scores::Own(head) => head.forward(hidden),
            Scores::Tied(head) => kernel::linear(hidden, head.weight, head.bias),
            Scores::Adaptive(softmax) => return softmax.log_probabilities(hidden),
        };
        match self.softcap {
            Some(cap) => (scores / cap).tanh() * cap,
            None => scores,
        }
    }

    /// The loss of the scores of hidden states `[batch, seq, d_model]` against `[batch·seq]` targets. `right` is read by
    /// the caller when `tells_hits` says so, and may be zero everywhere otherwise. An adaptive softmax smooths no labels.
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
            return kernel::scores_loss(scores, targets, label_smoothing);
        }
        let hidden = self.scaled(hidden).reshape([batch * seq, d]);
        let head = match self.scores() {
            Scores::Own(head) => head.head(),
            Scores::Tied(head) => head,
            Scores::Adaptive(softmax) => {
                assert!(
                    label_smoothing == 0.0,
                    "an adaptive softmax smooths no labels"
                );
                return softmax.loss(hidden, targets, tells_hits);
            }
        };
        kernel::head_loss(hidden, head, targets, label_smoothing)
    }

    fn scores(&self) -> Scores<'_> {
        match (self.own, self.embedding) {
            (Some(TokenHead::Full(head)), _) => Scores::Own(head),
            (None, TokenVectors::Full(table)) => Scores::Tied(kernel::Head {
                bias: self.bias.map(Param::val),
                ..table.head()
            }),
            (Some(TokenHead::Adaptive(head)), TokenVectors::Adaptive(embedding)) => {
                Scores::Adaptive(AdaptiveSoftmax { head, embedding })
            }
            (Some(TokenHead::Adaptive(_)), TokenVectors::Full(_))
            | (None, TokenVectors::Adaptive(_)) => {
                unreachable!("one config makes the vectors and the head")
            }
        }
    }

    fn scaled(&self, hidden: Tensor<3>) -> Tensor<3> {
        match self.factor {
            1.0 => hidden,
            factor => hidden * factor,
        }
    }
}

/// How scores are made.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, for one call"
)]
enum Scores<'a> {
    Own(&'a Linear),
    Tied(kernel::Head),
    Adaptive(AdaptiveSoftmax<'a>),
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
    factor: f64,
    #[module(skip)]
    activation: Activation,
}

impl MlmHead {
    /// Multiplications of a forward pass for each scored position.
    pub fn products(config: &EncoderConfig, vocab: usize) -> u128 {
        let (d, read) = (config.stack.d_output() as u128, Self::width(config) as u128);
        let transform = if config.head_transform { d * read } else { 0 };
        transform + read * vocab as u128
    }

    /// Width of the vectors that the product reads: the embeddings' when there is a transform.
    fn width(config: &EncoderConfig) -> usize {
        match config.head_transform {
            true => config.d_embedding(),
            false => config.stack.d_output(),
        }
    }

    /// Faults of a head that is the embeddings' table and reads hidden states as they are.
    pub(super) fn width_faults(config: &EncoderConfig, at: &mut TableFaults) {
        let (read, own) = (config.stack.d_output(), config.stack.d_model);
        if read != own {
            let rule = format!(
                "join = \"concatenation\" makes states of {read} elements, and the head is the embeddings' table, whose \
                 vectors have {}: set head_transform = true or tie_embeddings = false, or join = \"mean\"",
                config.d_embedding()
            );
            at.fault(
                &["model.reversible.join", "head_transform", "tie_embeddings"],
                rule,
            );
        }
    }

    /// A head over `vocab` tokens for an encoder of this config.
    pub fn new(config: &EncoderConfig, vocab: usize, init: &Init) -> Self {
        let (d, read) = (config.stack.d_output(), Self::width(config));
        let (tied, bias) = (config.tie_embeddings, config.head_bias);
        let transform = config.head_transform;
        let biased = config.head_transform_bias;
        Self {
            transform: transform.then(|| Linear::new(d, read, biased, Role::Inner, init)),
            norm: transform.then(|| config.stack.norm.init(read, init)),
            product: (!tied).then(|| Linear::new(read, vocab, bias, Role::Head, init)),
            bias: (tied && bias).then(|| init.vector(vocab, 0.0)),
            factor: config.stack.head_factor(tied),
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
        let x = match &self.norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        scaled(x, self.factor)
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
