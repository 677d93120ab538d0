//! The network facts of two towers.

use super::{KIND, MAX_SCALE, TEXT, TwoTowersConfig, sigmoid};
use crate::data::Shape;
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::model::demand::kinds_serving;
use crate::model::facts::{NetworkFacts, Parts};
use crate::model::{DecoderConfig, Demand, EncoderConfig, ModelConfig, ThroughputUnit, Use};
use crate::nn::Kind;
use crate::nn::init::InitSettings;
use crate::nn::vocabulary::VocabularyConfig;

impl NetworkFacts for TwoTowersConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.image.d_model()
    }

    fn d_output(&self) -> usize {
        self.d_joint
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        for ((key, tower), demand) in self.towers().into_iter().zip(Self::split_demand(demand)) {
            if tower.uses().contains(&demand.used_for) {
                continue;
            }
            let serving = kinds_serving(demand.used_for);
            let serving: Vec<String> = serving.iter().map(|kind| format!("\"{kind}\"")).collect();
            let rule = format!(
                "kind = \"{}\" does not read {key}s; use {}",
                tower.kind(),
                join_with_or(&serving)
            );
            at.fault(&[&format!("model.{key}.kind"), key], rule);
        }
        if self.image.has_distillation_token() {
            let rule = "distillation_token = true has no effect: two towers do not learn from a teacher; remove it";
            at.fault(&["model.image.distillation_token"], rule);
        }
        if let ModelConfig::Decoder(c) = self.text.as_ref()
            && let Some(cap) = c.head_softcap
        {
            let rule = format!(
                "head_softcap = {cap:?} has no effect: two towers predict no tokens; remove it"
            );
            at.fault(&["model.text.head_softcap"], rule);
        }
        for (key, value, usual) in self.head_keys() {
            if value != usual {
                let rule = format!(
                    "{key} = {value} has no effect: two towers predict no tokens; remove it"
                );
                at.fault(&[&format!("model.text.{key}")], rule);
            }
        }
        at.count("d_joint", self.d_joint, MAX_WIDTH);
        let width = self.image.d_pooled();
        if !self.image_projection && self.d_joint != width {
            let rule = format!(
                "d_joint = {} differs from the width of image vectors, which image_projection = false leaves unprojected: set \
                 d_joint = {width}",
                self.d_joint
            );
            at.fault(&["d_joint", "image_projection"], rule);
        }
        let least = 1.0 / f64::from(MAX_SCALE);
        let temperature = self.temperature;
        if !(least..=f64::MAX).contains(&temperature) {
            let rule = format!("temperature = {temperature:?} must be at least {least}");
            at.fault(&["temperature"], rule);
        }
        sigmoid::faults(self.logit_bias, demand.has_score_bias, at);
        demand.context
    }

    fn init_settings(&self) -> InitSettings {
        self.image.init_settings()
    }

    fn vocabulary(&self) -> Option<&VocabularyConfig> {
        self.text.facts().vocabulary()
    }

    fn restricted_to(&self, demand: &Demand) -> Option<ModelConfig> {
        let [image, text] = Self::split_demand(demand);
        Some(ModelConfig::TwoTowers(Self {
            image: Box::new(self.image.restricted_to(&image)),
            text: Box::new(self.text.restricted_to(&text)),
            logit_bias: sigmoid::initial_bias(self.logit_bias, demand.has_score_bias),
            ..self.clone()
        }))
    }

    fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        // Neither tower has a head, independent of the demand.
        let demand = &Demand {
            used_for: Use::ImageText,
            ..*demand
        };
        let towers = self
            .towers()
            .map(|(_, tower)| tower.products(demand, shape));
        let of_images = match self.image_projection {
            true => self.image.d_pooled(),
            false => 0,
        };
        let projected = (of_images + self.text.d_pooled() + 1) * self.d_joint;
        towers.iter().sum::<f64>() + projected as f64
    }

    fn throughput_unit(&self) -> ThroughputUnit {
        ThroughputUnit::Image
    }

    fn activations_between(&self, shape: &Shape, recompute: bool) -> u128 {
        self.image.facts().activations_between(shape, recompute)
    }

    fn parts(&self) -> Option<Parts<'_>> {
        Some(Parts {
            networks: self.towers(),
            demands: Self::split_demand,
        })
    }
}

impl TwoTowersConfig {
    /// Both towers with the keys that hold them.
    pub fn towers(&self) -> [(&'static str, &ModelConfig); 2] {
        [("image", &self.image), (TEXT, &self.text)]
    }

    /// Splits a demand on the whole model into the demands on both towers.
    pub fn split_demand(demand: &Demand) -> [Demand; 2] {
        let of = |used_for| Demand {
            pooled_text: demand.pooled_text,
            context: demand.context,
            image: demand.image,
            ..Demand::plain(used_for)
        };
        [of(Use::ImageClasses), of(Use::TextEmbeddings)]
    }

    /// Keys of the text tower that configure its LM head, each with its value and default.
    fn head_keys(&self) -> Vec<(&'static str, bool, bool)> {
        match self.text.as_ref() {
            ModelConfig::Decoder(c) => {
                let usual = DecoderConfig::default();
                vec![
                    ("tie_embeddings", c.tie_embeddings, usual.tie_embeddings),
                    ("head_bias", c.head_bias, usual.head_bias),
                    ("head_scale", c.head_scale, usual.head_scale),
                ]
            }
            ModelConfig::Encoder(c) => {
                let usual = EncoderConfig::default();
                vec![
                    ("tie_embeddings", c.tie_embeddings, usual.tie_embeddings),
                    ("head_transform", c.head_transform, usual.head_transform),
                    ("head_bias", c.head_bias, usual.head_bias),
                ]
            }
            // Other kinds report these keys themselves, or do not serve.
            _ => Vec::new(),
        }
    }
}

/// Joins words as "a, b or c".
fn join_with_or(all: &[String]) -> String {
    match all {
        [before @ .., second, last] => {
            let before: String = before.iter().map(|one| format!("{one}, ")).collect();
            format!("{before}{second} or {last}")
        }
        all => all.concat(),
    }
}
