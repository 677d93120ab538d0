//! The network facts of an encoder-decoder that reads audio.

use super::{KIND, SpeechEncoderDecoderConfig};
use crate::data::{Shape, SpeechShape};
use crate::faults::TableFaults;
use crate::model::facts::NetworkFacts;
use crate::model::{Demand, ModelConfig, ThroughputUnit, Transformer};
use crate::nn::Kind;
use crate::nn::position::{ActsOn, KnownSizes};
use crate::nn::vocabulary::VocabularyConfig;
use crate::stack::{BlockConfig, mup};

/// The position schemes that the encoder may have separately from the decoder.
const ENCODER_SCHEMES: &str = "\"sinusoidal\", \"learned\" or \"none\"";

impl NetworkFacts for SpeechEncoderDecoderConfig {
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
        let switches = [("embedding_scale", self.embedding_scale)];
        mup::switch_faults(self.stack.mup, &switches, at);
        if self.stack.mup.is_some() {
            let rule = "mup has no rule for how the convolutions of a stem scale with the width; remove it";
            at.fault(&["model.mup", "model.kind"], rule);
        }
        at.nested("stem", |at| self.stem.faults(at));
        if demand.speech.is_some_and(|speech| speech.n_mels == 0) {
            let rule = "n_mels = 0 produces samples, but the model reads log-mel features; set n_mels = 80";
            at.fault(&["data.n_mels", "model.kind"], rule);
        }
        let read = demand.speech.map(|speech| self.clip_positions(speech));
        self.position_faults(read, at);
        demand.context
    }

    fn vocabulary(&self) -> Option<&VocabularyConfig> {
        Some(&self.vocabulary)
    }

    fn products(&self, _demand: &Demand, shape: &Shape) -> f64 {
        let speech = shape.speech.unwrap_or_default();
        self.clip_products(shape.vocab_size, speech, shape.context) as f64
    }

    fn throughput_unit(&self) -> ThroughputUnit {
        ThroughputUnit::Recording
    }

    fn transformer(&self) -> Option<Transformer<'_>> {
        Some(Transformer {
            stack: &self.stack,
            stacks: [Some(self.encoder_depth()), Some(self.decoder_depth())],
            embedding_norm: self.embedding_norm,
        })
    }

    fn encoder_positions(&self, speech: SpeechShape) -> Option<usize> {
        Some(self.clip_positions(speech))
    }

    /// Counts the encoder's positions beyond a text's length; the others are counted with the blocks of both stacks.
    fn activations_between(&self, shape: &Shape, recompute: bool) -> u128 {
        let speech = shape.speech.unwrap_or_default();
        let (d_model, width) = (self.stack.d_model, self.stack.d_model as u128);
        let more = self.clip_positions(speech).saturating_sub(shape.context) as u128;
        let depth = self.encoder_depth();
        let blocks = self.stack.blocks(&depth);
        let of_block = |block: BlockConfig| match recompute {
            true => width,
            false => {
                let attention = block.attention.map_or(0, |a| a.kept(d_model));
                6 * width + attention + block.feed_forward.map_or(0, |f| f.activations(d_model))
            }
        };
        let each = blocks.map(of_block).fold(0, u128::saturating_add);
        let stem = self.stem.activations(speech, d_model);
        more.saturating_mul(each).saturating_add(stem)
    }
}

impl SpeechEncoderDecoderConfig {
    /// Checks the encoder's positions, for audio clips of `read` positions if that is known.
    fn position_faults(&self, read: Option<usize>, at: &mut TableFaults) {
        let Some(own) = &self.encoder_position else {
            return self.shared_position_faults(read, at);
        };
        let facts = own.facts();
        let kind = facts.kind().kind;
        if *own == self.stack.position {
            let rule = "encoder_position has no effect: it equals the model's position; remove it";
            at.fault(&["encoder_position", "model.position.kind"], rule);
        } else if facts.acts_on() != ActsOn::Embeddings || facts.text_counterpart().is_some() {
            let rule = format!(
                "encoder_position = {{ kind = \"{kind}\" }} cannot be the scheme of the encoder alone; use {ENCODER_SCHEMES}, or \
                 set it as the position of both stacks and remove encoder_position"
            );
            at.fault(&["model.encoder_position.kind", "encoder_position"], rule);
        } else {
            let known = KnownSizes {
                d_model: Some(self.stack.d_model),
                context: read,
                ..KnownSizes::default()
            };
            at.nested("encoder_position", |at| facts.faults(&known, at));
        }
    }

    /// Reports a table of learned positions that is long enough for texts but too short for audio.
    fn shared_position_faults(&self, read: Option<usize>, at: &mut TableFaults) {
        let Some(learned) = self.stack.position.learned() else {
            return;
        };
        let Some((rows, read)) = learned.max_len.zip(read) else {
            return;
        };
        let longest = rows.saturating_sub(learned.first);
        if read > longest {
            let rule = format!(
                "max_len = {rows} has rows for {longest} positions, but a recording has {read}; remove it to follow the data, or \
                 give the encoder its own positions: encoder_position = {{ kind = \"sinusoidal\", layout = \"halves\", endpoint = \
                 true }}"
            );
            at.fault(&["model.position.max_len", "model.position"], rule);
        }
    }
}

impl From<SpeechEncoderDecoderConfig> for ModelConfig {
    fn from(config: SpeechEncoderDecoderConfig) -> Self {
        Self::SpeechEncoderDecoder(config)
    }
}
