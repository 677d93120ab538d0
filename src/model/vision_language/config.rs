//! The knobs of a decoder that looks at images, and what follows from them: faults, products, the network itself.

use super::VisionLanguage;
use super::cross::{CrossBlock, CrossConfig, CrossShape};
use super::resampler::{Resampler, ResamplerConfig};
use crate::model::{DecoderConfig, ImageModel, ModelConfig, ModelInputs};
use crate::nn::init::Init;
use crate::rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Draws of the decoder, of the blocks between its own and of the resampler are those of other seeds than the image network's,
/// since their parts have the same names.
pub(super) const TEXT: &str = "text";
const CROSS: &str = "cross";
pub(super) const RESAMPLER: &str = "resampler";

/// The knobs of a decoder that looks at images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VisionLanguageConfig {
    /// The network that reads images, of which each patch is looked at: `vision`, or `resnet` or `swin` with the places of the last map.
    pub image: Box<ModelConfig>,
    /// The network that writes: `decoder`.
    pub text: Box<ModelConfig>,
    /// The blocks between those of the decoder that look at the image.
    #[serde(default)]
    pub cross_attention: CrossConfig,
    /// Between both: as few vectors of an image as it has latents. Without it all of the image network's are looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resampler: Option<ResamplerConfig>,
}

impl VisionLanguageConfig {
    /// The decoder; `None` where the network that writes is of another kind.
    pub fn decoder(&self) -> Option<&DecoderConfig> {
        match self.text.as_ref() {
            ModelConfig::Decoder(c) => Some(c),
            _ => None,
        }
    }

    /// The network; `None` where a part of it is of a kind that does not serve, or the inputs have no image.
    pub fn init(&self, inputs: &ModelInputs) -> Option<VisionLanguage> {
        let decoder = self.decoder()?;
        let seed = |part: &str| rng::part(inputs.seed, part);
        let of_texts = ModelInputs {
            seed: seed(TEXT),
            ..*inputs
        };
        let width = self.image.d_output();
        let image = ImageModel::new(&self.image, inputs)?;
        let dropouts = self.image.transformer().map(|c| c.stack.dropouts());
        let resampler = self.resampler.as_ref().map(|c| {
            let (initial, residuals) = (self.image.initial(), 2 * c.n_layers);
            let init = Init::new(inputs.device, seed(RESAMPLER), &initial, residuals, 1.0);
            let dropouts = dropouts.unwrap_or_default();
            Resampler::new(c, width, &dropouts, &init)
        });
        let blocks = self.cross_attention.blocks(decoder.n_layers());
        let initial = decoder.stack.init();
        let init = Init::new(inputs.device, seed(CROSS), &initial, 2 * blocks, 1.0);
        let cross = (0..blocks).map(|number| {
            let shape = CrossShape {
                decoder,
                d_memory: width,
                number,
            };
            CrossBlock::new(&self.cross_attention, &shape, &init.of(&number.to_string()))
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
