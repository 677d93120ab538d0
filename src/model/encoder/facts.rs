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
                "mup knows no embeddings of a width of their own; leave d_embedding or mup out";
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
                "the head is the embeddings' table, {width} wide by d_embedding, and nothing makes hidden states as wide: \
                 set head_transform = true or tie_embeddings = false"
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
                "segments = {segments} cannot tell the two segments of [task] pairs apart; set 2"
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
            None => Some("a mixer in the place of attention".to_owned()),
        });
        if let Some(other) = other {
            let rule = format!(
                "[task] kind = \"permuted_lm\" hides keys by an order that it draws, and {other} has keys of its own choice; use \
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
                    "{key} cannot stand beside the stream of queries of [task] kind = \"permuted_lm\"; leave it out"
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
            let rule = "dropout_after_projection = true has no effect without a projection; set d_embedding or leave it out";
            at.fault(&["dropout_after_projection"], rule);
        }
        if demand.generator.is_some() {
            let rule = "a generator reads vectors of tokens in front of the projection, where dropout_after_projection = true drops \
                        nothing; leave it out";
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
                let rule = format!(
                    "{key} has no effect without a pooler; set pooler = true or leave it out"
                );
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
            let rule =
                format!("{given_input} reads {reads}, and the task the first one; leave one out");
            at.fault(&["pooler_input", "task.pooling", "task.pairs"], rule);
        }
        if self.pooler_norm && self.stack.norm.is_none() {
            let rule = "pooler_norm = true has no effect: norm is \"none\"";
            at.fault(&["pooler_norm", "model.norm.kind"], rule);
        }
        if !self.head_transform_bias && !self.head_transform && !self.token_transform {
            let rule = "head_transform_bias = false has no effect without a transform; set head_transform = true or leave it out";
            at.fault(&["head_transform_bias", "head_transform"], rule);
        }
    }
}
