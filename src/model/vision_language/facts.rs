//! The network facts of a decoder that reads images.

use super::config::{RESAMPLER, TEXT};
use super::cross::Gate;
use super::{KIND, VisionLanguageConfig};
use crate::data::Shape;
use crate::faults::TableFaults;
use crate::model::facts::{NetworkFacts, Parts};
use crate::model::{Demand, ModelConfig, ThroughputUnit, Use};
use crate::nn::Kind;
use crate::nn::init::InitSettings;
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
        let [of_images, _] = Self::split_demand(demand);
        if !self.image.uses().contains(&of_images.used_for) {
            let rule = format!(
                "kind = \"{}\" does not read images; use \"vision\", \"resnet\" or \"swin\"",
                self.image.kind()
            );
            at.fault(&["model.image.kind", "image"], rule);
        }
        if self.image.has_distillation_token() {
            let rule = "distillation_token = true has no effect: this network does not learn from a teacher; remove it";
            at.fault(&["model.image.distillation_token"], rule);
        }
        if let Some(pooling) = self.image.learned_pooling() {
            let rule = format!(
                "pooling = \"{pooling}\" has no effect: this network attends to each patch and does not pool; use \"mean\""
            );
            at.fault(&["model.image.pooling"], rule);
        }
        if let Some(resampler) = &self.resampler {
            let width = self.image.d_output();
            at.nested(RESAMPLER, |at| resampler.faults(width, at));
        }
        let Some(decoder) = self.decoder() else {
            let rule = format!(
                "kind = \"{}\" has no decoder blocks that can attend to an image; use \"decoder\"",
                self.text.kind()
            );
            at.fault(&["model.text.kind", TEXT], rule);
            return demand.context;
        };
        if decoder.stack.reversible.is_some() {
            let rule = format!(
                "reversible has two streams, but the blocks of kind = \"{}\" that attend to an image support only one; remove it",
                KIND.kind
            );
            at.fault(&["model.text.reversible"], rule);
        }
        at.nested("cross_attention", |at| {
            self.cross_attention.faults(decoder, at)
        });
        demand.context
    }

    fn init_settings(&self) -> InitSettings {
        self.text.init_settings()
    }

    fn vocabulary(&self) -> Option<&VocabularyConfig> {
        self.text.facts().vocabulary()
    }

    fn restricted_to(&self, demand: &Demand) -> Option<ModelConfig> {
        let [image, text] = Self::split_demand(demand);
        Some(ModelConfig::VisionLanguage(Self {
            image: Box::new(self.image.restricted_to(&image)),
            text: Box::new(self.text.restricted_to(&text)),
            ..self.clone()
        }))
    }

    fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        let [of_images, of_texts] = Self::split_demand(demand);
        let (width, read) = (self.image.d_output(), self.image.image_vectors(shape));
        let own = self.image.products(&of_images, shape) + self.text.products(&of_texts, shape);
        let resampler = self.resampler.as_ref();
        let resampled = resampler.map_or(0, |c| c.products(width, read));
        let crossed = self.decoder().map_or(0, |decoder| {
            self.cross_attention.products(
                decoder,
                width,
                [shape.context, self.attended_vectors(shape)],
            )
        });
        own + (resampled + crossed) as f64
    }

    fn throughput_unit(&self) -> ThroughputUnit {
        ThroughputUnit::Image
    }

    fn parts(&self) -> Option<Parts<'_>> {
        Some(Parts {
            networks: [("image", &self.image), (TEXT, &self.text)],
            demands: Self::split_demand,
        })
    }

    fn closed_gate(&self) -> Option<&'static str> {
        (self.cross_attention.gate == Gate::Tanh).then_some("model.cross.0.attention_gate")
    }

    fn inactive_parameters_between(&self) -> usize {
        let decoder = self.decoder();
        decoder.map_or(0, |text| self.cross_attention.inactive_parameters(text))
    }

    fn activations_between(&self, shape: &Shape, recompute: bool) -> u128 {
        let (width, read) = (self.image.d_output(), self.image.image_vectors(shape));
        let resampled = self
            .resampler
            .as_ref()
            .map_or(0, |c| c.activations(width, read));
        let crossed = self.decoder().map_or(0, |decoder| {
            self.cross_attention
                .activations(decoder, [shape.context, self.attended_vectors(shape)])
        });
        let of_images = self.image.facts().activations_between(shape, recompute);
        resampled.saturating_add(crossed).saturating_add(of_images)
    }
}

impl VisionLanguageConfig {
    /// Splits a demand on the whole model into the demands on the image network and the decoder.
    pub fn split_demand(demand: &Demand) -> [Demand; 2] {
        let of = |used_for| Demand {
            smooths_labels: demand.smooths_labels,
            context: demand.context,
            image: demand.image,
            ..Demand::plain(used_for)
        };
        [of(Use::ImageClasses), of(Use::NextTokens)]
    }

    /// Number of an image's vectors that the decoder attends to.
    fn attended_vectors(&self, shape: &Shape) -> usize {
        let of_image = self.image.image_vectors(shape);
        self.resampler.as_ref().map_or(of_image, |c| c.n_latents)
    }
}
