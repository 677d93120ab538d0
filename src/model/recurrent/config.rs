//! The keys of `[model] kind = "recurrent"`, and the cost of the network.

use crate::model::Use;
use crate::nn::init::InitConfig;
use crate::nn::recurrent::{RecurrentConfig, additive};
use crate::nn::vocabulary::VocabularyConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of layers.
pub(super) const MAX_LAYERS: usize = 1000;

/// The uses that it serves: as a language model, as an encoder-decoder, or as a reader of texts whose states feed heads.
pub(in crate::model) const USES: &[Use] = &[
    Use::NextTokens,
    Use::TextToText,
    Use::TextClasses,
    Use::TextRegression,
    Use::TextEmbeddings,
    Use::TokenClasses,
    Use::Spans,
];

/// The settings of a recurrent network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentModelConfig {
    /// The cell of every layer.
    pub cell: RecurrentConfig,
    /// Number of layers; in an encoder-decoder, of each side.
    #[schemars(range(min = 1, max = MAX_LAYERS))]
    pub n_layers: usize,
    /// Width of token vectors and of hidden states.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub d_model: usize,
    /// Whether source and target share one embedding table, in an encoder-decoder; true when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_embeddings: Option<bool>,
    /// Whether the LM head is tied to the embedding table; true when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tie_embeddings: Option<bool>,
    /// Whether an untied LM head has a bias.
    pub head_bias: bool,
    /// Dropout on the embeddings and on each layer's output, but not on the state from position to position.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub dropout: f64,
    /// How tokens are embedded and scored.
    pub vocabulary: VocabularyConfig,
    /// How the initial weights are drawn.
    pub init: InitConfig,
}

impl Default for RecurrentModelConfig {
    fn default() -> Self {
        Self {
            cell: RecurrentConfig::default(),
            n_layers: 2,
            d_model: 128,
            share_embeddings: None,
            tie_embeddings: None,
            head_bias: false,
            dropout: 0.0,
            vocabulary: VocabularyConfig::default(),
            init: InitConfig::xavier(),
        }
    }
}

impl RecurrentModelConfig {
    /// Whether the LM head is tied to the embedding table.
    pub fn ties_embeddings(&self) -> bool {
        self.tie_embeddings.unwrap_or(true)
    }

    /// Whether source and target share one embedding table.
    pub fn shares_embedding(&self) -> bool {
        self.share_embeddings.unwrap_or(true)
    }

    /// Multiplications of a forward pass over `tokens` tokens; for a pair, over `tokens` of the source and `written` of the
    /// target.
    pub fn text_products(&self, use_of: Use, vocab: usize, [tokens, written]: [usize; 2]) -> u128 {
        let d = self.d_model;
        let (wide, n) = (d as u128, tokens as u128);
        let cells = |d_in: usize| -> u128 {
            let above = self.n_layers.saturating_sub(1) as u128 * self.cell.products(d, d);
            self.cell.products(d_in, d) + above
        };
        let words = |read, scored| self.vocabulary.products([vocab, d], [read, scored]);
        match use_of {
            Use::TextClasses
            | Use::TextRegression
            | Use::TextEmbeddings
            | Use::TokenClasses
            | Use::Spans
            | Use::ImageClasses
            | Use::MaskedPatches
            | Use::ImageViews
            | Use::ImageText
            | Use::ImageToText
            | Use::SpeechToText
            | Use::SpeechCharacters
            | Use::MaskedFrames => n * cells(d),
            Use::NextTokens | Use::MaskedTokens => n * cells(d) + words(tokens, tokens),
            Use::TextToText => {
                let readout = 3 * wide * wide;
                let source = if self.shares_embedding() { tokens } else { 0 };
                let attention = additive::products(d, [written, tokens]);
                let writing = written as u128 * (cells(2 * d) + readout);
                n * cells(d) + writing + words(source + written, written) + attention
            }
        }
    }
}
