//! The network facts of a recurrent network.

use super::config::MAX_LAYERS;
use super::{KIND, RecurrentModelConfig};
use crate::data::Shape;
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::model::demand::{head_faults, inner_layer_faults};
use crate::model::facts::NetworkFacts;
use crate::model::{Demand, PooledText, Use};
use crate::nn::Kind;
use crate::nn::init::InitSettings;
use crate::nn::vocabulary::VocabularyConfig;

impl NetworkFacts for RecurrentModelConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.d_model
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        at.count("n_layers", self.n_layers, MAX_LAYERS);
        at.count("d_model", self.d_model, MAX_WIDTH);
        at.probability("dropout", self.dropout);
        inner_layer_faults(demand, self.n_layers, at);
        at.nested("cell", |at| self.cell.faults(at));
        at.nested("init", |at| self.init.faults(at));
        let idle = |given: Option<bool>, key: &str, why: &str, at: &mut TableFaults| {
            if let Some(given) = given {
                let rule = format!("{key} = {given} has no effect: {why}; remove it");
                at.fault(&[key], rule);
            }
        };
        if demand.used_for != Use::TextToText {
            let why = "the task has no separate source text";
            idle(self.share_embeddings, "share_embeddings", why, at);
        } else if self.shares_embedding() && demand.two_vocabularies {
            at.fault(
                &["share_embeddings", "data.separate_vocabularies"],
                "source and target share one embedding table unless share_embeddings = false; set it, or remove [data] \
                 separate_vocabularies",
            );
        }
        let bias = self.head_bias.then_some(true);
        if !demand.used_for.scores_tokens() {
            let why = "the task predicts no tokens";
            idle(self.tie_embeddings, "tie_embeddings", why, at);
            idle(bias, "head_bias", why, at);
            if !self.vocabulary.is_full() {
                let rule = format!("vocabulary = \"adaptive\" has no effect: {why}; remove it");
                at.fault(&["vocabulary"], rule);
            }
        } else {
            head_faults(&self.vocabulary, self.head_bias, self.ties_embeddings(), at);
            self.vocabulary
                .faults(self.d_model, demand.smooths_labels, self.head_bias, at);
        }
        if demand.bidirectional_source {
            at.fault(
                &["task.bidirectional_source", "model.kind"],
                "bidirectional_source = true is only for decoders, and a recurrent network has an encoder; remove it",
            );
        }
        if demand.pooled_text == PooledText::FirstPosition {
            at.fault(
                &["task.pooling", "model.kind"],
                "pooling = \"first\" needs an encoder: the first position of recurrent cells has read only one token; remove it \
                 for the last position, or use \"mean\"",
            );
        }
        demand.context
    }

    fn init_settings(&self) -> InitSettings {
        InitSettings::from(&self.init)
    }

    fn vocabulary(&self) -> Option<&VocabularyConfig> {
        Some(&self.vocabulary)
    }

    fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        let tokens = shape.context;
        let sides = [tokens, demand.max_generated.unwrap_or(tokens)];
        self.text_products(demand.used_for, shape.vocab_size, sides) as f64
    }

    fn recurrent_config(&self) -> Option<&RecurrentModelConfig> {
        Some(self)
    }

    fn activations_per_token(&self) -> Option<u128> {
        let input = self.d_model as u128;
        let layer = input + self.cell.activations(self.d_model);
        Some((self.n_layers as u128).saturating_mul(layer))
    }
}
