//! The vectors of a vocabulary's tokens: how they are stored, and how scores are made of them.
//!
//! `full` is one table with a vector of d_model elements for every token. `adaptive` gives rare tokens narrower vectors
//! and scores them by cluster.

pub mod adaptive;
pub mod adaptive_embedding;
pub mod adaptive_head;
pub mod full;

use super::Kind;
use super::embed::Embedding;
use super::init::{Init, Role};
use super::linear::Linear;
use super::norm::NormConfig;
use crate::faults::TableFaults;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use adaptive::{AdaptiveConfig, TieProjs};
pub use adaptive_embedding::AdaptiveEmbedding;
pub use adaptive_head::AdaptiveHead;
pub use full::FullVocabularyConfig;

/// The kinds of `[model] vocabulary`.
pub const KINDS: &[Kind] = &[full::KIND, adaptive::KIND];

/// How the tokens of a vocabulary are embedded and scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum VocabularyConfig {
    /// One table.
    Full(FullVocabularyConfig),
    /// Clusters by frequency.
    Adaptive(AdaptiveConfig),
}

impl Default for VocabularyConfig {
    fn default() -> Self {
        Self::Full(FullVocabularyConfig {})
    }
}

/// The sizes of a network's tables of tokens, and the keys of the network that say how they are used.
#[derive(Clone, Copy, Debug)]
pub struct TokenTables<'a> {
    /// Tokens of the vocabulary.
    pub vocab: usize,
    /// Width of the stream.
    pub d_model: usize,
    /// Multiplies the vectors on the way in.
    pub scale: f64,
    /// Norm on the vectors on the way in.
    pub norm: Option<&'a NormConfig>,
    /// Whether scores are made with the table of the way in.
    pub tied: bool,
    /// Whether an untied product of a full vocabulary has a bias.
    pub head_bias: bool,
}

impl VocabularyConfig {
    /// Whether it is one table.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Faults of its keys in a network of this width; `smooths` says that labels are smoothed, `head_bias` that the
    /// network's key of this name is set.
    pub fn faults(&self, d_model: usize, smooths: bool, head_bias: bool, at: &mut TableFaults) {
        match self {
            Self::Full(_) => {}
            Self::Adaptive(c) => {
                at.within("vocabulary", |at| c.faults(d_model, at));
                if smooths {
                    at.fault(
                        &["task.label_smoothing", "model.vocabulary.kind"],
                        "label_smoothing spreads probability over the whole vocabulary, and vocabulary = \"adaptive\" \
                         scores rare tokens where they are the target alone; leave label_smoothing out, or use \
                         vocabulary = \"full\"",
                    );
                }
                if head_bias {
                    at.fault(
                        &["head_bias", "model.vocabulary.kind"],
                        "head_bias = true has no effect with vocabulary = \"adaptive\", whose key `bias` says it; leave \
                         it out",
                    );
                }
            }
        }
    }

    /// The reason why it cannot hold a vocabulary of this size, if there is one.
    pub fn misfit(&self, vocab: usize) -> Option<String> {
        match self {
            Self::Full(_) => None,
            Self::Adaptive(c) => c.misfit(vocab),
        }
    }

    /// The vectors of the way in.
    pub fn embedding(&self, of: &TokenTables, init: &Init) -> TokenVectors {
        match self {
            Self::Full(_) => {
                let table = Embedding::new(of.vocab, of.d_model, of.scale, of.norm, init);
                TokenVectors::Full(table)
            }
            Self::Adaptive(c) => TokenVectors::Adaptive(c.embedding(of, init)),
        }
    }

    /// The parameters of the scores beside those of the way in, when there are any.
    pub fn head(&self, of: &TokenTables, init: &Init) -> Option<TokenHead> {
        match self {
            Self::Full(_) => (!of.tied).then(|| {
                let (d, vocab) = (of.d_model, of.vocab);
                TokenHead::Full(Linear::new(d, vocab, of.head_bias, Role::Head, init))
            }),
            Self::Adaptive(c) => Some(TokenHead::Adaptive(c.head(of, init))),
        }
    }

    /// Multiplications of the scores of one position.
    pub fn scored_products(&self, vocab: usize, d_model: usize) -> f64 {
        match self {
            Self::Full(_) => vocab as f64 * d_model as f64,
            Self::Adaptive(c) => c.products(vocab, d_model)[1],
        }
    }

    /// Multiplications of a forward pass for so many tokens that are read and so many that are scored.
    pub fn products(&self, [vocab, d_model]: [usize; 2], [read, scored]: [usize; 2]) -> u128 {
        match self {
            Self::Full(_) => scored as u128 * vocab as u128 * d_model as u128,
            Self::Adaptive(c) => {
                let [each_read, each_scored] = c.products(vocab, d_model);
                (read as f64 * each_read + scored as f64 * each_scored) as u128
            }
        }
    }
}

/// The vectors of tokens on the way in.
#[derive(Module, Debug)]
pub enum TokenVectors {
    /// One table.
    Full(Embedding),
    /// A table for each cluster.
    Adaptive(AdaptiveEmbedding),
}

impl TokenVectors {
    /// Vectors of `ids` `[batch, seq]` as `[batch, seq, d_model]`.
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        match self {
            Self::Full(table) => table.forward(ids),
            Self::Adaptive(tables) => tables.forward(ids),
        }
    }

    /// Tokens that have a vector.
    pub fn vocab_size(&self) -> usize {
        match self {
            Self::Full(table) => table.weight.val().dims()[0],
            Self::Adaptive(tables) => tables.vocab_size(),
        }
    }

    /// Where they live.
    pub fn device(&self) -> Device {
        match self {
            Self::Full(table) => table.weight.val().device(),
            Self::Adaptive(tables) => tables.device(),
        }
    }
}

/// The parameters of the scores of tokens beside the vectors of the way in.
#[derive(Module, Debug)]
pub enum TokenHead {
    /// A matrix of its own.
    Full(Linear),
    /// Clusters.
    Adaptive(AdaptiveHead),
}
