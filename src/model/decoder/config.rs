//! The settings of a decoder, its cost, and the network built from them.

use super::Decoder;
use crate::model::retrieval::{NeighbourEncoder, RetrievalConfig};
use crate::model::{BuildContext, keys_replaced_by_groups};
use crate::nn::init::Init;
use crate::nn::vocabulary::{TokenTables, VocabularyConfig};
use crate::one_table::one_table;
use crate::stack::{Depth, LayerGroup, Stack, StackConfig, StackShape, layers};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of a decoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct DecoderConfig {
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
    /// How tokens are embedded and scored.
    pub vocabulary: VocabularyConfig,
    /// Whether the embeddings are normalised (BLOOM). Source: Le Scao et al. 2022, section 3.2.3.
    pub embedding_norm: bool,
    /// Whether the embeddings are multiplied by √d_model. Source: Vaswani et al. 2017, section 3.4.
    pub embedding_scale: bool,
    /// Whether the LM head, built for tasks that predict tokens, is tied to the embedding table.
    /// Source: Press and Wolf 2017; Vaswani et al. 2017, section 3.4.
    pub tie_embeddings: bool,
    /// Whether an untied LM head, built for tasks that predict tokens, has a bias (GPT-J).
    pub head_bias: bool,
    /// Whether hidden states are multiplied by 1/√d_model before the LM head (T5 v1.0), in tasks that predict tokens.
    pub head_scale: bool,
    /// Bound c of the logits, which become c·tanh(logit/c), in tasks that predict tokens. Source:
    /// Gemma Team 2024, section 2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_softcap: Option<f64>,
    /// Neighbours of the text's chunks that some blocks attend to; none when absent.
    /// Source: Borgeaud et al. 2022, section 2.4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retrieval: Option<RetrievalConfig>,
}

impl Default for DecoderConfig {
    fn default() -> Self {
        Self {
            n_layers: None,
            layers: Vec::new(),
            stack: StackConfig::default(),
            vocabulary: VocabularyConfig::default(),
            embedding_norm: false,
            embedding_scale: false,
            tie_embeddings: true,
            head_bias: false,
            head_scale: false,
            head_softcap: None,
            retrieval: None,
        }
    }
}

one_table!(DecoderConfig, stack: StackConfig, |c| keys_replaced_by_groups(&[&c.layers]));

impl DecoderConfig {
    /// Returns the depth of its stack.
    pub fn depth(&self) -> Depth<'_> {
        let alone = self.depth_without_retrieval();
        match &self.retrieval {
            None => alone,
            Some(retrieval) => Depth {
                cross: Some(retrieval.attention(&self.stack, &alone)),
                cross_in: Some(&retrieval.layers),
                ..alone
            },
        }
    }

    /// Returns the depth of its stack without cross-attention to neighbours.
    pub(in crate::model) fn depth_without_retrieval(&self) -> Depth<'_> {
        Depth {
            key: "n_layers",
            causal: true,
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

    /// Multiplications of a forward pass over a row of `tokens`, for `scored` of which logits are computed.
    pub fn row_products(&self, vocab: usize, tokens: usize, scored: usize) -> u128 {
        let sizes = [vocab, self.stack.d_output()];
        let words = self.vocabulary.products(sizes, [tokens, scored]);
        let looking = self
            .retrieval
            .as_ref()
            .map_or(0, |r| r.products(self, tokens));
        self.stack
            .products(&self.depth_without_retrieval(), tokens, 0)
            + words
            + looking
    }

    /// Builds the network; its parameters are drawn at their first use.
    pub fn init(&self, inputs: &BuildContext) -> Decoder {
        self.build(self.depth(), inputs)
    }

    /// Builds the network for tasks that read texts: without an LM head's own parameters, and without retrieval.
    pub fn init_reader(&self, inputs: &BuildContext) -> Decoder {
        Decoder {
            head: None,
            retrieval: None,
            ..self.build(self.depth_without_retrieval(), inputs)
        }
    }

    /// Builds the network of a prefix language model. Positions of the prefix see keys on both sides, so position schemes must
    /// distinguish distances in both directions.
    pub fn init_prefix_lm(&self, inputs: &BuildContext) -> Decoder {
        let depth = Depth {
            causal: false,
            ..self.depth()
        };
        self.build(depth, inputs)
    }

    fn build(&self, depth: Depth, inputs: &BuildContext) -> Decoder {
        let config = &self.stack;
        let (d_model, blocks) = (config.d_model, depth.blocks());
        let (alpha, beta) = config.norm_placement.alpha_beta(blocks);
        let init = Init::new(
            inputs.device,
            inputs.seed,
            config.init_settings(),
            2 * blocks,
            beta,
        );
        let shape = StackShape {
            config,
            depth,
            alpha,
            context: inputs.shape.context,
            d_memory: self.retrieval.as_ref().map(|r| r.d_encoder(&self.stack)),
        };
        let position = config.position_shape(&depth, inputs.shape.context);
        let root = (d_model as f64).sqrt();
        let tables = TokenTables {
            vocab: inputs.shape.vocab_size,
            d_model,
            scale: if self.embedding_scale { root } else { 1.0 },
            norm: self.embedding_norm.then_some(&config.norm),
            tied: self.tie_embeddings,
            head_bias: self.head_bias,
        };
        let read = TokenTables {
            d_model: config.d_output(),
            ..tables
        };
        Decoder {
            embedding: self.vocabulary.embedding(&tables, &init.part("embedding")),
            position: config.position.init(&position, &init.part("position")),
            stack: Stack::new(&shape, &init.part("stack")),
            head: self.vocabulary.head(&read, &init.part("head")),
            dropout: config.dropouts().embedding,
            head_softcap: self.head_softcap,
            head_factor: match self.head_scale {
                true => 1.0 / root,
                false => config.head_factor(self.tie_embeddings),
            },
            retrieval: self
                .retrieval
                .as_ref()
                .map(|c| NeighbourEncoder::new(c, self, &init.part("retrieval"))),
        }
    }
}
