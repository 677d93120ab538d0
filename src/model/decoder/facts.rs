//! The network facts of a decoder.

use super::{DecoderConfig, KIND};
use crate::data::Shape;
use crate::faults::TableFaults;
use crate::model::demand::{head_faults, inner_layer_faults};
use crate::model::facts::NetworkFacts;
use crate::model::{Demand, ModelConfig, PooledText, RetrievalConfig, Transformer, Use};
use crate::nn::Kind;
use crate::nn::vocabulary::VocabularyConfig;
use crate::stack::mup;

impl NetworkFacts for DecoderConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.stack.d_model
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        if let Some(retrieval) = &self.retrieval {
            at.nested("retrieval", |at| retrieval.faults(self, demand, at));
        }
        let switches = [
            ("embedding_scale", self.embedding_scale),
            ("head_scale", self.head_scale),
        ];
        mup::switch_faults(self.stack.mup, &switches, at);
        if !demand.used_for.scores_tokens() {
            self.reader_faults(demand, at);
            return demand.context;
        }
        head_faults(&self.vocabulary, self.head_bias, self.tie_embeddings, at);
        let d_model = self.stack.d_model;
        self.vocabulary
            .faults(d_model, demand.smooths_labels, self.head_bias, at);
        self.softcap_faults(at);
        inner_layer_faults(demand, self.n_layers(), at);
        self.width_faults(at);
        if demand.used_for != Use::TextToText {
            return demand.context;
        }
        if demand.two_vocabularies {
            at.fault(
                &["data.separate_vocabularies", "model.kind"],
                "separate_vocabularies = true needs a model with two vocabularies, and a decoder has one; remove it, or set \
                 [model] kind = \"encoder_decoder\"",
            );
        }
        // Source and target share one row.
        demand.context.map(|context| 2 * context)
    }

    fn vocabulary(&self) -> Option<&VocabularyConfig> {
        Some(&self.vocabulary)
    }

    /// A network that only reads texts has no LM head.
    fn restricted_to(&self, demand: &Demand) -> Option<ModelConfig> {
        (!demand.used_for.scores_tokens()).then(|| {
            ModelConfig::Decoder(Self {
                tie_embeddings: true,
                head_bias: false,
                head_scale: false,
                head_softcap: None,
                ..self.clone()
            })
        })
    }

    fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        let tokens = shape.context;
        let (row, scored) = match demand.used_for {
            Use::TextToText => {
                let written = demand.max_generated.unwrap_or(tokens);
                (tokens.saturating_add(written), written)
            }
            used_for if used_for.scores_tokens() => (tokens, tokens),
            _ => (tokens, 0),
        };
        self.row_products(shape.vocab_size, row, scored) as f64
    }

    fn transformer(&self) -> Option<Transformer<'_>> {
        Some(Transformer {
            stack: &self.stack,
            stacks: [Some(self.depth()), None],
            embedding_norm: self.embedding_norm,
        })
    }

    fn retrieval(&self) -> Option<&RetrievalConfig> {
        self.retrieval.as_ref()
    }

    fn neighbour_activations_per_token(&self) -> u128 {
        self.retrieval
            .as_ref()
            .map_or(0, |r| r.activations_per_token(self))
    }
}

impl DecoderConfig {
    /// Checks the keys of a network that reads texts and predicts no tokens.
    fn reader_faults(&self, demand: &Demand, at: &mut TableFaults) {
        if demand.pooled_text == PooledText::FirstPosition {
            let rule = "pooling = \"first\" needs an encoder: the first position of a decoder has read only one token; use \
                        \"last\" or \"mean\"";
            at.fault(&["task.pooling", "model.kind"], rule);
        }
        let d_model = self.stack.d_model;
        self.vocabulary.faults(d_model, false, self.head_bias, at);
    }

    fn softcap_faults(&self, at: &mut TableFaults) {
        let Some(cap) = self.head_softcap else {
            return;
        };
        at.positive("head_softcap", cap);
        if !self.vocabulary.is_full() {
            let rule = "head_softcap has no effect with vocabulary = \"adaptive\", which computes probabilities by cluster; \
                        remove it";
            at.fault(&["head_softcap", "model.vocabulary.kind"], rule);
        }
    }

    /// Reports a head that must read the concatenated streams of a reversible stack, which are wider than the embeddings.
    fn width_faults(&self, at: &mut TableFaults) {
        let (read, own) = (self.stack.d_output(), self.stack.d_model);
        if read == own {
            return;
        }
        let remedy = if !self.vocabulary.is_full() {
            "set vocabulary = { kind = \"full\" } with tie_embeddings = false"
        } else if self.tie_embeddings {
            "set tie_embeddings = false"
        } else {
            return;
        };
        at.fault(
            &["model.reversible.join", "tie_embeddings", "model.vocabulary.kind"],
            format!(
                "join = \"concatenation\" produces hidden states of {read} elements, but the embeddings that score tokens have \
                 {own}: {remedy}, or join = \"mean\""
            ),
        );
    }
}
