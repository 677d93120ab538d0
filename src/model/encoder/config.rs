//! The knobs of an encoder, their faults under the demand of a task, and what they cost.

use super::super::mask_decoder::MaskDecoderConfig;
use super::super::{Use, replaced};
use super::pooler::PoolerInput;
use crate::nn::Kind;
use crate::nn::feed_forward::Activation;
use crate::one_table::{is_usual, one_table};
use crate::stack::{Depth, LayerGroup, StackConfig, layers};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "encoder",
    summary: "bidirectional encoder: BERT, RoBERTa and what lies between",
    source: "Devlin et al. 2018; Liu et al. 2019",
    example: "kind = \"encoder\"\nn_layers = 4\nd_model = 256\nnorm_placement = \"post\"\nembedding_norm = true\npooler = true",
};

/// The uses that it serves.
pub(in crate::model) const USES: &[Use] = &[
    Use::HiddenTokens,
    Use::TextClasses,
    Use::TextNumbers,
    Use::TextVectors,
    Use::TokenClasses,
    Use::Spans,
];

/// Segments at most.
pub(super) const MOST_SEGMENTS: usize = 1024;

/// The knobs of an encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct EncoderConfig {
    /// Number of blocks; as many as the groups of `layers` have when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_layers: Option<usize>,
    /// Blocks that differ, in groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerGroup>,
    /// What all transformers have.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub stack: StackConfig,
    /// Width E of token, position and segment vectors, which a matrix projects onto `d_model` after their norm: a table
    /// of vocabulary × E with E × d_model in place of vocabulary × d_model. A tied head has its transform make vectors of
    /// this width. `d_model` without a projection when absent. Source: Lan et al. 2020, section 3.1.
    #[schemars(range(min = 1, max = crate::faults::WIDEST))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_embedding: Option<usize>,
    /// Whether dropout acts behind the projection of `d_embedding` in place of before it (FNet).
    #[serde(skip_serializing_if = "is_usual")]
    pub dropout_after_projection: bool,
    /// Whether the sum of token, position and segment vectors is normalised (BERT).
    pub embedding_norm: bool,
    /// Whether the token vectors are multiplied by the root of their width.
    pub embedding_scale: bool,
    /// Vectors for segments: 2 tell two texts apart, 1 is added to all (RoBERTa). Source: Devlin et al. 2019, section 3.
    pub segments: usize,
    /// Whether tanh(W·first position + b) stands for the whole text (BERT); its first position itself otherwise. A task
    /// that reads no vector of a whole text from there builds none, so that one model serves both.
    pub pooler: bool,
    /// Nonlinearity of the pooler in place of tanh: GELU of ELECTRA's and DeBERTa's classifiers, ReLU of DistilBERT's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooler_activation: Option<Activation>,
    /// Whether the pooler's dense layer has a bias.
    pub pooler_bias: bool,
    /// Whether a norm follows the pooler's nonlinearity (ModernBERT).
    #[serde(skip_serializing_if = "is_usual")]
    pub pooler_norm: bool,
    /// The positions that the pooler reads: the first one, the mean of all, or the last one of a text (XLNet).
    #[serde(skip_serializing_if = "is_usual")]
    pub pooler_input: PoolerInput,
    /// Whether a dense layer, a nonlinearity and a norm, as `head_transform` has them, come before tags of tokens and ends of
    /// answers (ModernBERT). Other tasks build none, so that one model serves all.
    #[serde(skip_serializing_if = "is_usual")]
    pub token_transform: bool,
    /// Whether the product onto the vocabulary, built for tasks that predict tokens, uses the embeddings' table. Source:
    /// Press and Wolf 2017.
    pub tie_embeddings: bool,
    /// Whether a dense layer, a nonlinearity and a norm come before the product onto the vocabulary, built for tasks that predict
    /// tokens (BERT).
    pub head_transform: bool,
    /// Whether that dense layer has a bias.
    pub head_transform_bias: bool,
    /// Nonlinearity of that dense layer.
    pub head_activation: Activation,
    /// Whether the product onto the vocabulary, built for tasks that predict tokens, has a bias.
    pub head_bias: bool,
    /// Absolute positions for guesses of hidden tokens alone, if there are any. Source: He et al. 2021, section 3.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask_decoder: Option<MaskDecoderConfig>,
}

impl Default for EncoderConfig {
    fn default() -> Self {
        Self {
            n_layers: None,
            layers: Vec::new(),
            stack: StackConfig::default(),
            d_embedding: None,
            dropout_after_projection: false,
            embedding_norm: false,
            embedding_scale: false,
            segments: 2,
            pooler: false,
            pooler_activation: None,
            pooler_bias: true,
            pooler_norm: false,
            pooler_input: PoolerInput::First,
            token_transform: false,
            tie_embeddings: true,
            head_transform: true,
            head_transform_bias: true,
            head_activation: Activation::Gelu,
            head_bias: true,
            mask_decoder: None,
        }
    }
}

one_table!(EncoderConfig, stack: StackConfig, |c| replaced(&[&c.layers]));

impl EncoderConfig {
    /// Its blocks.
    pub fn depth(&self) -> Depth<'_> {
        Depth {
            key: "n_layers",
            causal: false,
            n_layers: self.n_layers,
            groups_key: "layers",
            groups: &self.layers,
            cross: None,
            cross_in: None,
        }
    }

    /// Layers that remember earlier segments take so many positions of them in evaluation; whether there is such a layer.
    pub(in crate::model) fn remember_at_evaluation(&mut self, positions: usize) -> bool {
        layers::remember_at_evaluation(&mut self.stack.attention, &mut self.layers, positions)
    }

    /// Number of blocks.
    pub fn n_layers(&self) -> usize {
        self.depth().blocks()
    }

    /// Width of token, position and segment vectors.
    pub fn d_embedding(&self) -> usize {
        self.d_embedding.unwrap_or(self.stack.d_model)
    }

    /// Width of the vector of a whole text: the pooler's, or that of hidden states.
    pub fn d_whole(&self) -> usize {
        match self.pooler {
            true => self.stack.d_model,
            false => self.stack.d_output(),
        }
    }

    /// Multiplications of a forward pass over a text of so many tokens; the pooler's are once a text.
    pub fn text_products(&self, tokens: usize) -> u128 {
        let d = self.stack.d_model as u128;
        let pooler = match self.pooler {
            true => d * self.stack.d_output() as u128,
            false => 0,
        };
        let transform = match self.token_transform {
            true => tokens as u128 * d * self.stack.d_output() as u128,
            false => 0,
        };
        let projection = self
            .d_embedding
            .map_or(0, |e| tokens as u128 * e as u128 * d);
        self.stack.products(&self.depth(), tokens, 0) + pooler + transform + projection
    }
}
