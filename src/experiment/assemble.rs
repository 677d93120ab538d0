//! From a checked experiment to what runs: the one place where device, data, model, weights and job come together.
//!
//! [`model`] builds the network and puts its weights in, whatever they are taken from ([`Weights`]); [`training`]
//! adds the optimizer, the average and the counters that belong to these weights. A new run, a resumed one and a run
//! that is opened for use differ in the [`Weights`] alone.

use super::teacher::{self, Print};
use super::{Experiment, transfer};

use crate::data::{self, Data, Places, Request, Shape, Tokenizers};
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::model::{ItemOf, ModelInputs};
use crate::stack::state::ModelState;
use crate::stop::Stop;
use crate::task::{Objective, Trained};
use crate::train::checkpoint::mean::mean;
use crate::train::checkpoint::{Checkpoint, State, weights};
use crate::train::config::Dtype;
use crate::train::ema::Ema;
use crate::train::evaluation::Split;
use crate::train::job::Job;
use crate::train::optim;
use crate::train::parameters;
use crate::train::run_dir::RunDir;
use crate::train::schedule::ScheduleConfig;
use crate::train::transfer::Transferred;
use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, FloatDType, IntDType};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Opens the device of `[train]`, for training or (without gradients) for use. Weights and activations take
/// the format of `train.dtype`, which is settled for the whole process by the first tensor.
///
/// # Errors
/// A device that is not there, or does not compute in that format.
pub fn device(experiment: &Experiment, training: bool) -> Result<Device> {
    let mut device = experiment.train.device.parse::<DeviceName>()?.open()?;
    let dtype = match experiment.train.dtype {
        Dtype::F32 => None,
        Dtype::Bf16 => Some(FloatDType::BF16),
        Dtype::F16 => Some(FloatDType::F16),
    };
    if let Some(dtype) = dtype {
        device.configure((dtype, IntDType::I32)).map_err(|e| {
            let name = &experiment.train.device;
            Error::run(format!("device `{name}` cannot compute in {dtype:?}: {e}"))
        })?;
    }
    Ok(if training { device.autodiff() } else { device })
}

/// The device of `[train]` without gradients, in the number format that it has.
///
/// # Errors
/// A device that is not there.
pub fn device_as_it_is(experiment: &Experiment) -> Result<Device> {
    experiment.train.device.parse::<DeviceName>()?.open()
}

/// Reads or generates the data; `saved` are the run's own tokenizers when there are any, and `run` is what its data was
/// when it began.
///
/// # Errors
/// Faults of `[data]` and `[tokenizer]`, files that are missing, damaged or not what the keys say, a split too short
/// for one window, classes that the run has not: all of them before anything runs.
pub fn data(
    experiment: &Experiment,
    places: &Places,
    saved: &Tokenizers,
    run: Option<&Shape>,
) -> Result<Data> {
    let request = Request {
        tokenizer: experiment.tokenizer.as_ref(),
        saved,
        run,
        places,
        seed: experiment.seed,
        view: &experiment.task.view(),
    };
    let mut data = data::prepare(&experiment.data, &request).map_err(Error::before_running)?;
    data.train = experiment.task.facts().targets().of(data.train);
    Ok(data)
}

/// [`data`] for a new run, with the tokenizer of the run in `[init] from` when the experiment names none.
///
/// # Errors
/// Those of [`data`], and no run where `[init]` says.
pub fn data_to_train_on(experiment: &Experiment, places: &Places) -> Result<Data> {
    data(
        experiment,
        places,
        &transfer::tokenizers(experiment, places)?,
        None,
    )
}

/// The network with its objective and its adapters, every parameter named by its path and none drawn yet.
///
/// # Errors
/// A model that cannot learn the task; patterns of `[init]` and `[lora]` that match nothing.
pub fn objective(experiment: &Experiment, shape: &Shape, device: &Device) -> Result<Objective> {
    let inputs = ModelInputs {
        shape,
        seed: experiment.seed,
        device,
    };
    let exact = experiment.data.set().has_answers();
    let objective = experiment.task.init(&experiment.model, &inputs, exact)?;
    if experiment.train.carry_state && objective.empty_state().is_none() {
        return Err(Error::usage(
            "[train] carry_state = true has no effect: the model keeps nothing from one step to the next; use a \
             recurrent or memory layer, or leave carry_state out",
        ));
    }
    let objective = parameters::name_parameters(objective);
    match &experiment.lora {
        Some(lora) => lora.attached(objective, experiment.seed),
        None => experiment.init.frozen(objective),
    }
}

/// Where the weights of a model are taken from.
pub enum Weights<'a> {
    /// The seed, or the run in `[init] from`.
    Initial {
        /// Where that run is looked for.
        places: &'a Places,
        /// The run's own tokenizers, which decide whether tables of tokens fit.
        tokenizers: &'a Tokenizers,
    },
    /// A checkpoint, to train on.
    Trained(&'a Checkpoint),
    /// A checkpoint, to use: the averaged weights when it holds any.
    Evaluated(&'a Checkpoint),
    /// The mean of the weights of several files.
    Mean(&'a [PathBuf]),
}

/// The network with its weights; for weights of another run also a report of what was taken.
///
/// # Errors
/// A model that cannot learn the task; weights that are missing, damaged or another model's; what
/// [`transfer::weights`] returns.
pub fn model(
    experiment: &Experiment,
    shape: &Shape,
    device: &Device,
    weights: &Weights,
) -> Result<(Objective, Option<Transferred>)> {
    let model = objective(experiment, shape, device)?;
    Ok(match weights {
        Weights::Initial { places, tokenizers } => {
            let (model, taken) = transfer::weights(experiment, places, shape, tokenizers, model)?;
            (parameters::materialised(model), taken)
        }
        Weights::Trained(checkpoint) => (checkpoint.load_model(model)?, None),
        Weights::Evaluated(checkpoint) => {
            require_average(experiment, checkpoint)?;
            (checkpoint.load_evaluated(model)?, None)
        }
        Weights::Mean(files) => {
            let mean = mean(files, &model)?;
            (weights::fill(model, mean), None)
        }
    })
}

/// A model and what its training keeps beside it.
pub struct Training {
    /// The network with its objective.
    pub model: Objective,
    /// The parameters taken from another run, when `[init]` names one.
    pub transferred: Option<Transferred>,
    optimizer: ModuleOptimizer,
    average: Option<Ema<Objective>>,
    carried: Option<ModelState>,
    state: State,
    /// What the journal is to say before the next step.
    note: Option<&'static str>,
}

/// The model of a run that trains, with its optimizer, averaged weights and counters: those of a checkpoint for
/// [`Weights::Trained`], else those of step 0.
///
/// # Errors
/// Those of [`model`]; a group of `[optimizer]` that matches no parameter; a checkpoint without the average that
/// `train.ema` asks for, or beyond the last step of `[train]`.
pub fn training(
    experiment: &Experiment,
    shape: &Shape,
    device: &Device,
    weights: &Weights,
) -> Result<Training> {
    let (model, transferred) = self::model(experiment, shape, device, weights)?;
    let optimizer = optimizer(experiment, &model)?;
    let decay = experiment.train.ema;
    let carries = experiment.train.carry_state;
    let mut carried = carries.then(|| model.empty_state()).flatten();
    let (optimizer, average, state, note) = match weights {
        Weights::Trained(checkpoint) => {
            require_continuable(experiment, checkpoint)?;
            let average = decay.map(|decay| checkpoint.load_ema(decay, &model));
            if let Some(state) = &mut carried {
                let shape = [experiment.train.batch_size, experiment.model.d_model()];
                *state = checkpoint.load_carried(state, shape, device)?;
            }
            (
                checkpoint.load_optimizer(optimizer, &model)?,
                average.transpose()?,
                checkpoint.state().clone(),
                checkpoint.note(),
            )
        }
        Weights::Initial { .. } | Weights::Evaluated(_) | Weights::Mean(_) => {
            let average = decay.map(|decay| Ema::new(decay, &model));
            let state = State {
                drawn_part: true,
                ..State::default()
            };
            (optimizer, average, state, None)
        }
    };
    Ok(Training {
        model,
        transferred,
        optimizer,
        average,
        carried,
        state,
        note,
    })
}

/// An error when the experiment promises averaged weights that the checkpoint has not: others would be used for them.
pub fn require_average(experiment: &Experiment, checkpoint: &Checkpoint) -> Result<()> {
    match experiment.train.ema {
        Some(decay) if !checkpoint.has_ema() => Err(Error::run(format!(
            "checkpoint {}: it holds no averaged weights (ema.safetensors), which train.ema = {decay:?} promises",
            checkpoint.folder().display()
        ))),
        Some(_) | None => Ok(()),
    }
}

/// An error when `[train]` asks for what the checkpoint cannot continue.
fn require_continuable(experiment: &Experiment, checkpoint: &Checkpoint) -> Result<()> {
    let config = &experiment.train;
    if let (Some(decay), false) = (config.ema, checkpoint.has_ema()) {
        return Err(Error::usage(format!(
            "train.ema = {decay:?} cannot be switched on when a run is resumed: {} holds no averaged weights; leave it \
             out",
            checkpoint.folder().display()
        )));
    }
    let step = checkpoint.state().step;
    if step > config.steps {
        return Err(Error::usage(format!(
            "train.steps = {} lies before the run's newest checkpoint, step {step}; steps can be added to a run, not \
             taken back",
            config.steps
        )));
    }
    Ok(())
}

impl Training {
    /// Gives the model its teacher, where it learns from one; `held` is what it has learned from so far. The teacher's
    /// weights.
    ///
    /// # Errors
    /// As [`teacher::open`].
    pub fn take_teacher(
        &mut self,
        experiment: &Experiment,
        places: &Places,
        data: &Data,
        held: Option<&Print>,
    ) -> Result<Option<Print>> {
        let model = self.model.clone();
        let (model, print) = teacher::taught(experiment, places, data, held, model)?;
        self.model = model;
        Ok(print)
    }

    /// The keys that the coming steps take: those that differ from the ones of the steps before are written down with
    /// the next checkpoint. A checkpoint of an earlier version does not say what it was made with; then that is `before`.
    pub fn take_settings(
        &mut self,
        before: Option<BTreeMap<String, String>>,
        now: BTreeMap<String, String>,
    ) {
        if let (true, Some(before)) = (self.state.settings.is_empty(), before) {
            self.state.settings = before;
        }
        self.state.change_settings(now);
    }

    /// The model, and the job that trains it on `data` in the folder of `run`.
    pub fn job(
        self,
        experiment: &Experiment,
        data: &Data,
        run: RunDir,
        stop: Stop,
    ) -> (Objective, Job<Objective>) {
        let job = Job {
            config: experiment.train.clone(),
            diagnostics: experiment.diagnostics,
            journal: experiment.journal,
            seed: experiment.seed,
            optimizer: self.optimizer,
            base_lr: experiment.optimizer.lr(),
            schedule: schedule(experiment),
            unit: match experiment.model.item() {
                ItemOf::Token | ItemOf::Pair => "tokens",
                ItemOf::Image => "images",
            },
            perplexity: experiment.task.has_perplexity(),
            ema: self.average,
            carried: self.carried,
            train: data.train.clone(),
            valid: data.valid.clone().map(|source| Split {
                source,
                bytes_per_token: data.bytes_per_token.valid,
                carried: experiment.train.carry_state,
            }),
            run,
            state: self.state,
            last: None,
            note: self.note,
            stop,
        };
        (self.model, job)
    }
}

/// The optimizer, with the learning rates of `[init]`.
///
/// # Errors
/// A group that matches no parameter.
pub fn optimizer(experiment: &Experiment, model: &Objective) -> Result<ModuleOptimizer> {
    let depths = experiment.model.stack_depths();
    let scale = depths.and_then(|depths| experiment.init.lr_scale(depths));
    let all = parameters::list(model);
    let trained = match &experiment.lora {
        Some(lora) => lora.trained(all)?,
        None => all,
    };
    optim::build_scaled(&experiment.optimizer, &trained, scale)
}

/// The schedule, as the model's width makes it.
pub fn schedule(experiment: &Experiment) -> ScheduleConfig {
    experiment.schedule.for_width(experiment.model.d_model())
}
