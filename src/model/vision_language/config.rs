//! The settings of a decoder that reads images, and the building of the network.

use super::VisionLanguage;
use super::cross::{CrossBlock, CrossConfig, CrossShape};
use super::resampler::{Resampler, ResamplerConfig};
use crate::model::{BuildContext, DecoderConfig, ImageModel, ModelConfig};
use crate::nn::init::Init;
use crate::rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names of separate seeds for the decoder, the cross-attention blocks and the resampler, whose parts have the same names as the
/// image network's.
pub(super) const TEXT: &str = "text";
const CROSS: &str = "cross";
pub(super) const RESAMPLER: &str = "resampler";

/// The settings of a decoder that reads images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VisionLanguageConfig {
    /// The image network, each of whose patches is attended to: `vision`, or `resnet` or `swin` with the positions of the last
    /// map.
    pub image: Box<ModelConfig>,
    /// The network that writes text: `decoder`.
    pub text: Box<ModelConfig>,
    /// The blocks with cross-attention to the image, between the decoder's own.
    #[serde(default)]
    pub cross_attention: CrossConfig,
    /// Resampler between image network and decoder, which reduces an image to as many vectors as it has latents. Without it, the
    /// decoder attends to all vectors of the image network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resampler: Option<ResamplerConfig>,
}

impl VisionLanguageConfig {
    /// Returns the decoder; `None` if the text network is of another kind.
    pub fn decoder(&self) -> Option<&DecoderConfig> {
        match self.text.as_ref() {
            ModelConfig::Decoder(c) => Some(c),
            _ => None,
        }
    }

    /// Builds the network; `None` if the kind of a part does not serve, or the inputs have no image.
    pub fn init(&self, inputs: &BuildContext) -> Option<VisionLanguage> {
        let decoder = self.decoder()?;
        let seed = |part: &str| rng::part_coordinate(inputs.seed, part);
        let of_texts = BuildContext {
            seed: seed(TEXT),
            ..*inputs
        };
        let width = self.image.d_output();
        let image = ImageModel::new(&self.image, inputs)?;
        let dropouts = self.image.transformer().map(|c| c.stack.dropouts());
        let resampler = self.resampler.as_ref().map(|c| {
            let (initial, residuals) = (self.image.init_settings(), 2 * c.n_layers);
            let init = Init::new(inputs.device, seed(RESAMPLER), &initial, residuals, 1.0);
            let dropouts = dropouts.unwrap_or_default();
            Resampler::new(c, width, &dropouts, &init)
        });
        let blocks = self.cross_attention.blocks(decoder.n_layers());
        let initial = decoder.stack.init_settings();
        let init = Init::new(inputs.device, seed(CROSS), &initial, 2 * blocks, 1.0);
        let cross = (0..blocks).map(|number| {
            let shape = CrossShape {
                decoder,
                d_memory: width,
                number,
            };
            CrossBlock::new(
                &self.cross_attention,
                &shape,
                &init.part(&number.to_string()),
            )
        });
        Some(VisionLanguage {
            image,
            resampler,
            cross: cross.collect(),
            text: decoder.init(&of_texts),
            every: self.cross_attention.every.max(1),
        })
    }
}
