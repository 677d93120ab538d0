//! The network facts of a decoder that reads images.

use super::config::{RESAMPLER, TEXT};
use super::cross::Gate;
use super::{KIND, VisionLanguageConfig};
use crate::data::Shape;
use crate::faults::TableFaults;
use crate::model::facts::{NetworkFacts, Parts};
use crate::model::{Demand, ItemOf, ModelConfig, Use};
use crate::nn::Kind;
use crate::nn::init::Initial;
use crate::nn::vocabulary::VocabularyConfig;

impl NetworkFacts for VisionLanguageConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.text.d_model()
    }

    fn d_output(&self) -> usize {
        self.text.d_output()
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        let [of_images, _] = Self::demands(demand);
        if !self.image.uses().contains(&of_images.used_for) {
            let rule = format!(
                "kind = \"{}\" reads no images; use \"vision\", \"resnet\" or \"swin\"",
                self.image.kind()
            );
            at.fault(&["model.image.kind", "image"], rule);
        }
        if self.image.has_distillation_token() {
            let rule = "distillation_token = true has no effect: this network learns from no teacher; leave it out";
            at.fault(&["model.image.distillation_token"], rule);
        }
        if let Some(pooling) = self.image.learned_pooling() {
            let rule = format!(
                "pooling = \"{pooling}\" has no effect: this network looks at each patch, and at no vector of all; use \"mean\""
            );
            at.fault(&["model.image.pooling"], rule);
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
            at.fault(&["model.text.kind", TEXT], rule);
            return demand.context;
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
        demand.context
    }

    fn initial(&self) -> Initial {
        self.text.initial()
    }

    fn vocabulary(&self) -> Option<&VocabularyConfig> {
        self.text.facts().vocabulary()
    }

    fn under(&self, demand: &Demand) -> Option<ModelConfig> {
        let [image, text] = Self::demands(demand);
        Some(ModelConfig::VisionLanguage(Self {
            image: Box::new(self.image.under(&image)),
            text: Box::new(self.text.under(&text)),
            ..self.clone()
        }))
    }

    fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
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

    fn item(&self) -> ItemOf {
        ItemOf::Image
    }

    fn parts(&self) -> Option<Parts<'_>> {
        Some(Parts {
            networks: [("image", &self.image), (TEXT, &self.text)],
            demands: Self::demands,
        })
    }

    fn closed_gate(&self) -> Option<&'static str> {
        (self.cross_attention.gate == Gate::Tanh).then_some("model.cross.0.attention_gate")
    }

    fn unused_between(&self) -> usize {
        let decoder = self.decoder();
        decoder.map_or(0, |text| self.cross_attention.unused(text))
    }

    fn activations_between(&self, shape: &Shape, recompute: bool) -> u128 {
        let (width, read) = (self.image.d_output(), self.image.sequence(shape));
        let resampled = self.resampler.as_ref().map_or(0, |c| c.kept(width, read));
        let crossed = self.decoder().map_or(0, |decoder| {
            self.cross_attention
                .kept(decoder, [shape.context, self.looked_at(shape)])
        });
        let of_images = self.image.facts().activations_between(shape, recompute);
        resampled.saturating_add(crossed).saturating_add(of_images)
    }
}

impl VisionLanguageConfig {
    /// Splits a demand on the whole model into the demands on the image network and the decoder.
    pub fn demands(demand: &Demand) -> [Demand; 2] {
        let of = |used_for| Demand {
            smooths: demand.smooths,
            context: demand.context,
            image: demand.image,
            ..Demand::of(used_for)
        };
        [of(Use::ImageClasses), of(Use::NextTokens)]
    }

    /// Number of an image's vectors that the decoder attends to.
    fn looked_at(&self, shape: &Shape) -> usize {
        let of_image = self.image.sequence(shape);
        self.resampler.as_ref().map_or(of_image, |c| c.n_latents)
    }
}
