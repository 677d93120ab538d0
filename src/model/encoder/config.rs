//! The settings of an encoder and their cost.

use super::super::mask_decoder::MaskDecoderConfig;
use super::super::{Use, keys_replaced_by_groups};
use super::pooler::PoolerInput;
use crate::nn::Kind;
use crate::nn::feed_forward::Activation;
use crate::one_table::{is_usual, one_table};
use crate::stack::{Depth, LayerGroup, StackConfig, layers};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "encoder",
    summary: "bidirectional encoder: BERT, RoBERTa and related architectures",
    source: "Devlin et al. 2018; Liu et al. 2019",
    example: "kind = \"encoder\"\nn_layers = 4\nd_model = 256\nnorm_placement = \"post\"\nembedding_norm = true\npooler = true",
};

/// The uses that an encoder serves.
pub(in crate::model) const USES: &[Use] = &[
    Use::MaskedTokens,
    Use::TextClasses,
    Use::TextRegression,
    Use::TextEmbeddings,
    Use::TokenClasses,
    Use::Spans,
];

/// Maximum number of segments.
pub(super) const MAX_SEGMENTS: usize = 1024;

/// The settings of an encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct EncoderConfig {
    /// Number of blocks; when absent, the total of the groups in `layers`, or 4 without groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_layers: Option<usize>,
    /// Groups of blocks that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerGroup>,
    /// The keys that all transformers share.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub stack: StackConfig,
    /// Width E of token, position and segment vectors, which a matrix projects onto `d_model` after their norm: a table
    /// of vocabulary × E with E × d_model in place of vocabulary × d_model. With a tied LM head, the head's transform outputs
    /// this width. When absent, it is `d_model` without a projection. Source: Lan et al. 2020, section 3.1.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_embedding: Option<usize>,
    /// Whether dropout comes after the projection of `d_embedding` rather than before it (FNet).
    #[serde(skip_serializing_if = "is_usual")]
    pub dropout_after_projection: bool,
    /// Whether the sum of token, position and segment vectors is normalised (BERT).
    pub embedding_norm: bool,
    /// Whether the token vectors are multiplied by the square root of their width.
    pub embedding_scale: bool,
    /// Number of segment vectors: 2 distinguish two texts, 1 is added to all tokens (RoBERTa). Source: Devlin et al. 2019,
    /// section 3.
    pub segments: usize,
    /// Whether the pooled vector of a text is tanh(W·first position + b) (BERT); otherwise it is the first position itself. Tasks
    /// that do not read this vector build no pooler, so that one model serves both.
    pub pooler: bool,
    /// Activation of the pooler in place of tanh: GELU in ELECTRA's and DeBERTa's classifiers, ReLU in DistilBERT's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooler_activation: Option<Activation>,
    /// Whether the pooler's dense layer has a bias.
    pub pooler_bias: bool,
    /// Whether a norm follows the pooler's activation (ModernBERT).
    #[serde(skip_serializing_if = "is_usual")]
    pub pooler_norm: bool,
    /// The positions that the pooler reads: the first one, the mean of all, or the last one of a text (XLNet).
    #[serde(skip_serializing_if = "is_usual")]
    pub pooler_input: PoolerInput,
    /// Whether a dense layer, an activation and a norm, as in `head_transform`, come before the heads of token classes and answer
    /// spans (ModernBERT). Other tasks build none, so that one model serves all.
    #[serde(skip_serializing_if = "is_usual")]
    pub token_transform: bool,
    /// Whether the LM head, built for tasks that predict tokens, is tied to the embedding table. Source:
    /// Press and Wolf 2017.
    pub tie_embeddings: bool,
    /// Whether a dense layer, an activation and a norm come before the LM head, built for tasks that predict
    /// tokens (BERT).
    pub head_transform: bool,
    /// Whether that dense layer has a bias.
    pub head_transform_bias: bool,
    /// Activation after that dense layer.
    pub head_activation: Activation,
    /// Whether the LM head, built for tasks that predict tokens, has a bias.
    pub head_bias: bool,
    /// Absolute positions only for predictions of masked tokens, if there are any. Source: He et al. 2021, section 3.2.
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

one_table!(EncoderConfig, stack: StackConfig, |c| keys_replaced_by_groups(&[&c.layers]));

impl EncoderConfig {
    /// Returns the depth of its stack.
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

    /// Sets how many earlier positions the layers with segment memory keep in evaluation; returns whether there is such a layer.
    pub(in crate::model) fn set_evaluation_memory(&mut self, positions: usize) -> bool {
        layers::set_evaluation_memory(&mut self.stack.attention, &mut self.layers, positions)
    }

    /// Number of blocks.
    pub fn n_layers(&self) -> usize {
        self.depth().blocks()
    }

    /// Width of token, position and segment vectors.
    pub fn d_embedding(&self) -> usize {
        self.d_embedding.unwrap_or(self.stack.d_model)
    }

    /// Width of the pooled vector of a text: the pooler's, or that of hidden states.
    pub fn d_pooled(&self) -> usize {
        match self.pooler {
            true => self.stack.d_model,
            false => self.stack.d_output(),
        }
    }

    /// Multiplications of a forward pass over a text of `tokens` tokens; those of the pooler count once per text.
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
