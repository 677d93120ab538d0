//! Connectionist temporal classification (Graves et al. 2006): the characters of a transcript occur in order somewhere
//! along the frames of its recording, and the loss sums over all alignments,
//!
//! ```text
//! L = −log Σ_{ways π that collapse to the transcript} Π_t p(π_t | recording)
//! ```
//!
//! where an alignment assigns a character or the blank to each frame, and collapses by removing repeats of the previous
//! frame, then blanks. The blank is the padding token.

use super::facts::TaskFacts;
use super::metric_keys::MetricKeys;
use super::{AnyTask, Divisor, Networks, Scored, Task, Term, host};
use crate::data::batch::{Batch, SpeechBatch, TextBatch};
use crate::data::{DataSet, ExampleForm, View};
use crate::error::{Error, Result};
use crate::evaluate::metric::Metric;
use crate::kernel::ctc::{CtcTargets, losses};
use crate::kernel::{self, replay};
use crate::model::speech_encoder::Frames;
use crate::model::{BuildContext, Demand, ModelConfig, SpeechEncoder, Use};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use crate::one_table::is_usual;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "ctc",
    summary: "characters of recordings by connectionist temporal classification, with an encoder of samples",
    source: "Graves et al. 2006",
    example: "{ kind = \"ctc\" }",
};

/// The loss is a mean over recordings; other reductions give other values.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    over_tokens: true,
    ..MetricKeys::for_kind(KIND.kind).with_loss_keys(&["reduction", "zero_infinity"])
};

/// How the losses of recordings are averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CtcReduction {
    /// Each loss divided by the length of its transcript in characters, then the mean over recordings, as PyTorch's
    /// mean.
    #[default]
    Mean,
    /// No division: a step minimises the sum over its recordings, and journals show the mean per recording.
    Sum,
}

/// Settings of connectionist temporal classification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CtcConfig {
    /// Divisor of the losses of recordings; transformers' `ctc_loss_reduction`.
    pub reduction: CtcReduction,
    /// Whether an infinite loss, of a transcript that is too long for the frames of its recording, counts as 0;
    /// transformers' `ctc_zero_infinity`.
    #[serde(skip_serializing_if = "is_usual")]
    pub zero_infinity: bool,
}

impl TaskFacts for CtcConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Spoken
    }

    fn view(&self) -> View {
        View::Ctc
    }

    fn demand(&self) -> Demand {
        Demand::plain(Use::SpeechCharacters)
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        Vec::new()
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!("formwork transcribe {run} FILE.wav"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        if !model.uses().contains(&Use::SpeechCharacters) {
            return Ok(None);
        }
        let model = SpeechEncoder::new(model, inputs).ok_or_else(|| {
            Error::usage("[task] ctc needs recordings with texts; the data has none")
        })?;
        let blank = inputs.shape.blank;
        let blank = blank.filter(|blank| *blank < inputs.shape.vocab_size);
        let blank = blank.ok_or_else(|| {
            Error::usage("[task] ctc needs a blank token; the vocabulary has none")
        })?;
        Ok(Some(AnyTask::Ctc(Ctc {
            model,
            seed: inputs.seed,
            blank,
            sums: self.reduction == CtcReduction::Sum,
            zero_infinity: self.zero_infinity,
        })))
    }
}

/// A speech encoder with its training objective.
#[derive(Module, Debug)]
pub struct Ctc {
    /// The network.
    pub model: SpeechEncoder,
    seed: u64,
    blank: usize,
    sums: bool,
    zero_infinity: bool,
}

impl Ctc {
    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.model.device()
    }

    /// Returns the id of the blank token.
    pub fn blank(&self) -> usize {
        self.blank
    }

    /// Computes the hidden states of recordings.
    pub fn frames(&self, speech: &SpeechBatch, pass: &Pass) -> Frames {
        let samples = host::samples(speech, &self.device());
        self.model.forward(samples, &speech.lengths, pass)
    }

    /// Returns the sum of the losses of rows, each divided as the reduction says, `[1]`, from logits
    /// `[rows, frames, vocab]`.
    pub(super) fn loss(
        &self,
        scores: Tensor<3>,
        frames: Vec<usize>,
        labels: Vec<Vec<i32>>,
    ) -> Tensor<1> {
        let weight = |row: &Vec<i32>| match self.sums {
            true => 1.0,
            false => 1.0 / row.len().max(1) as f32,
        };
        let weights: Vec<f32> = labels.iter().map(weight).collect();
        let weights = TensorData::new(weights, [labels.len()]);
        let weights = replay::floats(weights, &scores.device());
        let targets = CtcTargets {
            labels,
            frames,
            blank: self.blank,
        };
        let each = losses(kernel::to_f32(scores), &targets, self.zero_infinity);
        (each * weights).sum()
    }
}

/// Collects the scored tokens of each transcript from targets `[rows·cols]`.
pub(super) fn labels(targets: &[i32], cols: usize, rows: usize) -> Vec<Vec<i32>> {
    let row = |row: usize| {
        let own = &targets[(row * cols).min(targets.len())..((row + 1) * cols).min(targets.len())];
        own.iter().copied().filter(|id| *id >= 0).collect()
    };
    (0..rows).map(row).collect()
}

impl Task for Ctc {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let rows = host::spoken(batch);
        let Frames { states, lengths } = self.frames(&rows.speech, pass);
        let TextBatch { targets, cols, .. } = &rows.transcripts;
        let labels = labels(targets, *cols, rows.speech.rows);
        let sum = self.loss(self.model.scores(states), lengths, labels);
        let coefficient = match self.sums {
            true => batch.step_rows as f64,
            false => 1.0,
        };
        let term = Term {
            coefficient,
            ..Term::new(sum, Divisor::Rows)
        };
        Scored {
            no_perplexity: true,
            ..Scored::of(term, batch.tokens as u64)
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn sample(&self, batch: &Batch) -> ProbeSample {
        let frames = self
            .model
            .features
            .frames(&host::spoken(batch).speech.lengths);
        host::longest_row(frames.into_iter())
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            ctc: Some(self),
            infers: Some(self),
            ..Networks::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::labels;

    #[test]
    fn transcripts_are_what_is_scored_of_their_rows() {
        assert_eq!(
            labels(&[4, 5, -100, 6, -100, -100], 3, 2),
            [vec![4, 5], vec![6]]
        );
        assert_eq!(labels(&[], 0, 2), [vec![], Vec::<i32>::new()]);
    }
}
