//! The knobs of a decoder that looks at images, and what follows from them: faults, products, the network itself.

use super::cross::{CrossBlock, CrossConfig, CrossShape, Gate};
use super::resampler::{Resampler, ResamplerConfig};
use super::{KIND, VisionLanguage};
use crate::data::Shape;
use crate::faults::TableFaults;
use crate::model::{DecoderConfig, Demand, ImageModel, ModelConfig, ModelInputs, Use};
use crate::nn::init::Init;
use crate::rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Draws of the decoder, of the blocks between its own and of the resampler are those of other seeds than the image network's,
/// since their parts have the same names.
const TEXT: &str = "text";
const CROSS: &str = "cross";
const RESAMPLER: &str = "resampler";

/// The knobs of a decoder that looks at images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VisionLanguageConfig {
    /// The network that reads images, of which each patch is looked at: `vision`, or `resnet` with the places of its last map.
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
    /// Both networks with the keys that hold them.
    pub fn parts(&self) -> [(&'static str, &ModelConfig); 2] {
        [("image", &self.image), (TEXT, &self.text)]
    }

    /// The demands on both networks of a demand on the whole.
    pub fn demands(demand: &Demand) -> [Demand; 2] {
        let of = |used_for| Demand {
            smooths: demand.smooths,
            context: demand.context,
            image: demand.image,
            ..Demand::of(used_for)
        };
        [of(Use::ImageClasses), of(Use::NextTokens)]
    }

    /// The decoder; `None` where the network that writes is of another kind.
    pub fn decoder(&self) -> Option<&DecoderConfig> {
        match self.text.as_ref() {
            ModelConfig::Decoder(c) => Some(c),
            _ => None,
        }
    }

    /// Faults of its own keys; those of its networks are theirs.
    pub(in crate::model) fn faults(&self, demand: &Demand, at: &mut TableFaults) {
        let [of_images, _] = Self::demands(demand);
        if !self.image.uses().contains(&of_images.used_for) {
            let rule = format!(
                "kind = \"{}\" reads no images; use \"vision\" or \"resnet\"",
                self.image.kind()
            );
            at.fault(&["model.image.kind", "image"], rule);
        }
        if self.image.has_distillation_token() {
            let rule = "distillation_token = true has no effect: this network learns from no teacher; leave it out";
            at.fault(&["model.image.distillation_token"], rule);
        }
        if let Some(resampler) = &self.resampler {
            let width = self.image.d_output();
            at.within(RESAMPLER, |at| resampler.faults(width, at));
        }
        let Some(decoder) = self.decoder() else {
            let rule = format!(
                "kind = \"{}\" writes no text between whose blocks an image could be looked at; use \"decoder\"",
                self.text.kind()
            );
            return at.fault(&["model.text.kind", TEXT], rule);
        };
        if decoder.stack.reversible.is_some() {
            let rule = format!(
                "reversible has two streams, and the blocks of kind = \"{}\" that look at an image stand in one; leave it out",
                KIND.kind
            );
            at.fault(&["model.text.reversible"], rule);
        }
        at.within("cross_attention", |at| {
            self.cross_attention.faults(decoder, at)
        });
    }

    /// The paths of gates that begin closed, where there are some: nothing behind them learns while they stay so.
    pub(in crate::model) fn gates(&self) -> Option<&'static str> {
        (self.cross_attention.gate == Gate::Tanh).then_some("model.cross.0.attention_gate")
    }

    /// The same without what nothing reads under a demand.
    pub(in crate::model) fn under(&self, demand: &Demand) -> Self {
        let [image, text] = Self::demands(demand);
        Self {
            image: Box::new(self.image.under(&image)),
            text: Box::new(self.text.under(&text)),
            ..self.clone()
        }
    }

    /// Vectors of an image that the decoder looks at.
    fn looked_at(&self, shape: &Shape) -> usize {
        let of_image = self.image.sequence(shape);
        self.resampler.as_ref().map_or(of_image, |c| c.n_latents)
    }

    /// Multiplications of a forward pass over an image and a text of this shape.
    pub fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        let [of_images, of_texts] = Self::demands(demand);
        let (width, read) = (self.image.d_output(), self.image.sequence(shape));
        let own = self.image.products(&of_images, shape) + self.text.products(&of_texts, shape);
        let resampler = self.resampler.as_ref();
        let resampled = resampler.map_or(0, |c| c.products(width, read));
        let crossed = self.decoder().map_or(0, |decoder| {
            self.cross_attention
                .products(decoder, width, [shape.context, self.looked_at(shape)])
        });
        own + (resampled + crossed) as f64
    }

    /// Numbers that the blocks between its networks keep of an example for the backward pass.
    pub fn kept(&self, shape: &Shape) -> u128 {
        let (width, read) = (self.image.d_output(), self.image.sequence(shape));
        let resampled = self.resampler.as_ref().map_or(0, |c| c.kept(width, read));
        let crossed = self.decoder().map_or(0, |decoder| {
            self.cross_attention
                .kept(decoder, [shape.context, self.looked_at(shape)])
        });
        resampled.saturating_add(crossed)
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
