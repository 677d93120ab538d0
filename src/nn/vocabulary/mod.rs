//! The vectors of a vocabulary's tokens: how they are stored, and how logits are computed from them.
//!
//! `full` is a single table with a vector of d_model elements for every token. `adaptive` gives rare tokens narrower vectors and
//! scores them by cluster.

pub mod adaptive;
pub mod adaptive_embedding;
pub mod adaptive_head;
pub mod full;

use super::Kind;
use super::embed::Embedding;
use super::init::{Init, MatrixRole};
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

/// The embedding and scoring of a vocabulary's tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum VocabularyConfig {
    /// A single table.
    Full(FullVocabularyConfig),
    /// Clusters by frequency, with narrower vectors for rare tokens.
    Adaptive(AdaptiveConfig),
}

impl Default for VocabularyConfig {
    fn default() -> Self {
        Self::Full(FullVocabularyConfig {})
    }
}

/// The sizes of a network's token tables, and the network's settings for their use.
#[derive(Clone, Copy, Debug)]
pub struct TokenTables<'a> {
    /// Number of tokens in the vocabulary.
    pub vocab: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Factor on the input embeddings.
    pub scale: f64,
    /// Norm on the input embeddings.
    pub norm: Option<&'a NormConfig>,
    /// Whether the LM head uses the input embedding table.
    pub tied: bool,
    /// Whether the untied LM head of a full vocabulary has a bias.
    pub head_bias: bool,
}

impl VocabularyConfig {
    /// Whether the vocabulary is a single table.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Reports invalid settings in a network of this width; `smooths` says that label smoothing is on, `head_bias` that the
    /// network's setting of this name is set.
    pub fn faults(&self, d_model: usize, smooths: bool, head_bias: bool, at: &mut TableFaults) {
        match self {
            Self::Full(_) => {}
            Self::Adaptive(c) => {
                at.nested("vocabulary", |at| c.faults(d_model, at));
                if smooths {
                    at.fault(
                        &["task.label_smoothing", "model.vocabulary.kind"],
                        "label_smoothing spreads probability over the whole vocabulary, but vocabulary = \"adaptive\" scores rare \
                         tokens only where they are the target; remove label_smoothing, or use vocabulary = \"full\"",
                    );
                }
                if head_bias {
                    at.fault(
                        &["head_bias", "model.vocabulary.kind"],
                        "head_bias = true has no effect with vocabulary = \"adaptive\", which has its own key `bias`; remove it",
                    );
                }
            }
        }
    }

    /// Returns why the settings cannot hold a vocabulary of this size, if they cannot.
    pub fn size_fault(&self, vocab: usize) -> Option<String> {
        match self {
            Self::Full(_) => None,
            Self::Adaptive(c) => c.size_fault(vocab),
        }
    }

    /// Builds the input embeddings.
    pub fn embedding(&self, of: &TokenTables, init: &Init) -> TokenVectors {
        match self {
            Self::Full(_) => {
                let table = Embedding::new(of.vocab, of.d_model, of.scale, of.norm, init);
                TokenVectors::Full(table)
            }
            Self::Adaptive(c) => TokenVectors::Adaptive(c.embedding(of, init)),
        }
    }

    /// Builds the parameters of the scores other than the input embeddings, if there are any.
    pub fn head(&self, of: &TokenTables, init: &Init) -> Option<TokenHead> {
        match self {
            Self::Full(_) => (!of.tied).then(|| {
                let (d, vocab) = (of.d_model, of.vocab);
                TokenHead::Full(Linear::new(d, vocab, of.head_bias, MatrixRole::Head, init))
            }),
            Self::Adaptive(c) => Some(TokenHead::Adaptive(c.head(of, init))),
        }
    }

    /// Returns the multiplications for the scores of one position.
    pub fn scored_products(&self, vocab: usize, d_model: usize) -> f64 {
        match self {
            Self::Full(_) => vocab as f64 * d_model as f64,
            Self::Adaptive(c) => c.products(vocab, d_model)[1],
        }
    }

    /// Returns the multiplications of a forward pass for `read` tokens that are embedded and `scored` tokens that are scored.
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

/// The input embeddings of tokens.
#[derive(Module, Debug)]
pub enum TokenVectors {
    /// A single table.
    Full(Embedding),
    /// A table for each cluster.
    Adaptive(AdaptiveEmbedding),
}

impl TokenVectors {
    /// Looks up the vectors of `ids` `[batch, seq]` as `[batch, seq, d_model]`.
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        match self {
            Self::Full(table) => table.forward(ids),
            Self::Adaptive(tables) => tables.forward(ids),
        }
    }

    /// Returns the number of tokens that have a vector.
    pub fn vocab_size(&self) -> usize {
        match self {
            Self::Full(table) => table.weight.val().dims()[0],
            Self::Adaptive(tables) => tables.vocab_size(),
        }
    }

    /// Returns the device of the tables.
    pub fn device(&self) -> Device {
        match self {
            Self::Full(table) => table.weight.val().device(),
            Self::Adaptive(tables) => tables.device(),
        }
    }
}

/// The parameters of the token scores other than the input embeddings.
#[derive(Module, Debug)]
pub enum TokenHead {
    /// A separate matrix.
    Full(Linear),
    /// The head of an adaptive vocabulary.
    Adaptive(AdaptiveHead),
}
