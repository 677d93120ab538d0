//! The answers of an encoder as a network.

use super::config::MOST_SEGMENTS;
use super::{EncoderConfig, KIND, USES};
use crate::data::Shape;
use crate::faults::{TableFaults, WIDEST};
use crate::model::facts::NetworkFacts;
use crate::model::heads::MlmHead;
use crate::model::{Demand, ModelConfig, Transformer, Use, WholeText};
use crate::nn::Kind;

impl NetworkFacts for EncoderConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.stack.d_model
    }

    fn d_output(&self) -> usize {
        self.d_whole()
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        let segments = self.segments;
        if segments > MOST_SEGMENTS {
            let rule = format!("segments = {segments} is more than {MOST_SEGMENTS}");
            at.fault(&["segments"], rule);
        }
        if self.pooler_activation.is_some() && !self.pooler {
            let rule = "pooler_activation has no effect without a pooler; set pooler = true or leave it out";
            at.fault(&["pooler_activation", "pooler"], rule);
        }
        if !USES.contains(&demand.used_for) {
            return demand.context;
        }
        at.count("d_embedding", self.d_embedding.unwrap_or(1), WIDEST);
        let untransformed = self.tie_embeddings && !self.head_transform;
        if demand.used_for == Use::HiddenTokens && untransformed {
            MlmHead::width_faults(self, at);
        }
        if let (Some(width), Use::HiddenTokens, true) =
            (self.d_embedding, demand.used_for, untransformed)
        {
            let rule = format!(
                "the head is the embeddings' table, {width} wide by d_embedding, and nothing makes hidden states as wide: \
                 set head_transform = true or tie_embeddings = false"
            );
            at.fault(&["d_embedding", "head_transform", "tie_embeddings"], rule);
        }
        let d = self.stack.d_model;
        let narrow = |e| self.stack.position.facts().narrow_fault(e, d);
        if let Some(rule) = self.d_embedding.and_then(narrow) {
            at.fault(&["d_embedding", "model.position.axial_widths"], rule);
        }
        if let Some(decoder) = &self.mask_decoder {
            at.within("mask_decoder", |at| decoder.faults(self, demand, at));
        }
        if let Some(generator) = &demand.generator {
            generator.faults(self, at);
        }
        if demand.segments && segments < 2 {
            let rule = format!(
                "segments = {segments} cannot tell the two segments of [task] pairs apart; set 2"
            );
            at.fault(&["segments", "task.pairs"], rule);
        }
        demand.context
    }

    /// A pooler or a mask decoder that nothing reads has parameters that do not learn.
    fn under(&self, demand: &Demand) -> Option<ModelConfig> {
        let mut without = self.pooled_if(demand.whole_text != WholeText::NotRead);
        if demand.used_for != Use::HiddenTokens {
            without.mask_decoder = None;
        }
        Some(ModelConfig::Encoder(without))
    }

    fn products(&self, _: &Demand, shape: &Shape) -> f64 {
        self.text_products(shape.context) as f64
    }

    fn transformer(&self) -> Option<Transformer<'_>> {
        Some(Transformer {
            stack: &self.stack,
            stacks: [Some(self.depth()), None],
            embedding_norm: self.embedding_norm,
        })
    }
}

impl EncoderConfig {
    /// The same encoder for a task that reads a vector of the whole text from the first position, or for one that does
    /// not: a pooler that nothing reads has parameters that do not learn.
    #[must_use]
    pub fn pooled_if(&self, read: bool) -> Self {
        Self {
            pooler: self.pooler && read,
            pooler_activation: self.pooler_activation.filter(|_| read),
            ..self.clone()
        }
    }
}
