//! The settings of an encoder of audio samples, and the building of the network.

use super::features::SampleFeaturesConfig;
use super::masks::FeatureMasksConfig;
use super::positional::ConvolutionalPositionsConfig;
use super::{SpeechEncoder, USES};
use crate::data::SpeechShape;
use crate::model::side::Side;
use crate::model::{BuildContext, Use, keys_replaced_by_groups};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::one_table::{is_true, is_usual, one_table};
use crate::stack::{Depth, LayerGroup, Stack, StackConfig, StackShape};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of an encoder of audio samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct SpeechEncoderConfig {
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
    /// Convolutions that turn samples into features.
    pub features: SampleFeaturesConfig,
    /// Whether features are normalised before they are projected onto `d_model`.
    #[serde(skip_serializing_if = "is_true")]
    pub projection_norm: bool,
    /// Dropout on the projected features.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    #[serde(skip_serializing_if = "is_usual")]
    pub dropout_projection: f64,
    /// Masking of features in training.
    #[serde(skip_serializing_if = "FeatureMasksConfig::is_none")]
    pub masks: FeatureMasksConfig,
    /// Convolution over frames that adds positions; none when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub convolutional_positions: Option<ConvolutionalPositionsConfig>,
    /// Whether the sum of frames and positions is normalised (wav2vec 2.0 base).
    pub embedding_norm: bool,
}

impl Default for SpeechEncoderConfig {
    fn default() -> Self {
        Self {
            n_layers: None,
            layers: Vec::new(),
            stack: StackConfig::default(),
            features: SampleFeaturesConfig::default(),
            projection_norm: true,
            dropout_projection: 0.0,
            masks: FeatureMasksConfig::default(),
            convolutional_positions: None,
            embedding_norm: false,
        }
    }
}

one_table!(SpeechEncoderConfig, stack: StackConfig, |c| keys_replaced_by_groups(&[&c.layers]));

impl SpeechEncoderConfig {
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

    /// Number of channels of the features.
    pub fn d_features(&self) -> usize {
        self.features.widths.last().copied().unwrap_or(1)
    }

    /// Number of positions of the longest audio clip.
    pub fn max_positions(&self, speech: SpeechShape) -> usize {
        self.features.frames(speech.samples().unwrap_or(0))
    }

    /// Multiplications of a forward pass over the longest audio clip, including the `vocab` character scores of each position.
    pub(super) fn clip_products(&self, vocab: usize, speech: SpeechShape) -> u128 {
        let (frames, d) = (self.max_positions(speech), self.stack.d_model);
        let features = self.features.products(speech.samples().unwrap_or(0));
        let each = (d * (self.d_features() + vocab)) as u128 * frames as u128;
        let positions = self.convolutional_positions.as_ref();
        let positions = positions.map_or(0, |p| p.products(frames, d));
        features + each + positions + self.stack.products(&self.depth(), frames, 0)
    }

    /// Builds the network; `None` if the inputs have no audio. Its parameters are drawn at their first use.
    pub fn init(&self, inputs: &BuildContext) -> Option<SpeechEncoder> {
        let (config, depth) = (&self.stack, self.depth());
        let read = self.max_positions(inputs.shape.speech?);
        let (d, blocks) = (config.d_model, depth.blocks());
        let (alpha, beta) = config.norm_placement.alpha_beta(blocks);
        let init = Init::new(
            inputs.device,
            inputs.seed,
            config.init_settings(),
            2 * blocks,
            beta,
        );
        let features = self.d_features();
        let side = init.part("encoder");
        let shape = StackShape {
            config,
            depth,
            alpha,
            context: read,
            d_memory: None,
        };
        let position = config.position_shape(&depth, read);
        let positions = self.convolutional_positions.as_ref();
        let masked = self.masks.time_share > 0.0;
        Some(SpeechEncoder {
            features: self.features.build(&init.part("features")),
            projection_norm: self
                .projection_norm
                .then(|| config.norm.init(features, &init.part("projection_norm"))),
            projection: Linear::new(
                features,
                d,
                true,
                MatrixRole::Input,
                &init.part("projection"),
            ),
            mask_vector: masked.then(|| init.part("mask_vector").uniform([d], |u| u)),
            convolutional_positions: positions.map(|p| p.build(d, &init.part("positions"))),
            encoder: Side {
                position: config.position.init(&position, &side.part("position")),
                embedding_norm: self.embedding_norm.then(|| config.norm.init(d, &side)),
                stack: Stack::new(&shape, &side.part("stack")),
            },
            head: Some(Linear::new(
                config.d_output(),
                inputs.shape.vocab_size,
                true,
                MatrixRole::Head,
                &init.part("head"),
            )),
            masks: self.masks.clone(),
            dropout: config.dropouts().embedding,
            dropout_projection: self.dropout_projection,
        })
    }

    /// Whether the network serves a use.
    pub(super) fn serves(used_for: Use) -> bool {
        USES.contains(&used_for)
    }
}
