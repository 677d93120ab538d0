//! The network facts of an encoder of audio samples.

use super::masks::NO_MASKS;
use super::{KIND, SpeechEncoderConfig};
use crate::data::{Shape, SpeechShape};
use crate::faults::TableFaults;
use crate::model::facts::NetworkFacts;
use crate::model::{Demand, ModelConfig, ThroughputUnit, Transformer, Use};
use crate::nn::Kind;

impl NetworkFacts for SpeechEncoderConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.stack.d_model
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        if self.stack.mup.is_some() {
            let rule =
                "mup has no rule for how convolutions over samples scale with the width; remove it";
            at.fault(&["model.mup", "model.kind"], rule);
        }
        at.nested("features", |at| self.features.faults(at));
        if demand.used_for == Use::MaskedFrames && self.masks.time_share == 0.0 {
            at.fault(&["model.masks.time_share", "task.kind"], NO_MASKS);
        } else {
            at.nested("masks", |at| self.masks.faults(at));
        }
        if let Some(positions) = &self.convolutional_positions {
            at.nested("convolutional_positions", |at| {
                positions.faults(self.stack.d_model, at);
            });
        }
        at.probability("dropout_projection", self.dropout_projection);
        let speech = demand.speech.filter(|_| Self::serves(demand.used_for));
        if let Some(speech) = speech.filter(|speech| speech.n_mels > 0) {
            let rule = format!(
                "n_mels = {} produces log-mel features, but the model reads samples; set n_mels = 0",
                speech.n_mels
            );
            at.fault(&["data.n_mels", "data.kind", "model.kind"], rule);
            return None;
        }
        let shortest = self.features.min_samples();
        let samples = speech.and_then(SpeechShape::samples);
        if let Some(samples) = samples.filter(|samples| *samples < shortest) {
            let rule = format!(
                "a recording of {samples} samples ([data] seconds) is shorter than the {shortest} samples that the convolutions \
                 need for one frame; raise seconds"
            );
            at.fault(&["data.seconds", "model.features"], rule);
        }
        let frames = speech.map(|speech| self.max_positions(speech));
        let width = self.masks.time_width;
        let short = frames.filter(|frames| *frames < width && *frames > 0);
        if let Some(frames) = short.filter(|_| demand.used_for == Use::MaskedFrames) {
            let rule = format!(
                "time_width = {width} is more than the {frames} frames of the longest recording, so that no frame is masked; set \
                 time_width = {}, or raise data.seconds",
                frames.div_ceil(4)
            );
            at.fault(&["model.masks.time_width", "data.seconds"], rule);
        }
        frames
    }

    fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        let speech = shape.speech.unwrap_or_default();
        let scored = match demand.used_for == Use::MaskedFrames {
            true => 0,
            false => shape.vocab_size,
        };
        self.clip_products(scored, speech) as f64
    }

    fn positions(&self, shape: &Shape) -> usize {
        self.max_positions(shape.speech.unwrap_or_default())
    }

    fn throughput_unit(&self) -> ThroughputUnit {
        ThroughputUnit::Recording
    }

    fn transformer(&self) -> Option<Transformer<'_>> {
        Some(Transformer {
            stack: &self.stack,
            stacks: [Some(self.depth()), None],
            embedding_norm: self.embedding_norm,
        })
    }

    fn encoder_positions(&self, speech: SpeechShape) -> Option<usize> {
        Some(self.max_positions(speech))
    }

    /// Counts the convolutions over samples and over frames.
    fn activations_between(&self, shape: &Shape, _recompute: bool) -> u128 {
        let speech = shape.speech.unwrap_or_default();
        let features = self.features.activations(speech.samples().unwrap_or(0));
        let positions = match self.convolutional_positions {
            Some(_) => 3 * (self.stack.d_model * self.max_positions(speech)) as u128,
            None => 0,
        };
        features.saturating_add(positions)
    }
}

impl From<SpeechEncoderConfig> for ModelConfig {
    fn from(config: SpeechEncoderConfig) -> Self {
        Self::SpeechEncoder(config)
    }
}
