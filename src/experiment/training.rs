//! A model in training, with its optimizer, weight average and counters, and the job that is passed to the training loop.

mod optimizer;

use super::Experiment;
use super::assemble::{self, WeightSource};
use super::average;
use super::judge;
use super::teacher::{self, WeightsId};
use crate::collective::Ranks;
use crate::data::{Data, SearchPath, Shape};
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::model::{CarriedWidths, ThroughputUnit};
use crate::nn::branches::ResidualMoments;
use crate::stack::residual_scale::admin;
use crate::stack::state::ModelState;
use crate::stop::StopFlag;
use crate::task::{Objective, TrainableModel, grpo};
use crate::train::checkpoint::{Checkpoint, State};
use crate::train::ema::Ema;
use crate::train::evaluation::Split;
use crate::train::job::{DecidedOn, Job};
use crate::train::optim::StateSize;
use crate::train::residuals;
use crate::train::run_dir::RunDir;
use crate::train::schedule::ScheduleConfig;
use crate::train::transfer::{Transferred, is_initial_weight_key};
use burn::module::ParamId;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
pub use optimizer::optimizer;
use optimizer::trainable_parameters;
use std::collections::{BTreeMap, HashMap};

/// A model and its training state.
pub struct Training {
    /// The network with its objective.
    pub model: Objective,
    /// Report on the parameters taken from another run, if `[init]` names one.
    pub transferred: Option<Transferred>,
    /// Message about how the teacher's training images differ from the data, and about its number format if that differs.
    pub teacher_note: Option<String>,
    optimizer: ModuleOptimizer,
    /// Which state the optimizer keeps of each parameter.
    state_sizes: HashMap<ParamId, StateSize>,
    average: Option<Ema<Objective>>,
    carried: Option<ModelState>,
    state: State,
    /// A line for the journal before the next step.
    note: Option<&'static str>,
    /// Whether the weights are randomly initialised, not taken from another run or a checkpoint.
    randomly_initialised: bool,
}

/// Builds the model of a training run with its optimizer, weight average and counters: those of the checkpoint for
/// [`WeightSource::ForTraining`], otherwise those of step 0.
///
/// # Errors
/// As [`assemble::model`]; if a group of `[optimizer]` matches no parameter; if the checkpoint lacks the average that the
/// experiment asks for, or is beyond the last step of `[train]`.
pub fn training(
    experiment: &Experiment,
    shape: &Shape,
    device: &Device,
    weights: &WeightSource,
) -> Result<Training> {
    let (model, transferred) = assemble::model(experiment, shape, device, weights)?;
    let optimizer = optimizer(experiment, &model)?;
    let kept = experiment
        .optimizer
        .state_sizes(&trainable_parameters(experiment, &model)?)?;
    let rule = average::rule(experiment);
    let carries = experiment.train.carry_state || experiment.task.facts().updates_per_batch() > 1;
    let mut carried = carries.then(|| model.empty_state()).flatten();
    let (optimizer, average, state, note) = match weights {
        WeightSource::ForTraining(checkpoint) => {
            require_continuable(experiment, checkpoint)?;
            let average = rule.map(|rule| checkpoint.load_ema(rule, &model));
            if let Some(state) = &mut carried {
                let (rows, widths) = (experiment.train.batch_size, widths(experiment, shape));
                *state = checkpoint.load_carried(state, rows, &widths, device)?;
            }
            (
                checkpoint.load_optimizer(optimizer, &model)?,
                average.transpose()?,
                checkpoint.state().clone(),
                checkpoint.note(),
            )
        }
        WeightSource::Initial { .. }
        | WeightSource::ForInference(_)
        | WeightSource::ForCompanion(_)
        | WeightSource::Mean(_) => {
            let average = rule.map(|rule| Ema::new(rule, &model));
            let state = State {
                drawn_part: true,
                ..State::default()
            };
            (optimizer, average, state, None)
        }
    };
    let drawn = matches!(weights, WeightSource::Initial { .. }) && transferred.is_none();
    Ok(Training {
        model,
        randomly_initialised: drawn,
        transferred,
        teacher_note: None,
        optimizer,
        state_sizes: kept,
        average,
        carried,
        state,
        note,
    })
}

/// Widths of the state that is carried from step to step.
fn widths(experiment: &Experiment, shape: &Shape) -> CarriedWidths {
    match experiment.task.grpo() {
        Some(config) => grpo::carried_widths(config, shape.context),
        None => experiment.model.carried_widths(),
    }
}

/// Returns an error if `[train]` asks for something that cannot be continued from the checkpoint.
fn require_continuable(experiment: &Experiment, checkpoint: &Checkpoint) -> Result<()> {
    let config = &experiment.train;
    if let (Some(key), false) = (average::key(experiment), checkpoint.has_ema()) {
        return Err(Error::usage(format!(
            "{key} cannot be switched on when a run is resumed: {} contains no averaged weights; remove it",
            checkpoint.folder().display()
        )));
    }
    let step = checkpoint.state().step;
    if step > config.steps {
        return Err(Error::usage(format!(
            "train.steps = {} is less than {step}, the step of the run's newest checkpoint; steps can be added to a run, not \
             removed",
            config.steps
        )));
    }
    Ok(())
}

impl Training {
    /// Attaches the teacher or reference to the model, if it has one, and sets the measured residual scales of a randomly
    /// initialised model. `held` are the weights that the model has learned from so far. Returns the weights of the teacher's
    /// run.
    ///
    /// # Errors
    /// As [`teacher::open`] and [`with_residual_scales`].
    pub fn attach_teacher(
        &mut self,
        experiment: &Experiment,
        places: &SearchPath,
        data: &Data,
        held: Option<&WeightsId>,
    ) -> Result<Option<WeightsId>> {
        let model = self.model.clone();
        let taught = teacher::with_teacher(experiment, places, data, held, model)?;
        self.teacher_note = taught.note;
        let untaught = std::mem::replace(&mut self.model, taught.model);
        if let Some(branches) = self.branches(experiment, data)? {
            let untaught = admin::with_measured_scales(untaught, &branches)?;
            self.average = average::rule(experiment).map(|rule| Ema::new(rule, &untaught));
            self.model = admin::with_measured_scales(self.model.clone(), &branches)?;
        }
        Ok(taught.print)
    }

    /// As [`Self::attach_teacher`], and attaches the judge of completions if the model learns from rewards. Takes the weights of
    /// the teacher and of the reward run that were used so far, and returns those used now.
    ///
    /// # Errors
    /// As [`Self::attach_teacher`] and [`judge::build`].
    pub fn attach_teacher_and_judge(
        &mut self,
        experiment: &Experiment,
        places: &SearchPath,
        data: &Data,
        [teacher, reward]: [Option<&WeightsId>; 2],
    ) -> Result<[Option<WeightsId>; 2]> {
        let teacher = self.attach_teacher(experiment, places, data, teacher)?;
        let of_data = (&data.shape, &data.tokenizers);
        let model = self.model.clone();
        let (model, reward) = judge::with_judge(experiment, places, of_data, reward, model)?;
        self.model = model;
        Ok([teacher, reward])
    }

    /// The residual branches of a randomly initialised model whose residual scales are measured.
    fn branches(&self, experiment: &Experiment, data: &Data) -> Result<Option<ResidualMoments>> {
        match self.randomly_initialised {
            true => branches(experiment, data, &self.model),
            false => Ok(None),
        }
    }

    /// Sets the keys that the coming steps use; those that differ from the earlier steps are recorded in the next checkpoint.
    /// `before` stands in for a checkpoint of an earlier version, which does not record its keys. Returns whether the best
    /// evaluation so far is forgotten because its metric no longer applies.
    pub fn set_changeable_keys(
        &mut self,
        before: Option<BTreeMap<String, String>>,
        now: BTreeMap<String, String>,
    ) -> bool {
        if let (true, Some(before)) = (self.state.settings.is_empty(), before) {
            self.state.settings = before;
        }
        // Earlier versions recorded some of these keys.
        self.state
            .settings
            .retain(|key, _| !is_initial_weight_key(key));
        self.state.change_settings(now)
    }

    /// Forgets the best evaluation up to this step, because it read other examples than later ones will. Returns whether there
    /// was one.
    pub fn forget_best(&mut self, step: u64) -> bool {
        self.state.forget_best(step)
    }

    /// Splits into the model and the job that trains it on `data` in the folder of `run`, as one of `ranks`.
    pub fn job(
        self,
        experiment: &Experiment,
        data: &Data,
        run: RunDir,
        stop: StopFlag,
        ranks: Ranks,
    ) -> (Objective, Job<Objective>) {
        let job = Job {
            config: experiment.train.clone(),
            diagnostics: experiment.diagnostics,
            journal: experiment.journal,
            seed: experiment.seed,
            optimizer: self.optimizer,
            state_sizes: self.state_sizes,
            base_lr: experiment.optimizer.lr(),
            schedule: schedule(experiment),
            unit: match experiment.model.throughput_unit() {
                ThroughputUnit::Token | ThroughputUnit::Pair => "tokens",
                ThroughputUnit::Image => "images",
                ThroughputUnit::Recording => "recordings",
            },
            perplexity: experiment.task.has_perplexity(),
            ema: self.average,
            carried: self.carried,
            updates: experiment.task.facts().updates_per_batch(),
            train: data.train.clone(),
            valid: data.valid.clone().map(|source| Split {
                source,
                bytes_per_token: data.bytes_per_token.valid,
                carries_state: experiment.train.carry_state,
                groups: experiment.train.eval_groups(),
                contrasts_rows: experiment.task.facts().compared_rows().is_some(),
            }),
            run,
            state: self.state,
            last_scores: None,
            note: self.note,
            pause_at: None,
            stop,
            ranks,
            route: decided_on(experiment),
        };
        (self.model, job)
    }
}

/// Measures the residual branches of an untrained model if its residual scales depend on them.
///
/// # Errors
/// If data cannot be read.
fn branches(
    experiment: &Experiment,
    data: &Data,
    model: &Objective,
) -> Result<Option<ResidualMoments>> {
    let networks = experiment.model.networks().into_iter();
    let scales = networks.filter_map(|network| Some(network.transformer()?.stack.residual_scale));
    let Some(examples) = scales
        .filter_map(|scale| scale.measurement_examples())
        .max()
    else {
        return Ok(None);
    };
    let source = (data.train.as_ref(), experiment.seed);
    residuals::measure_residuals(model, &experiment.train, source, examples).map(Some)
}

/// Sets the measured residual scales of a randomly initialised model, if it has such.
///
/// # Errors
/// If data cannot be read, or a run cannot begin with the resulting scales.
pub fn with_residual_scales(
    experiment: &Experiment,
    data: &Data,
    model: Objective,
) -> Result<Objective> {
    match branches(experiment, data, &model)? {
        Some(branches) => admin::with_measured_scales(model, &branches),
        None => Ok(model),
    }
}

/// Returns whether steps are decided on the host or on the device of `[train]`.
pub fn decided_on(experiment: &Experiment) -> DecidedOn {
    let name: Result<DeviceName> = experiment.train.device.parse();
    match name.is_ok_and(|name| !name.is_cpu()) {
        true => DecidedOn::Device,
        false => DecidedOn::Host,
    }
}

/// Returns the schedule, adapted to the model's width.
pub fn schedule(experiment: &Experiment) -> ScheduleConfig {
    experiment.schedule.for_width(experiment.model.d_model())
}
