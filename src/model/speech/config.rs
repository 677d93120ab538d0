//! The knobs of an encoder-decoder that reads recordings, and the network itself.

use super::{SpeechEncoderDecoder, SpeechStemConfig};
use crate::data::SpeechShape;
use crate::model::side::{self, Sides};
use crate::model::{ModelInputs, replaced};
use crate::nn::attention::AttentionConfig;
use crate::nn::init::Init;
use crate::nn::position::PositionConfig;
use crate::nn::vocabulary::{TokenTables, VocabularyConfig};
use crate::one_table::one_table;
use crate::stack::{Depth, LayerGroup, StackConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The knobs of an encoder-decoder that reads recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct SpeechEncoderDecoderConfig {
    /// Number of blocks of the encoder; as many as the groups of `encoder_layers` have when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_encoder_layers: Option<usize>,
    /// Number of blocks of the decoder; as many as the groups of `decoder_layers` have when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_decoder_layers: Option<usize>,
    /// Blocks of the encoder that differ, in groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub encoder_layers: Vec<LayerGroup>,
    /// Blocks of the decoder that differ, in groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decoder_layers: Vec<LayerGroup>,
    /// What all transformers have, the same in both stacks.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub stack: StackConfig,
    /// How features become a sequence.
    pub stem: SpeechStemConfig,
    /// How the encoder knows where a frame stands: sinusoids in Whisper, whose decoder learns a table. As `position` when absent.
    /// Source: Radford et al. 2022, section 2.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder_position: Option<PositionConfig>,
    /// Every cross-attention of decoder blocks that do not stand in groups; as `attention` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross: Option<AttentionConfig>,
    /// How tokens are embedded and scored.
    pub vocabulary: VocabularyConfig,
    /// Whether the sum of token or frame vectors and position vectors is normalised.
    pub embedding_norm: bool,
    /// Whether the token vectors are multiplied by √d_model. Source: Vaswani et al. 2017, section 3.4.
    pub embedding_scale: bool,
    /// Whether the product onto the vocabulary uses the table of tokens.
    /// Source: Press and Wolf 2017; Radford et al. 2022, section 2.2.
    pub tie_embeddings: bool,
    /// Whether the product onto the vocabulary has a bias.
    pub head_bias: bool,
}

impl Default for SpeechEncoderDecoderConfig {
    fn default() -> Self {
        Self {
            n_encoder_layers: None,
            n_decoder_layers: None,
            encoder_layers: Vec::new(),
            decoder_layers: Vec::new(),
            stack: StackConfig::default(),
            stem: SpeechStemConfig::default(),
            encoder_position: None,
            cross: None,
            vocabulary: VocabularyConfig::default(),
            embedding_norm: false,
            embedding_scale: false,
            tie_embeddings: true,
            head_bias: false,
        }
    }
}

one_table!(SpeechEncoderDecoderConfig, stack: StackConfig, |c| replaced(&[
    &c.encoder_layers,
    &c.decoder_layers
]));

impl SpeechEncoderDecoderConfig {
    /// The blocks of the encoder.
    pub fn encoder_depth(&self) -> Depth<'_> {
        side::reads(self.n_encoder_layers, &self.encoder_layers)
    }

    /// The blocks of the decoder.
    pub fn decoder_depth(&self) -> Depth<'_> {
        let cross = self.cross.as_ref().unwrap_or(&self.stack.attention);
        side::writes(self.n_decoder_layers, &self.decoder_layers, cross)
    }

    /// The positions of the encoder.
    pub fn reading_position(&self) -> &PositionConfig {
        self.encoder_position
            .as_ref()
            .unwrap_or(&self.stack.position)
    }

    /// Positions that the encoder has of a recording.
    pub fn read(&self, speech: SpeechShape) -> usize {
        self.stem.positions(speech.n_frames)
    }

    /// Multiplications of a forward pass over a recording and a text of so many tokens.
    pub fn spoken_products(&self, vocab: usize, speech: SpeechShape, written: usize) -> u128 {
        let (reads, writes) = (self.encoder_depth(), self.decoder_depth());
        let (read, d_model) = (self.read(speech), self.stack.d_model);
        let head = self
            .vocabulary
            .products([vocab, d_model], [written, written]);
        let stem = self.stem.products(speech, d_model);
        let encoder = self.stack.products(&reads, read, 0);
        stem + encoder + self.stack.products(&writes, written, read) + head
    }

    /// The network; `None` where the inputs have no recordings. Its parameters are drawn when they are first used.
    pub fn init(&self, inputs: &ModelInputs) -> Option<SpeechEncoderDecoder> {
        let (config, shape) = (&self.stack, inputs.shape);
        let speech = shape.speech?;
        let model = Init::new(inputs.device, inputs.seed, config.init(), 1, 1.0);
        let d = config.d_model;
        let tables = TokenTables {
            vocab: shape.vocab_size,
            d_model: d,
            scale: match self.embedding_scale {
                true => (d as f64).sqrt(),
                false => 1.0,
            },
            norm: None,
            tied: self.tie_embeddings,
            head_bias: self.head_bias,
        };
        let sides = Sides {
            stack: config,
            encoder: self.encoder_depth(),
            decoder: self.decoder_depth(),
            embedding_norm: self.embedding_norm,
        };
        let bias = self.tie_embeddings && self.head_bias && self.vocabulary.is_full();
        Some(SpeechEncoderDecoder {
            embedding: self.vocabulary.embedding(&tables, &model.of("embedding")),
            stem: self.stem.build(speech.n_mels, d, &model.of("stem")),
            encoder: sides.encoder(self.reading_position(), self.read(speech), &model),
            decoder: sides.decoder(&config.position, shape.context, &model),
            head: self.vocabulary.head(&tables, &model.of("head")),
            head_bias: bias.then(|| model.of("head").vector(shape.vocab_size, 0.0)),
            dropout: config.dropouts().embedding,
            head_factor: config.head_factor(self.tie_embeddings),
        })
    }
}
