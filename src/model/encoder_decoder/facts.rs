//! The network facts of an encoder-decoder.

use super::{EncoderDecoderConfig, KIND};
use crate::data::Shape;
use crate::faults::TableFaults;
use crate::model::facts::NetworkFacts;
use crate::model::{Demand, ThroughputUnit, Transformer};
use crate::nn::Kind;
use crate::nn::vocabulary::VocabularyConfig;
use crate::stack::mup;

impl NetworkFacts for EncoderDecoderConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.stack.d_model
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        let d_model = self.stack.d_model;
        self.vocabulary
            .faults(d_model, demand.smooths_labels, self.head_bias, at);
        let switches = [
            ("embedding_scale", self.embedding_scale),
            ("head_scale", self.head_scale),
        ];
        mup::switch_faults(self.stack.mup, &switches, at);
        if self.share_embeddings && demand.two_vocabularies {
            at.fault(
                &["share_embeddings", "data.separate_vocabularies"],
                "share_embeddings = true needs one vocabulary; set it to false, or remove [data] separate_vocabularies",
            );
        }
        self.target_faults(demand, at);
        if demand.bidirectional_source {
            at.fault(
                &["task.bidirectional_source"],
                "bidirectional_source = true has no effect: an encoder always sees the whole source; remove it",
            );
        }
        demand.context
    }

    fn vocabulary(&self) -> Option<&VocabularyConfig> {
        Some(&self.vocabulary)
    }

    fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        let tokens = shape.context;
        let sides = [tokens, demand.max_generated.unwrap_or(tokens)];
        self.pair_products(shape.vocab_size, sides) as f64
    }

    fn throughput_unit(&self) -> ThroughputUnit {
        ThroughputUnit::Pair
    }

    fn transformer(&self) -> Option<Transformer<'_>> {
        Some(Transformer {
            stack: &self.stack,
            stacks: [Some(self.encoder_depth()), Some(self.decoder_depth())],
            embedding_norm: self.embedding_norm,
        })
    }
}
