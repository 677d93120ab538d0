//! The decoder-only language model: embeddings, a causal stack, a product onto the vocabulary.
//!
//! With its keys it is GPT (post-norm), GPT-2 (pre-norm), LLaMA (RMS norm, rotary, gated), Falcon and GPT-NeoX
//! (parallel), MPT and BLOOM (linear biases) and everything between.

pub use super::decoder_pass::DecoderInput;
use super::demand::{head_faults, inner_layer_faults};
use super::{Demand, ModelInputs, Use, WholeText, replaced};
use crate::faults::TableFaults;
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::position::Position;
use crate::nn::role::{Place, Roles, Says};
use crate::nn::vocabulary::{TokenHead, TokenTables, TokenVectors, VocabularyConfig};
use crate::one_table::one_table;
use crate::stack::{Depth, LayerGroup, Stack, StackConfig, StackShape};
use burn::module::Module;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "decoder",
    summary: "decoder-only language model: GPT, GPT-2, GPT-3, LLaMA, Falcon and what lies between",
    source: "Radford et al. 2018, 2019; Touvron et al. 2023",
    example: "kind = \"decoder\"\nn_layers = 4\nd_model = 128",
};

/// The uses that it serves.
pub(super) const USES: &[Use] = &[
    Use::NextTokens,
    Use::TextToText,
    Use::TextClasses,
    Use::TextNumbers,
    Use::TextVectors,
    Use::TokenClasses,
];

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
    /// Whether the product onto the vocabulary uses the embeddings' table.
    /// Source: Press and Wolf 2017; Vaswani et al. 2017, section 3.4.
    pub tie_embeddings: bool,
    /// Whether an untied product onto the vocabulary has a bias (GPT-J).
    pub head_bias: bool,
    /// Whether the hidden state is multiplied by 1/√d_model before the vocabulary (T5 v1.0).
    pub head_scale: bool,
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
        }
    }
}

one_table!(DecoderConfig, stack: StackConfig, |c| replaced(&[&c.layers]));

impl DecoderConfig {
    /// Its blocks.
    pub fn depth(&self) -> Depth<'_> {
        Depth {
            key: "n_layers",
            causal: true,
            n_layers: self.n_layers,
            groups_key: "layers",
            groups: &self.layers,
            cross: None,
        }
    }

    /// Layers that remember earlier segments take so many positions of them in evaluation; whether there is such a layer.
    pub(super) fn remember_at_evaluation(&mut self, positions: usize) -> bool {
        let own = self.layers.is_empty().then_some(&mut self.stack.attention);
        let grouped = self.layers.iter_mut();
        let all = grouped
            .filter_map(|group| group.attention.as_mut())
            .chain(own);
        let remembering = all.map(|attention| attention.remember_at_evaluation(positions));
        remembering.fold(false, |any, one| any | one)
    }

    /// Number of blocks.
    pub fn n_layers(&self) -> usize {
        self.depth().blocks()
    }

    /// Faults of its own keys under a demand; the positions of its longest input, when they are known.
    pub(super) fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        if !demand.used_for.scores_tokens() {
            self.reading_faults(demand, at);
            return demand.context;
        }
        head_faults(&self.vocabulary, self.head_bias, self.tie_embeddings, at);
        let d_model = self.stack.d_model;
        self.vocabulary
            .faults(d_model, demand.smooths, self.head_bias, at);
        inner_layer_faults(demand, self.n_layers(), at);
        self.width_faults(at);
        if demand.used_for != Use::TextToText {
            return demand.context;
        }
        if demand.two_vocabularies {
            at.fault(
                &["data.separate_vocabularies", "model.kind"],
                "separate_vocabularies = true needs a model with two vocabularies: a decoder has one; leave it out, or \
                 set [model] kind = \"encoder_decoder\"",
            );
        }
        // Source and target stand in one row.
        demand.context.map(|context| 2 * context)
    }

    /// Faults where the network reads texts and scores no tokens.
    fn reading_faults(&self, demand: &Demand, at: &mut TableFaults) {
        if demand.whole_text == WholeText::First {
            let rule = "pooling = \"first\" is for encoders: the first position of a decoder has read one token; use \"last\" or \"mean\"";
            at.fault(&["task.pooling", "model.kind"], rule);
        }
        let d_model = self.stack.d_model;
        self.vocabulary.faults(d_model, false, self.head_bias, at);
    }

    /// The head of a reversible stack whose streams stay apart reads states that are wider than the embeddings.
    fn width_faults(&self, at: &mut TableFaults) {
        let (read, own) = (self.stack.d_output(), self.stack.d_model);
        if read == own {
            return;
        }
        let remedy = if !self.vocabulary.is_full() {
            "set vocabulary = { kind = \"full\" } with tie_embeddings = false"
        } else if self.tie_embeddings {
            "set tie_embeddings = false"
        } else {
            return;
        };
        at.fault(
            &["model.reversible.join", "tie_embeddings", "model.vocabulary.kind"],
            format!(
                "join = \"concatenation\" makes states of {read} elements, and the scores are made with vectors of {own}: \
                 {remedy}, or join = \"mean\""
            ),
        );
    }

    /// Multiplications of a forward pass over a row of `tokens`, of which `scored` are scored against the vocabulary: no
    /// others pay for the product onto it.
    pub fn products(&self, vocab: usize, tokens: usize, scored: usize) -> u128 {
        let sizes = [vocab, self.stack.d_output()];
        let words = self.vocabulary.products(sizes, [tokens, scored]);
        self.stack.products(&self.depth(), tokens, 0) + words
    }

    /// Builds the network; its parameters are drawn when they are first used.
    pub fn init(&self, inputs: &ModelInputs) -> Decoder {
        self.build(self.depth(), inputs)
    }

    /// The same network for tasks that read texts: without parameters of a head onto the vocabulary.
    pub fn reader(&self, inputs: &ModelInputs) -> Decoder {
        Decoder {
            head: None,
            ..self.init(inputs)
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
        let init = Init::new(inputs.device, inputs.seed, &config.init(), 2 * blocks, beta);
        let shape = StackShape {
            config,
            depth,
            alpha,
            context: inputs.shape.context,
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
            head_factor: if self.head_scale { 1.0 / root } else { 1.0 },
        }
    }
}

/// What the parameters of [`Decoder`] are.
pub const ROLES: Roles = Roles::new(
    "Decoder",
    &[
        ("embedding", Says::Stands(Place::Tokens)),
        ("position", Says::Stands(Place::Position)),
        ("head", Says::Stands(Place::TokenHead)),
    ],
);

/// A decoder-only language model.
#[derive(Module, Debug)]
pub struct Decoder {
    /// Token vectors.
    pub embedding: TokenVectors,
    /// How the model knows where a token stands.
    pub position: Position,
    /// The blocks.
    pub stack: Stack,
    /// The parameters of the product onto the vocabulary beside those of its vectors.
    pub head: Option<TokenHead>,
    pub(super) dropout: f64,
    pub(super) head_factor: f64,
}
