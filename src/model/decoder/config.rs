//! The knobs of a decoder: their faults, its cost, and the network that they make.

use super::Decoder;
use crate::model::retrieval::{NeighbourEncoder, RetrievalConfig};
use crate::model::{ModelInputs, replaced};
use crate::nn::init::Init;
use crate::nn::vocabulary::{TokenTables, VocabularyConfig};
use crate::one_table::one_table;
use crate::stack::{Depth, LayerGroup, Stack, StackConfig, StackShape, layers};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The knobs of a decoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct DecoderConfig {
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
    /// How tokens are embedded and scored.
    pub vocabulary: VocabularyConfig,
    /// Whether the embeddings are normalised (BLOOM). Source: Le Scao et al. 2022, section 3.2.3.
    pub embedding_norm: bool,
    /// Whether the embeddings are multiplied by √d_model. Source: Vaswani et al. 2017, section 3.4.
    pub embedding_scale: bool,
    /// Whether the product onto the vocabulary, built for tasks that predict tokens, uses the embeddings' table.
    /// Source: Press and Wolf 2017; Vaswani et al. 2017, section 3.4.
    pub tie_embeddings: bool,
    /// Whether an untied product onto the vocabulary, built for tasks that predict tokens, has a bias (GPT-J).
    pub head_bias: bool,
    /// Whether the hidden state is multiplied by 1/√d_model before the vocabulary (T5 v1.0), in tasks that predict tokens.
    pub head_scale: bool,
    /// Scores of the vocabulary become c·tanh(score/c), so that none is beyond c, in tasks that predict tokens. Source:
    /// Gemma Team 2024, section 2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_softcap: Option<f64>,
    /// Neighbours of chunks of the text that some blocks look at; none when absent.
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

one_table!(DecoderConfig, stack: StackConfig, |c| replaced(&[&c.layers]));

impl DecoderConfig {
    /// Its blocks.
    pub fn depth(&self) -> Depth<'_> {
        let alone = self.depth_alone();
        match &self.retrieval {
            None => alone,
            Some(retrieval) => Depth {
                cross: Some(retrieval.attention(&self.stack, &alone)),
                cross_in: Some(&retrieval.layers),
                ..alone
            },
        }
    }

    /// Its blocks without what looks at neighbours.
    pub(in crate::model) fn depth_alone(&self) -> Depth<'_> {
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

    /// Layers that remember earlier segments take so many positions of them in evaluation; whether there is such a layer.
    pub(in crate::model) fn remember_at_evaluation(&mut self, positions: usize) -> bool {
        layers::remember_at_evaluation(&mut self.stack.attention, &mut self.layers, positions)
    }

    /// Number of blocks.
    pub fn n_layers(&self) -> usize {
        self.depth().blocks()
    }

    /// Multiplications of a forward pass over a row of `tokens`, of which `scored` are scored against the vocabulary: no
    /// others pay for the product onto it.
    pub fn row_products(&self, vocab: usize, tokens: usize, scored: usize) -> u128 {
        let sizes = [vocab, self.stack.d_output()];
        let words = self.vocabulary.products(sizes, [tokens, scored]);
        let looking = self
            .retrieval
            .as_ref()
            .map_or(0, |r| r.products(self, tokens));
        self.stack.products(&self.depth_alone(), tokens, 0) + words + looking
    }

    /// Builds the network; its parameters are drawn when they are first used.
    pub fn init(&self, inputs: &ModelInputs) -> Decoder {
        self.build(self.depth(), inputs)
    }

    /// The same network for tasks that read texts: without parameters of a head onto the vocabulary.
    pub fn reader(&self, inputs: &ModelInputs) -> Decoder {
        Decoder {
            head: None,
            retrieval: None,
            ..self.build(self.depth_alone(), inputs)
        }
    }

    /// The network of a prefix language model, in which positions of the prefix see keys on both sides: what positions
    /// are told of distances is told of both directions.
    pub fn init_of_prefixes(&self, inputs: &ModelInputs) -> Decoder {
        let depth = Depth {
            causal: false,
            ..self.depth()
        };
        self.build(depth, inputs)
    }

    fn build(&self, depth: Depth, inputs: &ModelInputs) -> Decoder {
        let config = &self.stack;
        let (d_model, blocks) = (config.d_model, depth.blocks());
        let (alpha, beta) = config.norm_placement.alpha_beta(blocks);
        let init = Init::new(inputs.device, inputs.seed, config.init(), 2 * blocks, beta);
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
            embedding: self.vocabulary.embedding(&tables, &init.of("embedding")),
            position: config.position.init(&position, &init.of("position")),
            stack: Stack::new(&shape, &init.of("stack")),
            head: self.vocabulary.head(&read, &init.of("head")),
            dropout: config.dropouts().embedding,
            head_softcap: self.head_softcap,
            head_factor: match self.head_scale {
                true => 1.0 / root,
                false => config.head_factor(self.tie_embeddings),
            },
            retrieval: self
                .retrieval
                .as_ref()
                .map(|c| NeighbourEncoder::new(c, self, &init.of("retrieval"))),
        }
    }
}
