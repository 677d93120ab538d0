//! The input of the step loop and its result.

use super::checkpoint::State;
use super::config::TrainConfig;
use super::diagnostics::DiagnosticsConfig;
use super::ema::Ema;
use super::evaluation::{Scores, Split};
use super::exporters::JournalConfig;
use super::optim::Kept;
use super::run_dir::RunDir;
use super::schedule::ScheduleConfig;
use crate::collective::Ranks;
use crate::data::Source;
use crate::error::Result;
use crate::stack::state::ModelState;
use crate::stop::Stop;
use crate::task::Trained;
use burn::module::ParamId;
use burn::optim::ModuleOptimizer;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// Where the numbers of a step are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// On the host, at once: the tensors are in its memory.
    #[default]
    Host,
    /// On the device, which decides by them; the host reads them later.
    Device,
}

/// Everything a run needs beside its model.
pub struct Job<M: Trained> {
    /// `[train]`.
    pub config: TrainConfig,
    /// `[diagnostics]`, when something is to be measured.
    pub diagnostics: Option<DiagnosticsConfig>,
    /// `[journal]`.
    pub journal: JournalConfig,
    /// Seed of the order of the data.
    pub seed: u64,
    /// The optimizer, with its state when the run is resumed.
    pub optimizer: ModuleOptimizer,
    /// What the optimizer keeps of each parameter, for ranks that divide it.
    pub kept: HashMap<ParamId, Kept>,
    /// Learning rate that the schedule multiplies.
    pub base_lr: f64,
    /// Learning rate by step.
    pub schedule: ScheduleConfig,
    /// The unit of speed: tokens, images.
    pub unit: &'static str,
    /// Whether e to the power of the training loss is a perplexity.
    pub perplexity: bool,
    /// Moving average of the weights, when asked for.
    pub ema: Option<Ema<M>>,
    /// The state of all rows that the model passes to the next step of the same rows (`carry_state`), where it carries
    /// something.
    pub carried: Option<ModelState>,
    /// Consecutive steps that take the same examples.
    pub updates: u64,
    /// Training items.
    pub train: Arc<dyn Source>,
    /// The split that evaluations on the way use.
    pub valid: Option<Split>,
    /// Where the run lives.
    pub run: RunDir,
    /// Where the run stands.
    pub state: State,
    /// Scores of the last evaluation.
    pub last: Option<Scores>,
    /// A note for the journal where the run is resumed.
    pub note: Option<&'static str>,
    /// Raised when the run is to save and end.
    pub stop: Stop,
    /// The step after which it saves and ends, as if it had been asked to.
    pub pause_at: Option<u64>,
    /// The processes that train it.
    pub ranks: Ranks,
    /// Where steps are decided.
    pub route: Route,
}

impl<M: Trained> Job<M> {
    /// The job in outline, under the experiment's name.
    pub fn outline(&self, name: &str) -> Outline {
        let best = self.state.best;
        Outline {
            name: name.into(),
            folder: self.run.root().to_path_buf(),
            device: self.config.device.clone(),
            step: self.state.step,
            steps: self.config.steps,
            round: self.config.round(),
            unit: self.unit,
            best: best.map(|best| (best.step, self.config.best_value(best.value))),
            best_by: self.config.best_by.clone(),
        }
    }
}

/// What a run is before its next step, for those who follow it.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The experiment's name.
    pub name: String,
    /// The run folder.
    pub folder: PathBuf,
    /// Where tensors are: `flex`, `cuda:0` …
    pub device: String,
    /// Optimizer steps done.
    pub step: u64,
    /// Optimizer steps of the run.
    pub steps: u64,
    /// Steps between two evaluations.
    pub round: u64,
    /// The unit of speed: tokens, images.
    pub unit: &'static str,
    /// The metric that evaluations are compared by, where it is not the loss.
    pub best_by: Option<String>,
    /// Step and value of the best evaluation so far: the loss, or `best_by`.
    pub best: Option<(u64, f64)>,
}

/// A line of the journal, as an observer receives it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Optimizer steps done.
    pub step: u64,
    /// Optimizer steps of the run.
    pub steps: u64,
    /// "train" or "valid".
    pub split: &'static str,
    /// Passes over the training data so far; none in a line about an evaluation.
    pub epoch: Option<f64>,
    /// Mean loss in nats since the last report, or over the split.
    pub loss: f64,
    /// Learning rate of the last step.
    pub lr: Option<f64>,
    /// Mean of the gradient norms.
    pub grad_norm: Option<f64>,
    /// Items per second.
    pub items_per_s: Option<f64>,
    /// The unit of items: tokens, images.
    pub unit: &'static str,
    /// Seconds of training in all.
    pub elapsed_s: f64,
    /// Seconds until the last step, at the present speed.
    pub left_s: Option<f64>,
    /// Other metrics by their usual names.
    pub metrics: BTreeMap<String, f64>,
    /// The part of the split that was read, in words; none for all of it.
    pub part: Option<String>,
}

/// Follows a run from outside.
pub trait Observer<M>: Send {
    /// A line of the journal was written.
    fn report(&mut self, report: &Report);

    /// A checkpoint of a step was written.
    fn saved(&mut self, _step: u64) {}

    /// A step was left out, for this reason.
    fn skipped(&mut self, _step: u64, _reason: &str) {}

    /// Further metrics of `model` (in evaluation mode) on the validation split, which take more than a pass over
    /// its batches: translations, say. `None` when a request to stop broke that off.
    ///
    /// # Errors
    /// A value that the observer cannot measure; the run ends.
    fn scores(&mut self, _model: &M) -> Result<Option<BTreeMap<String, f64>>> {
        Ok(Some(BTreeMap::new()))
    }

    /// Makes what is written down beside an evaluation, such as a text; `model` is in evaluation mode. `false` when a
    /// request to stop broke that off: the evaluation is then made again when the run is resumed.
    ///
    /// # Errors
    /// Failures of the observer with the model; the run ends.
    fn sampled(&mut self, _step: u64, _model: &M) -> Result<bool> {
        Ok(true)
    }

    /// An evaluation ended.
    ///
    /// # Errors
    /// Failures of the observer to write; the run ends.
    fn evaluated(&mut self, step: u64) -> Result<()>;

    /// Brings the file of samples to the disk; its length, for the checkpoint: a resumed run cuts it there.
    ///
    /// # Errors
    /// When the disk refuses.
    fn commit_samples(&mut self) -> Result<u64>;
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All steps were taken.
    Done,
    /// The validation loss did not improve for long enough.
    Early,
    /// The step at which it was to pause is taken.
    Paused,
    /// The user or the system asked.
    Interrupted,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Optimizer steps done.
    pub step: u64,
    /// Why it ended.
    pub stopped: Stopped,
    /// Step and loss of the best evaluation, over the items that all evaluations read (`eval_batches`).
    pub best: Option<(u64, f64)>,
    /// Scores of the whole validation split at the end.
    pub last: Option<Scores>,
    /// Seconds of training in all.
    pub elapsed_s: f64,
    /// Steps left out because they diverged.
    pub skipped: u64,
}
