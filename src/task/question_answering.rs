//! Answers to questions as spans of a context (Devlin et al. 2018, section 4.2).
//!
//! Each token has two scores, S·h as the first and E·h as the last token of the answer. The loss is the mean of the two
//! cross-entropies over the tokens of a row. If a window lacks the answer, its target is the first token (the last one
//! in XLNet's format, where `[CLS]` stands last). The predicted answer is the span i ≤ j of the context with the
//! highest S·h_i + E·h_j; the score of no answer is that sum at the target of windows without an answer (section 4.3).

use super::facts::{GlobalTokenSupport, TaskFacts};
use super::infer::InferenceTask;
use super::metric_keys::MetricKeys;
use super::{AnyTask, Networks, Scored, Task, host, masked_lm};
use crate::data::batch::{Batch, ContextWindow, QuestionAnswer, TextBatch};
use crate::data::{DataSet, ExampleForm};
use crate::error::Result;
use crate::evaluate::answers::{Answers, SpanPrediction};
use crate::evaluate::metric::{EXACT_MATCH, F1, Metric};
use crate::evaluate::predictions::Predictions;
use crate::faults::TableFaults;
use crate::kernel;
use crate::model::encoder::EncoderInput;
use crate::model::{BuildContext, Demand, GlobalTokens, ModelConfig, TextModel, Use};
use crate::nn::Kind;
use crate::nn::init::{Init, InitSettings, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles};
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "question_answering",
    summary: "answers to questions as spans of a context, or none, with an encoder or recurrent cells",
    source: "Devlin et al. 2018, sections 4.2 and 4.3; Rajpurkar et al., arXiv:1806.03822",
    example: "{ kind = \"question_answering\" }",
};

/// Evaluation losses depend on no key of this task.
pub const METRIC_KEYS: MetricKeys = MetricKeys::for_kind(KIND.kind);

/// Settings of question answering.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QuestionAnsweringConfig {
    /// Dropout on the hidden states before the head.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub dropout: f64,
    /// Maximum length of an answer in tokens.
    #[schemars(range(min = 1))]
    pub longest_answer: usize,
    /// Tokens that are global in attention with global tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_tokens: Option<GlobalTokens>,
}

impl Default for QuestionAnsweringConfig {
    fn default() -> Self {
        Self {
            dropout: 0.0,
            longest_answer: 30,
            global_tokens: None,
        }
    }
}

impl TaskFacts for QuestionAnsweringConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Questions
    }

    fn demand(&self) -> Demand {
        Demand::plain(Use::Spans)
    }

    fn global_tokens(&self) -> GlobalTokenSupport {
        GlobalTokenSupport::Supported(self.global_tokens)
    }

    fn faults(&self, at: &mut TableFaults) {
        at.probability("dropout", self.dropout);
        at.count("longest_answer", self.longest_answer, MAX_ANSWER_TOKENS);
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        vec![EXACT_MATCH, F1]
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!(
            "formwork answer {run} --question TEXT --context TEXT"
        ))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        let (model, init) = (model.restricted_to(&self.demand()), model.init_settings());
        let (d, network) = (model.d_output(), TextModel::new(&model, inputs));
        Ok(network.map(|network| {
            AnyTask::QuestionAnswering(QuestionAnswering::new(network, d, &init, self, inputs))
        }))
    }
}

/// Upper bound of the key `longest_answer`.
const MAX_ANSWER_TOKENS: usize = 1 << 20;

/// Roles of the parameters of [`QuestionAnswering`].
pub const ROLES: Roles = Roles::new(
    "QuestionAnswering",
    &[("head", Declaration::Place(Place::Head))],
);

/// A text network that scores each token as the first and as the last token of the answer.
#[derive(Module, Debug)]
pub struct QuestionAnswering {
    /// The network.
    pub model: TextModel,
    /// Head with two scores for each token, as the first and as the last token of the answer.
    pub head: Linear,
    seed: u64,
    dropout: f64,
    longest: usize,
    #[module(skip)]
    pub(super) globals: GlobalTokens,
}

/// The best span of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Score of the span.
    pub score: f32,
    /// Score of no answer.
    pub none: f32,
    /// First and end byte of the span in the context.
    pub bytes: [usize; 2],
}

impl Span {
    /// Combines the best spans of two windows of a context: the span with the higher score (`self` if equal), with the
    /// lower of the two scores of no answer.
    #[must_use]
    pub fn better_of(self, next: Self) -> Self {
        let none = self.none.min(next.none);
        let best = if next.score > self.score { next } else { self };
        Self { none, ..best }
    }
}

impl QuestionAnswering {
    /// Builds the task from a network of width `d_model`, with a head that is initialised as `init` says.
    pub fn new(
        model: TextModel,
        d_model: usize,
        init: &InitSettings,
        config: &QuestionAnsweringConfig,
        inputs: &BuildContext,
    ) -> Self {
        let init = Init::of_heads(inputs.device, inputs.seed, init);
        Self {
            model,
            head: Linear::new(d_model, 2, true, MatrixRole::Head, &init),
            seed: inputs.seed,
            dropout: config.dropout,
            longest: config.longest_answer,
            globals: config.global_tokens.unwrap_or_default(),
        }
    }

    /// Returns the scores of each position as the first and as the last token, `[2 · rows, cols]`, row after row; the
    /// scores of padding are far below all others.
    pub(super) fn scores(&self, input: EncoderInput, pass: &Pass) -> Tensor<2> {
        let lengths = input.lengths.clone();
        let hidden = self.model.forward(input, pass);
        let hidden = self.model.token_features(hidden);
        let hidden = pass.dropout(hidden, "asked", self.dropout);
        let scores = self.head.forward(hidden);
        let ([rows, cols, _], device) = (scores.dims(), scores.device());
        let scores = scores.swap_dims(1, 2).reshape([2 * rows, cols]);
        let Some(lengths) = lengths else {
            return scores;
        };
        let below = lengths.iter().flat_map(|length| {
            let row = (0..cols).map(move |col| if col < *length { 0.0 } else { PADDING_SCORE });
            row.clone().chain(row)
        });
        let below = TensorData::new(below.collect::<Vec<f32>>(), [2 * rows, cols]);
        let format = FloatDType::from(scores.dtype());
        scores + Tensor::<2>::from_data(below, &device).cast(format)
    }

    /// Finds the best span of each row.
    pub fn spans(&self, texts: &TextBatch, windows: &[&ContextWindow], pass: &Pass) -> Vec<Span> {
        let input = masked_lm::input(texts, self.globals, &self.device());
        self.best(self.scores(input, pass), windows)
    }

    fn best(&self, scores: Tensor<2>, windows: &[&ContextWindow]) -> Vec<Span> {
        let cols = scores.dims()[1];
        let scores = kernel::read(kernel::untracked(scores)).convert::<f32>();
        let scores: Vec<f32> = scores.iter().collect();
        let rows = scores.chunks(2 * cols.max(1)).zip(windows);
        rows.map(|(row, window)| {
            let (first, last) = row.split_at(cols);
            let within = window.first..window.first + window.byte_ranges.len();
            let ([from, to], score) = best(&first[within.clone()], &last[within], self.longest);
            Span {
                score,
                none: first[window.no_answer_position] + last[window.no_answer_position],
                bytes: trim_span(window, [from, to]),
            }
        })
        .collect()
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.model.device()
    }
}

/// Returns the bytes of a span of tokens, without whitespace at its ends: in some vocabularies tokens begin with a
/// blank.
fn trim_span(window: &ContextWindow, [first, last]: [usize; 2]) -> [usize; 2] {
    let (from, to) = (window.byte_ranges[first][0], window.byte_ranges[last][1]);
    let text = window.context.get(from..to).unwrap_or_default();
    let from = from + text.len() - text.trim_start().len();
    [from, from + text.trim().len()]
}

/// Added to the scores of padding, so that its probability is 0.
const PADDING_SCORE: f32 = -1e9;

/// Finds the span of at most `longest` tokens with the highest score, and its score; the first one if several are
/// equal.
fn best(first: &[f32], last: &[f32], longest: usize) -> ([usize; 2], f32) {
    let mut found = ([0, 0], f32::NEG_INFINITY);
    for (from, first) in first.iter().enumerate() {
        for (to, last) in last.iter().enumerate().skip(from).take(longest) {
            if first + last > found.1 {
                found = ([from, to], first + last);
            }
        }
    }
    found
}

/// Returns the sum over rows of the mean of both cross-entropies, `[1]`, from scores `[2 · rows, cols]` and the first
/// and last tokens of the answers, row after row.
pub(super) fn loss(scores: Tensor<2>, answers: &[i32]) -> Tensor<1> {
    let targets = host::vector(answers, &scores.device());
    kernel::cross_entropy_sum(scores, targets, 0.0) * 0.5
}

impl Task for QuestionAnswering {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let texts = host::texts(batch);
        let asked: &[QuestionAnswer] = texts.asked.as_deref().unwrap_or_default();
        let input = masked_lm::input(texts, self.globals, &self.device());
        let scores = self.scores(input, pass);
        let predictions = (!pass.is_training()).then(|| {
            let windows: Vec<&ContextWindow> =
                asked.iter().map(|asked| asked.window.as_ref()).collect();
            let mut all = Answers::default();
            for (span, window) in self.best(scores.clone(), &windows).iter().zip(&windows) {
                let found = SpanPrediction {
                    score: span.score,
                    none: span.none,
                    text: &window.context[span.bytes[0]..span.bytes[1]],
                };
                all.add(
                    window.question,
                    found,
                    &window.accepted_answers,
                    window.may_have_no_answer,
                );
            }
            Predictions::Answers(all)
        });
        let answers: Vec<i32> = asked.iter().flat_map(|asked| asked.answer).collect();
        Scored {
            predictions,
            ..Scored::new(loss(scores, &answers), batch.tokens as u64)
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            answerer: Some(self),
            infers: Some(self as &dyn InferenceTask),
            ..Networks::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short_and_run_forward() {
        assert_eq!(best(&[0.0, 5.0, 1.0], &[4.0, 0.0, 2.0], 3), ([1, 2], 7.0));
        assert_eq!(best(&[0.0, 5.0, 1.0], &[4.0, 0.0, 2.0], 1), ([1, 1], 5.0));
        assert_eq!(best(&[f32::NAN], &[0.0], 1).0, [0, 0]);
    }
}
