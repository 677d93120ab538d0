//! The input of the step loop and its result.

use super::checkpoint::State;
use super::config::TrainConfig;
use super::diagnostics::DiagnosticsConfig;
use super::ema::Ema;
use super::evaluation::{Scores, Split};
use super::exporters::JournalConfig;
use super::optim::StateSize;
use super::run_dir::RunDir;
use super::schedule::ScheduleConfig;
use crate::collective::Ranks;
use crate::data::Source;
use crate::error::Result;
use crate::stack::state::ModelState;
use crate::stop::StopFlag;
use crate::task::TrainableModel;
use burn::module::ParamId;
use burn::optim::ModuleOptimizer;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// Where a step's loss and gradient norm are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecidedOn {
    /// On the host, at once: the tensors are in its memory.
    #[default]
    Host,
    /// On the device, which decides whether the step is taken; the host reads the numbers later.
    Device,
}

/// Everything that a run needs apart from its model.
pub struct Job<M: TrainableModel> {
    /// `[train]`.
    pub config: TrainConfig,
    /// `[diagnostics]`, if something is measured.
    pub diagnostics: Option<DiagnosticsConfig>,
    /// `[journal]`.
    pub journal: JournalConfig,
    /// Seed of the data order.
    pub seed: u64,
    /// The optimizer, with its state when the run is resumed.
    pub optimizer: ModuleOptimizer,
    /// The optimizer state kept for each parameter, for ranks that shard it.
    pub state_sizes: HashMap<ParamId, StateSize>,
    /// Base learning rate, which the schedule scales.
    pub base_lr: f64,
    /// Learning rate schedule.
    pub schedule: ScheduleConfig,
    /// Unit of the speed: tokens, images.
    pub unit: &'static str,
    /// Whether exp(training loss) is a perplexity.
    pub perplexity: bool,
    /// Moving average of the weights, if configured.
    pub ema: Option<Ema<M>>,
    /// State of all rows that the model carries into the next step of the same rows (`carry_state`), if it carries any.
    pub carried: Option<ModelState>,
    /// Number of consecutive steps that take the same examples.
    pub updates: u64,
    /// Training items.
    pub train: Arc<dyn Source>,
    /// Split that evaluations during training use.
    pub valid: Option<Split>,
    /// The run folder.
    pub run: RunDir,
    /// Progress of the run, as checkpoints save it.
    pub state: State,
    /// Scores of the last evaluation.
    pub last_scores: Option<Scores>,
    /// Note for the journal, if the run is resumed.
    pub note: Option<&'static str>,
    /// Stop signal: when it is raised, the run saves and ends.
    pub stop: StopFlag,
    /// Step after which the run saves and ends, as if it had been asked to.
    pub pause_at: Option<u64>,
    /// Processes that train the model together.
    pub ranks: Ranks,
    /// Where it is decided whether a step is taken.
    pub route: DecidedOn,
}

impl<M: TrainableModel> Job<M> {
    /// Summarizes the job under the experiment's name.
    pub fn summary(&self, name: &str) -> RunSummary {
        let best = self.state.best;
        RunSummary {
            name: name.into(),
            folder: self.run.root().to_path_buf(),
            device: self.config.device.clone(),
            step: self.state.step,
            steps: self.config.steps,
            round: self.config.evaluation_interval(),
            unit: self.unit,
            best: best.map(|best| (best.step, self.config.best_value(best.value))),
            best_by: self.config.best_by.clone(),
        }
    }
}

/// Summary of a run before its next step, for its observers.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The experiment's name.
    pub name: String,
    /// The run folder.
    pub folder: PathBuf,
    /// Device of the tensors: `flex`, `cuda:0` …
    pub device: String,
    /// Optimizer steps done.
    pub step: u64,
    /// Optimizer steps of the run.
    pub steps: u64,
    /// Steps between two evaluations.
    pub round: u64,
    /// Unit of the speed: tokens, images.
    pub unit: &'static str,
    /// Metric that evaluations are compared by, if it is not the loss.
    pub best_by: Option<String>,
    /// Step and value of the best evaluation so far; the value is the loss or `best_by`.
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
    /// Passes over the training data so far; `None` in the line of an evaluation.
    pub epoch: Option<f64>,
    /// Mean loss in nats since the last report, or over the split.
    pub loss: f64,
    /// Learning rate of the last step.
    pub lr: Option<f64>,
    /// Mean of the gradient norms.
    pub grad_norm: Option<f64>,
    /// Items per second.
    pub items_per_s: Option<f64>,
    /// Unit of the items: tokens, images.
    pub unit: &'static str,
    /// Seconds of training in all.
    pub elapsed_s: f64,
    /// Seconds until the last step, at the present speed.
    pub remaining_s: Option<f64>,
    /// Other metrics by name.
    pub metrics: BTreeMap<String, f64>,
    /// Description of the part of the split that was read; `None` if all of it was.
    pub part: Option<String>,
}

/// Observes a run from outside.
pub trait Observer<M>: Send {
    /// Called after a line of the journal is written.
    fn report(&mut self, report: &Report);

    /// Called after the checkpoint of a step is written.
    fn saved(&mut self, _step: u64) {}

    /// Called after a step is skipped, with the reason.
    fn skipped(&mut self, _step: u64, _reason: &str) {}

    /// Measures further metrics of `model` (in evaluation mode) on the validation split that need more than a pass over
    /// its batches, such as the scores of translations. Returns `None` if a request to stop interrupted the measurement.
    ///
    /// # Errors
    /// If the observer cannot measure a value; the run ends.
    fn scores(&mut self, _model: &M) -> Result<Option<BTreeMap<String, f64>>> {
        Ok(Some(BTreeMap::new()))
    }

    /// Writes the samples that accompany an evaluation, such as generated text; `model` is in evaluation mode. Returns
    /// `false` if a request to stop interrupted it: the evaluation is then repeated when the run is resumed.
    ///
    /// # Errors
    /// If the observer fails to sample from the model; the run ends.
    fn sampled(&mut self, _step: u64, _model: &M) -> Result<bool> {
        Ok(true)
    }

    /// Called after an evaluation.
    ///
    /// # Errors
    /// If the observer cannot write; the run ends.
    fn evaluated(&mut self, step: u64) -> Result<()>;

    /// Flushes the file of samples to the disk and returns its length for the checkpoint: a resumed run truncates the
    /// file there.
    ///
    /// # Errors
    /// If the disk cannot be written.
    fn commit_samples(&mut self) -> Result<u64>;
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// All steps are done.
    Done,
    /// The validation loss did not improve for long enough.
    NoImprovement,
    /// The step at which the run pauses is done.
    Paused,
    /// The user or the system asked it to stop.
    Interrupted,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Optimizer steps done.
    pub step: u64,
    /// Why the run ended.
    pub stopped: StopReason,
    /// Step and value of the best evaluation, over the items that all evaluations read (`eval_batches`): the loss, or the
    /// metric `best_by`, negated if higher is better.
    pub best: Option<(u64, f64)>,
    /// Scores of the whole validation split at the end.
    pub last: Option<Scores>,
    /// Seconds of training in all.
    pub elapsed_s: f64,
    /// Steps skipped because they diverged.
    pub skipped: u64,
}
