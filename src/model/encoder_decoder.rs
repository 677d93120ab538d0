//! The encoder-decoder: the source is read at once, the target is written token by token (Vaswani et al. 2017).
//!
//! Every decoder layer attends to the encoder's final output. The embedding table may be shared by source and
//! target (`share_embeddings`), and by target and LM head (`tie_embeddings`).

mod facts;

use super::side::{self, Side, SidesBuilder};
pub use super::source::Source;
use super::source::visible;
use super::{BuildContext, GlobalTokens, TextBatchLayout, Use, keys_replaced_by_groups};
use crate::kernel::Globals;
use crate::model::heads::VocabularyHead;
use crate::nn::Kind;
use crate::nn::attention::{AttentionConfig, Visibility};
use crate::nn::init::Init;
use crate::nn::pass::Pass;
use crate::nn::role::{BIAS, Declaration, Place, Roles, StackSide as NetworkSide};
use crate::nn::state::StateUse;
use crate::nn::vocabulary::{TokenHead, TokenTables, TokenVectors, VocabularyConfig};
use crate::one_table::one_table;
use crate::stack::{Depth, LayerGroup, ModelState, StackConfig};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "encoder_decoder",
    summary: "encoder-decoder: the 2017 Transformer and related architectures",
    source: "Vaswani et al. 2017",
    example: "kind = \"encoder_decoder\"\nn_encoder_layers = 4\nn_decoder_layers = 4\nd_model = 128",
};

/// The uses that an encoder-decoder serves.
pub(super) const USES: &[Use] = &[Use::TextToText];

/// The settings of an encoder-decoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct EncoderDecoderConfig {
    /// Number of encoder blocks; when absent, the total of the groups in `encoder_layers`, or 4 without groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_encoder_layers: Option<usize>,
    /// Number of decoder blocks; when absent, the total of the groups in `decoder_layers`, or 4 without groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_decoder_layers: Option<usize>,
    /// Groups of encoder blocks that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub encoder_layers: Vec<LayerGroup>,
    /// Groups of decoder blocks that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decoder_layers: Vec<LayerGroup>,
    /// The keys that all transformers share, the same for both stacks.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub stack: StackConfig,
    /// Cross-attention of decoder blocks outside groups; as `attention` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross: Option<AttentionConfig>,
    /// Length of the longest target, if it is shorter than the longest source (LED): the rows of the decoder's table of
    /// learned positions, including unused rows before the first position.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_max_len: Option<usize>,
    /// How tokens are embedded and scored.
    pub vocabulary: VocabularyConfig,
    /// Whether the sum of token and position vectors is normalised (BART).
    pub embedding_norm: bool,
    /// Whether the token vectors are multiplied by √d_model. Source: Vaswani et al. 2017, section 3.4.
    pub embedding_scale: bool,
    /// Whether source and target share one embedding table. Source: Vaswani et al. 2017, section 3.4.
    pub share_embeddings: bool,
    /// Whether the LM head is tied to the target's embedding table.
    /// Source: Press and Wolf 2017; Vaswani et al. 2017, section 3.4.
    pub tie_embeddings: bool,
    /// Whether the LM head has a bias (BART, Marian).
    pub head_bias: bool,
    /// Whether hidden states are multiplied by 1/√d_model before the LM head (T5 v1.0).
    pub head_scale: bool,
}

impl Default for EncoderDecoderConfig {
    fn default() -> Self {
        Self {
            n_encoder_layers: None,
            n_decoder_layers: None,
            encoder_layers: Vec::new(),
            decoder_layers: Vec::new(),
            stack: StackConfig::default(),
            cross: None,
            target_max_len: None,
            vocabulary: VocabularyConfig::default(),
            embedding_norm: false,
            embedding_scale: false,
            share_embeddings: true,
            tie_embeddings: true,
            head_bias: false,
            head_scale: false,
        }
    }
}

one_table!(EncoderDecoderConfig, stack: StackConfig, |c| keys_replaced_by_groups(&[
    &c.encoder_layers,
    &c.decoder_layers
]));

impl EncoderDecoderConfig {
    /// The depth of the encoder.
    pub fn encoder_depth(&self) -> Depth<'_> {
        side::encoder_depth(self.n_encoder_layers, &self.encoder_layers)
    }

    /// The depth of the decoder.
    pub fn decoder_depth(&self) -> Depth<'_> {
        let cross = self.cross.as_ref().unwrap_or(&self.stack.attention);
        side::decoder_depth(self.n_decoder_layers, &self.decoder_layers, cross)
    }

    /// Multiplications of a forward pass over a source and a target of these lengths.
    pub fn pair_products(&self, vocab: usize, [source, target]: [usize; 2]) -> u128 {
        let (reads, writes) = (self.encoder_depth(), self.decoder_depth());
        let sizes = [vocab, self.stack.d_model];
        let read = if self.share_embeddings { source } else { 0 };
        let head = self.vocabulary.products(sizes, [read + target, target]);
        let encoder = self.stack.products(&reads, source, 0);
        encoder + self.stack.products(&writes, target, source) + head
    }

    /// Builds the network; its parameters are drawn at their first use.
    pub fn init(&self, inputs: &BuildContext) -> EncoderDecoder {
        let config = &self.stack;
        let model = Init::new(inputs.device, inputs.seed, config.init_settings(), 1, 1.0);
        let (shape, d) = (inputs.shape, config.d_model);
        let root = (d as f64).sqrt();
        let scale = if self.embedding_scale { root } else { 1.0 };
        let tables = |vocab: usize| TokenTables {
            vocab,
            d_model: d,
            scale,
            norm: None,
            tied: self.tie_embeddings,
            head_bias: self.head_bias,
        };
        let full = VocabularyConfig::default();
        let embedding = |name: &str, config: &VocabularyConfig, vocab: usize| {
            config.embedding(&tables(vocab), &model.part(name))
        };
        let source_vocab = shape.source_vocab_size.unwrap_or(shape.vocab_size);
        let sides = SidesBuilder {
            stack: config,
            encoder: self.encoder_depth(),
            decoder: self.decoder_depth(),
            embedding_norm: self.embedding_norm,
        };
        EncoderDecoder {
            embedding: embedding("embedding", &self.vocabulary, shape.vocab_size),
            source_embedding: (!self.share_embeddings)
                .then(|| embedding("source_embedding", &full, source_vocab)),
            encoder: sides.encoder(&config.position, shape.context, &model),
            decoder: sides.decoder(&self.target_position(), shape.context, &model),
            head_bias: (self.tie_embeddings && self.head_bias && self.vocabulary.is_full())
                .then(|| model.part("head").vector(shape.vocab_size, 0.0)),
            head: self
                .vocabulary
                .head(&tables(shape.vocab_size), &model.part("head")),
            dropout: config.dropouts().embedding,
            globals: GlobalTokens::None,
            head_factor: match self.head_scale {
                true => 1.0 / root,
                false => config.head_factor(self.tie_embeddings),
            },
        }
    }
}

/// Places of the parameters of [`EncoderDecoder`].
pub const ROLES: Roles = Roles::new(
    "EncoderDecoder",
    &[
        ("embedding", Declaration::Place(Place::Tokens)),
        ("source_embedding", Declaration::Place(Place::SourceTokens)),
        ("head", Declaration::Place(Place::TokenHead)),
        ("encoder", Declaration::Side(NetworkSide::Encoder)),
        ("decoder", Declaration::Side(NetworkSide::Decoder)),
        ("head_bias", Declaration::Place(Place::TokenHead)),
        ("head_bias", BIAS),
    ],
);

/// An encoder-decoder.
#[derive(Module, Debug)]
pub struct EncoderDecoder {
    /// The embedding of target tokens, and of source tokens if they share it.
    pub embedding: TokenVectors,
    /// The embedding of source tokens, if it is not shared.
    pub source_embedding: Option<TokenVectors>,
    /// The encoder.
    pub encoder: Side,
    /// The decoder.
    pub decoder: Side,
    /// The LM head's own parameters, besides those of the embedding.
    pub head: Option<TokenHead>,
    /// Bias added to the logits of a tied head, `[vocab]`.
    pub head_bias: Option<Param<Tensor<1>>>,
    dropout: f64,
    head_factor: f64,
    /// Which source tokens are global in attention.
    #[module(skip)]
    pub globals: GlobalTokens,
}

impl EncoderDecoder {
    /// Returns the decoder's state before the first call.
    pub fn empty_state(&self, of: StateUse) -> ModelState {
        self.decoder.stack.empty_state(of)
    }

    /// The longest source or target that the position scheme can encode, if there is a limit.
    pub fn max_len(&self) -> Option<usize> {
        self.decoder.position.scheme().max_len()
    }

    /// Encodes source ids `[batch, source]` whose rows have these lengths.
    pub fn encode(&self, ids: Tensor<2, Int>, lengths: Option<Vec<usize>>, pass: &Pass) -> Source {
        let texts = TextBatchLayout::single_segment(ids.dims(), lengths.as_deref());
        let globals = self.globals.positions_in(&texts);
        self.encode_with_globals(ids, lengths, globals, pass)
    }

    /// Encodes source ids with the given global tokens.
    pub fn encode_with_globals(
        &self,
        ids: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        globals: Option<Globals>,
        pass: &Pass,
    ) -> Source {
        let embedding = self.source_embedding.as_ref().unwrap_or(&self.embedding);
        let visible = Visibility {
            globals,
            ..visible(lengths.as_deref())
        };
        let x = embedding.forward(ids);
        let states = pass.in_network("encoder", || {
            self.encoder
                .forward(x, self.dropout, &visible, None, None, pass)
        });
        Source { states, lengths }
    }

    /// Computes hidden states `[batch, seq, d_model]` of target ids `[batch, seq]`; each token sees those before it and the
    /// source. `state` continues where its last call ended.
    pub fn decode(
        &self,
        ids: Tensor<2, Int>,
        source: &Source,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        let x = self.embedding.forward(ids);
        self.decoder.decode(x, self.dropout, source, state, pass)
    }

    /// Computes logits `[batch, seq, vocab]` from hidden states.
    pub fn logits(&self, hidden: Tensor<3>) -> Tensor<3> {
        self.vocabulary_head().logits(hidden)
    }

    /// Returns the LM head.
    pub fn vocabulary_head(&self) -> VocabularyHead<'_> {
        VocabularyHead {
            own: self.head.as_ref(),
            embedding: &self.embedding,
            bias: self.head_bias.as_ref(),
            factor: self.head_factor,
            softcap: None,
        }
    }
}
