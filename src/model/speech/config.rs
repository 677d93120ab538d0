//! The settings of an encoder-decoder that reads audio, and the building of the network.

use super::{SpeechEncoderDecoder, SpeechStemConfig};
use crate::data::SpeechShape;
use crate::model::side::{self, SidesBuilder};
use crate::model::{BuildContext, keys_replaced_by_groups};
use crate::nn::attention::AttentionConfig;
use crate::nn::init::Init;
use crate::nn::position::PositionConfig;
use crate::nn::vocabulary::{TokenTables, VocabularyConfig};
use crate::one_table::one_table;
use crate::stack::{Depth, LayerGroup, StackConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of an encoder-decoder that reads audio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct SpeechEncoderDecoderConfig {
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
    /// Stem that turns audio features into the encoder's input sequence.
    pub stem: SpeechStemConfig,
    /// Position scheme of the encoder: sinusoids in Whisper, whose decoder learns a table. As `position` when absent.
    /// Source: Radford et al. 2022, section 2.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder_position: Option<PositionConfig>,
    /// Cross-attention of decoder blocks outside groups; as `attention` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross: Option<AttentionConfig>,
    /// How tokens are embedded and scored.
    pub vocabulary: VocabularyConfig,
    /// Whether the sum of token or frame vectors and position vectors is normalised.
    pub embedding_norm: bool,
    /// Whether the token vectors are multiplied by √d_model. Source: Vaswani et al. 2017, section 3.4.
    pub embedding_scale: bool,
    /// Whether the LM head is tied to the embedding table.
    /// Source: Press and Wolf 2017; Radford et al. 2022, section 2.2.
    pub tie_embeddings: bool,
    /// Whether the LM head has a bias.
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

one_table!(SpeechEncoderDecoderConfig, stack: StackConfig, |c| keys_replaced_by_groups(&[
    &c.encoder_layers,
    &c.decoder_layers
]));

impl SpeechEncoderDecoderConfig {
    /// Returns the depth of the encoder.
    pub fn encoder_depth(&self) -> Depth<'_> {
        side::encoder_depth(self.n_encoder_layers, &self.encoder_layers)
    }

    /// Returns the depth of the decoder.
    pub fn decoder_depth(&self) -> Depth<'_> {
        let cross = self.cross.as_ref().unwrap_or(&self.stack.attention);
        side::decoder_depth(self.n_decoder_layers, &self.decoder_layers, cross)
    }

    /// Returns the position scheme of the encoder.
    pub fn encoder_position(&self) -> &PositionConfig {
        self.encoder_position
            .as_ref()
            .unwrap_or(&self.stack.position)
    }

    /// Number of encoder positions for an audio clip.
    pub fn clip_positions(&self, speech: SpeechShape) -> usize {
        self.stem.positions(speech.n_frames)
    }

    /// Multiplications of a forward pass over an audio clip and a text of `written` tokens.
    pub fn clip_products(&self, vocab: usize, speech: SpeechShape, written: usize) -> u128 {
        let (reads, writes) = (self.encoder_depth(), self.decoder_depth());
        let (read, d_model) = (self.clip_positions(speech), self.stack.d_model);
        let head = self
            .vocabulary
            .products([vocab, d_model], [written, written]);
        let stem = self.stem.products(speech, d_model);
        let encoder = self.stack.products(&reads, read, 0);
        stem + encoder + self.stack.products(&writes, written, read) + head
    }

    /// Builds the network; `None` if the inputs have no audio. Its parameters are drawn at their first use.
    pub fn init(&self, inputs: &BuildContext) -> Option<SpeechEncoderDecoder> {
        let (config, shape) = (&self.stack, inputs.shape);
        let speech = shape.speech?;
        let model = Init::new(inputs.device, inputs.seed, config.init_settings(), 1, 1.0);
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
        let sides = SidesBuilder {
            stack: config,
            encoder: self.encoder_depth(),
            decoder: self.decoder_depth(),
            embedding_norm: self.embedding_norm,
        };
        let bias = self.tie_embeddings && self.head_bias && self.vocabulary.is_full();
        Some(SpeechEncoderDecoder {
            embedding: self.vocabulary.embedding(&tables, &model.part("embedding")),
            stem: self.stem.build(speech.n_mels, d, &model.part("stem")),
            encoder: sides.encoder(self.encoder_position(), self.clip_positions(speech), &model),
            decoder: sides.decoder(&config.position, shape.context, &model),
            head: self.vocabulary.head(&tables, &model.part("head")),
            head_bias: bias.then(|| model.part("head").vector(shape.vocab_size, 0.0)),
            dropout: config.dropouts().embedding,
            head_factor: config.head_factor(self.tie_embeddings),
        })
    }
}
