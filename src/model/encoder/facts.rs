//! The network facts of an encoder.

use super::config::MAX_SEGMENTS;
use super::pooler::PoolerInput;
use super::{EncoderConfig, KIND, USES};
use crate::data::Shape;
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::model::facts::NetworkFacts;
use crate::model::heads::MlmHead;
use crate::model::{Demand, ModelConfig, PooledText, Transformer, Use};
use crate::nn::Kind;

impl NetworkFacts for EncoderConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.stack.d_model
    }

    fn d_output(&self) -> usize {
        self.d_pooled()
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        let segments = self.segments;
        if segments > MAX_SEGMENTS {
            let rule = format!("segments = {segments} is more than {MAX_SEGMENTS}");
            at.fault(&["segments"], rule);
        }
        self.pooler_faults(demand, at);
        if self.d_embedding.is_some() && self.stack.mup.is_some() {
            let rule =
                "mup does not support embeddings with a separate width; remove d_embedding or mup";
            at.fault(&["d_embedding", "mup"], rule);
        }
        self.projection_dropout_faults(demand, at);
        if !USES.contains(&demand.used_for) {
            return demand.context;
        }
        at.count("d_embedding", self.d_embedding.unwrap_or(1), MAX_WIDTH);
        let untransformed = self.tie_embeddings && !self.head_transform;
        if demand.used_for == Use::MaskedTokens && untransformed {
            MlmHead::width_faults(self, at);
        }
        if let (Some(width), Use::MaskedTokens, true) =
            (self.d_embedding, demand.used_for, untransformed)
        {
            let rule = format!(
                "the head is the embedding table, whose vectors have d_embedding = {width} elements, and no layer projects hidden \
                 states to this width: set head_transform = true or tie_embeddings = false"
            );
            at.fault(&["d_embedding", "head_transform", "tie_embeddings"], rule);
        }
        let d = self.stack.d_model;
        let narrow = |e| self.stack.position.facts().embedding_width_fault(e, d);
        if let Some(rule) = self.d_embedding.and_then(narrow) {
            at.fault(&["d_embedding", "model.position.axial_widths"], rule);
        }
        if let Some(decoder) = &self.mask_decoder {
            at.nested("mask_decoder", |at| decoder.faults(self, demand, at));
        }
        if let Some(generator) = &demand.generator {
            generator.faults(self, at);
        }
        if demand.has_query_stream {
            self.stream_faults(at);
        }
        if demand.segments && segments.max(self.stack.position.facts().segments()) < 2 {
            let rule = format!(
                "segments = {segments} cannot distinguish the two segments of [task] pairs; set segments = 2"
            );
            at.fault(&["segments", "task.pairs"], rule);
        }
        demand.context
    }

    /// Removes a pooler, mask decoder or token transform that is not read, since its parameters would not learn.
    fn restricted_to(&self, demand: &Demand) -> Option<ModelConfig> {
        let mut without = self.with_pooler_if(demand.pooled_text != PooledText::Unused);
        if demand.used_for != Use::MaskedTokens {
            without.mask_decoder = None;
        }
        let of_tokens = matches!(demand.used_for, Use::TokenClasses | Use::Spans);
        without.token_transform = self.token_transform && of_tokens;
        Some(ModelConfig::Encoder(without))
    }

    /// With a query stream, the text's stream goes through all blocks except the last one, in addition.
    fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        let (tokens, depth) = (shape.context, self.depth());
        let again = match demand.has_query_stream {
            true => 1..depth.blocks().max(1),
            false => 0..0,
        };
        let again = self.stack.products_of_blocks(again, &depth, tokens, 0);
        (self.text_products(tokens) + again) as f64
    }

    fn reads_segments(&self) -> bool {
        true
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
    /// Returns the encoder for a task that reads its pooled vector of a text, or for one that does not, and without a token
    /// transform: parts that are not read have parameters that do not learn.
    #[must_use]
    pub fn with_pooler_if(&self, read: bool) -> Self {
        let usual = Self::default();
        Self {
            pooler: self.pooler && read,
            pooler_activation: self.pooler_activation.filter(|_| read),
            pooler_bias: self.pooler_bias || !read,
            pooler_norm: self.pooler_norm && read,
            pooler_input: if read {
                self.pooler_input
            } else {
                usual.pooler_input
            },
            token_transform: false,
            ..self.clone()
        }
    }

    /// Checks blocks for a query stream beside the text's stream.
    fn stream_faults(&self, at: &mut TableFaults) {
        let depth = self.depth();
        let mut blocks = (0..depth.blocks()).map(|block| self.stack.block(&depth, block));
        let other = blocks.find_map(|block| match block.attention {
            Some(attention) if attention.facts().sees_every_visible_key() => None,
            Some(attention) => Some(format!("attention of kind = \"{}\"", attention.kind())),
            None => Some("a mixer instead of attention".to_owned()),
        });
        if let Some(other) = other {
            let rule = format!(
                "[task] kind = \"permuted_lm\" hides keys according to a random order, but {other} chooses its own keys; use \
                 multi_head in all blocks"
            );
            at.fault(&["model.attention.kind", "model.layers", "task.kind"], rule);
        }
        for (key, given) in [
            ("mask_decoder", self.mask_decoder.is_some()),
            ("reversible", self.stack.reversible.is_some()),
        ] {
            if given {
                let rule = format!(
                    "{key} cannot be combined with the query stream of [task] kind = \"permuted_lm\"; remove it"
                );
                at.fault(&[key, "task.kind"], rule);
            }
        }
    }

    /// Checks dropout after the projection.
    fn projection_dropout_faults(&self, demand: &Demand, at: &mut TableFaults) {
        if !self.dropout_after_projection {
            return;
        }
        if self.d_embedding.is_none() {
            let rule = "dropout_after_projection = true has no effect without a projection; set d_embedding or remove it";
            at.fault(&["dropout_after_projection"], rule);
        }
        if demand.generator.is_some() {
            let rule = "a generator reads token vectors before the projection, where dropout_after_projection = true has no \
                        effect; remove it";
            at.fault(&["dropout_after_projection", "task.kind"], rule);
        }
    }

    /// Checks the pooler and the transform before token-level heads.
    fn pooler_faults(&self, demand: &Demand, at: &mut TableFaults) {
        let (first, named) = (
            self.pooler_input == PoolerInput::First,
            self.pooler_input.name(),
        );
        let given_input = format!("pooler_input = \"{named}\"");
        for (key, given) in [
            ("pooler_activation", self.pooler_activation.is_some()),
            ("pooler_bias = false", !self.pooler_bias),
            ("pooler_norm = true", self.pooler_norm),
            (given_input.as_str(), !first),
        ] {
            if given && !self.pooler {
                let rule =
                    format!("{key} has no effect without a pooler; set pooler = true or remove it");
                let name = key.split(' ').next().unwrap_or(key);
                at.fault(&[name, "pooler"], rule);
            }
        }
        let pairs =
            demand.used_for == Use::MaskedTokens && demand.pooled_text != PooledText::Unused;
        if !first && (pairs || demand.pooled_text == PooledText::FirstPosition) {
            let reads = match self.pooler_input {
                PoolerInput::Last => "the last position",
                PoolerInput::First | PoolerInput::Mean => "all positions",
            };
            let rule = format!(
                "{given_input} reads {reads}, but [task] pairs and [task] pooling = \"first\" read the first position; remove one \
                 of these keys"
            );
            at.fault(&["pooler_input", "task.pooling", "task.pairs"], rule);
        }
        if self.pooler_norm && self.stack.norm.is_none() {
            let rule = "pooler_norm = true has no effect: norm is \"none\"; remove it";
            at.fault(&["pooler_norm", "model.norm.kind"], rule);
        }
        if !self.head_transform_bias && !self.head_transform && !self.token_transform {
            let rule = "head_transform_bias = false has no effect without a transform; set head_transform = true or remove it";
            at.fault(&["head_transform_bias", "head_transform"], rule);
        }
    }
}
