//! The state of the live view, independent of a terminal: receives events, with times in seconds since the view began.

use super::series::Series;
use crate::cli::line_printer::{self, LineInterval};
use crate::report::read::rate::Rate;
use crate::report::render::terminal::plain;
use crate::train::job::{Report, RunSummary};
use crate::train::metrics::higher_is_better;
use crate::train::view::StepNumbers;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum number of lines about training steps that are kept for the terminal; lines about evaluations are all kept.
const MOST_LINES: usize = 200;

/// Maximum number of warnings that are kept.
const MOST_WARNINGS: usize = 50;

/// Current phase of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Taking training steps.
    Training,
    /// Evaluating: batches done, and their total number.
    Evaluating(u64, u64),
}

/// Content of the live view.
pub struct State {
    /// Description of the run.
    pub outline: RunSummary,
    /// Number of steps done.
    pub step: u64,
    /// Passes over the data.
    pub epoch: Option<f64>,
    /// Current phase.
    pub phase: Phase,
    /// Values of the last step.
    pub last: StepNumbers,
    /// Training loss by step.
    pub loss: Series,
    /// Gradient norm by step.
    pub gradient_norm: Series,
    /// Learning rate by step.
    pub learning_rate: Series,
    /// The journal's values by split and metric, including the validation loss.
    pub metrics: BTreeMap<(&'static str, String), Series>,
    /// Items per second.
    pub speed: Rate,
    /// Step and value of the best evaluation.
    pub best: Option<(u64, f64)>,
    /// Step and time of the last checkpoint.
    pub saved: Option<(u64, f64)>,
    /// Step and text of the last sample.
    pub sample: Option<(u64, String)>,
    /// Warnings, the newest last.
    pub warnings: Vec<String>,
    /// Whether the user is being asked whether to end the run.
    pub asks_to_end: bool,
    steps: Rate,
    /// Time at which the last step or evaluation ended.
    mark: f64,
    /// Number of steps before the current round.
    base: u64,
    /// Start of the current evaluation, and duration of the last one.
    evaluation: (f64, Option<f64>),
    history: Vec<(bool, String)>,
    pace: LineInterval,
}

impl State {
    /// The state before the first step.
    pub fn new(outline: RunSummary) -> Self {
        Self {
            step: outline.step,
            epoch: None,
            phase: Phase::Training,
            last: StepNumbers::default(),
            loss: Series::default(),
            gradient_norm: Series::default(),
            learning_rate: Series::default(),
            metrics: BTreeMap::new(),
            speed: Rate::default(),
            best: outline.best,
            saved: None,
            sample: None,
            warnings: Vec::new(),
            asks_to_end: false,
            steps: Rate::default(),
            mark: 0.0,
            base: outline.step / outline.round * outline.round,
            evaluation: (0.0, None),
            history: Vec::new(),
            pace: LineInterval::new(Duration::from_secs(5)),
            outline,
        }
    }

    /// Records that step number `done` of the round was taken.
    pub fn stepped(&mut self, done: u64, step: StepNumbers, now: f64) {
        let number = self.base + done;
        let (steps, seconds) = (number.saturating_sub(self.step), now - self.mark);
        self.steps.add(steps as f64, seconds);
        self.speed.add(step.items_per_s * seconds, seconds);
        (self.step, self.mark, self.last) = (number, now, step);
        self.loss.push(number, step.loss);
        self.gradient_norm.push(number, step.gradient_norm);
        self.learning_rate.push(number, step.learning_rate);
    }

    /// Records the end of a round; `ended` is the number of rounds completed.
    pub fn end_round(&mut self, ended: u64, now: f64) {
        self.base = ended * self.outline.round;
        self.mark = now;
    }

    /// Records the start of an evaluation of `of` batches.
    pub fn evaluation_begins(&mut self, of: u64, now: f64) {
        self.phase = Phase::Evaluating(0, of);
        self.evaluation.0 = now;
    }

    /// Records the number of batches evaluated so far.
    pub fn evaluated(&mut self, done: u64) {
        if let Phase::Evaluating(_, of) = self.phase {
            self.phase = Phase::Evaluating(done, of);
        }
    }

    /// Records the start of training steps, after an evaluation or at the beginning.
    pub fn steps_begin(&mut self, now: f64) {
        if self.phase != Phase::Training {
            self.evaluation.1 = Some(now - self.evaluation.0);
        }
        (self.phase, self.mark) = (Phase::Training, now);
    }

    /// Records a line of the journal.
    pub fn report(&mut self, report: &Report) {
        self.step = self.step.max(report.step);
        self.epoch = report.epoch.or(self.epoch);
        let loss = ("loss".to_string(), report.loss);
        let metrics = report.metrics.clone().into_iter().chain([loss]);
        for (name, value) in metrics {
            let series = self.metrics.entry((report.split, name)).or_default();
            series.push(report.step, value);
        }
        if report.split == "valid" {
            self.compare(report);
        }
        if self.pace.allows(report, Instant::now()) {
            self.add_history(report.split == "train", line_printer::report_line(report));
        }
    }

    fn compare(&mut self, report: &Report) {
        let (value, higher) = match &self.outline.best_by {
            None => (Some(report.loss), false),
            Some(name) => (report.metrics.get(name).copied(), higher_is_better(name)),
        };
        let better = |value: f64, best: f64| if higher { value > best } else { value < best };
        if let Some(value) = value.filter(|v| v.is_finite())
            && self.best.is_none_or(|(_, best)| better(value, best))
        {
            self.best = Some((report.step, value));
        }
    }

    /// Records a generated text.
    pub fn sampled(&mut self, step: u64, text: &str) {
        self.sample = Some((step, plain(text)));
        self.add_history(false, line_printer::sample_line(step, text));
    }

    /// Records a skipped step.
    pub fn skipped(&mut self, step: u64, reason: &str) {
        let line = line_printer::skipped_line(step, reason);
        self.add_history(false, line.clone());
        self.warnings.push(line);
        if self.warnings.len() > MOST_WARNINGS {
            self.warnings.remove(0);
        }
    }

    /// Returns the metric to show besides the loss: the one that evaluations are compared by, or else the task's first.
    /// Perplexity is left out, since it says the same as the loss.
    pub fn metric(&self) -> Option<&str> {
        if let Some(name) = self
            .outline
            .best_by
            .as_deref()
            .filter(|name| *name != "loss")
        {
            return Some(name);
        }
        let names = self.metrics.keys().filter(|(split, _)| *split == "valid");
        names
            .map(|(_, name)| name.as_str())
            .find(|name| !matches!(*name, "loss" | "perplexity"))
    }

    /// Returns the estimated seconds left: steps at the current speed, evaluations at the duration of the last one.
    pub fn remaining_s(&self) -> Option<f64> {
        let RunSummary { steps, round, .. } = self.outline;
        let left = steps.saturating_sub(self.step) as f64 / self.steps.per_second()?;
        let evaluations = steps.div_ceil(round).saturating_sub(self.step / round);
        Some(left + evaluations as f64 * self.evaluation.1.unwrap_or(0.0))
    }

    /// Returns the lines for the terminal that were not printed yet.
    pub fn take_history(&mut self) -> Vec<String> {
        let taken = std::mem::take(&mut self.history);
        taken.into_iter().map(|(_, line)| line).collect()
    }

    fn add_history(&mut self, of_training: bool, line: String) {
        self.history.push((of_training, line));
        if self
            .history
            .iter()
            .filter(|(training, _)| *training)
            .count()
            > MOST_LINES
        {
            let mut number = 0;
            self.history.retain(|(training, _)| {
                number += usize::from(*training);
                !*training || number % 2 == 0
            });
        }
    }
}
