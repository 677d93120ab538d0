//! Builds the parts of a run from a checked experiment: the only module where device, data, model and weights come together.
//!
//! [`model`] builds the network and fills in its weights from any source ([`WeightSource`]). [`training`](super::training) adds the
//! optimizer, the weight average and the counters that belong to these weights. A new run, a resumed one and one that is opened
//! for use differ only in the [`WeightSource`].

use super::transfer::{self, limit, rows};
use super::{Experiment, LoadedExperiment, average, check, chunk_encoder};
use crate::data::images::{ViewsConfig, WithViews};
use crate::data::weighted_source::WeightedSource;
use crate::data::{self, Data, Request, SearchPath, Shape, Tokenizers};
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::kernel;
use crate::model::{BuildContext, Use};
use crate::task::class_weights::ClassWeights;
use crate::task::{Objective, TrainableModel};
use crate::train::checkpoint::mean::mean;
use crate::train::checkpoint::{Checkpoint, weights};
use crate::train::config::Dtype;
use crate::train::parameters;
use crate::train::transfer::Transferred;
use burn::tensor::{DType, Device, FloatDType, IntDType};
use std::path::PathBuf;
use std::sync::Arc;

/// Opens the device of `[train]`, for training or (without gradients) for inference. Weights and activations take the format of
/// `train.dtype`, which the first tensor fixes for the whole process.
///
/// # Errors
/// If the device is not available, or does not compute in that format.
pub fn device(experiment: &Experiment, training: bool) -> Result<Device> {
    device_at(experiment, training, None)
}

/// As [`device`]; on a machine with several GPUs, takes GPU number `gpu` if the experiment names none.
///
/// # Errors
/// Those of [`device`].
pub fn device_at(experiment: &Experiment, training: bool, gpu: Option<usize>) -> Result<Device> {
    let name: DeviceName = experiment.train.device.parse()?;
    let mut device = name.with_gpu_index(gpu).open()?;
    let rounds = experiment.train.dtype == Dtype::MixedBf16;
    if rounds && !device.supports_dtype(DType::BF16) {
        return Err(Error::usage(format!(
            "train.dtype = \"mixed_bf16\": device `{}` cannot multiply in bfloat16; use \"f32\" on this device",
            experiment.train.device
        )));
    }
    if !experiment.train.tf32 && cfg!(feature = "fusion") {
        return Err(Error::usage(
            "train.tf32 = false: this build fuses operations and uses Burn's matrix products, which round to TF32; build \
             without `fusion`",
        ));
    }
    kernel::round_operands(rounds);
    kernel::allow_tf32(experiment.train.tf32);
    let dtype = match experiment.train.dtype {
        Dtype::F32 | Dtype::MixedBf16 => None,
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

/// Opens the device of `[train]` without gradients and leaves its number format as it is.
///
/// # Errors
/// If the device is not available.
pub fn unconfigured_device(experiment: &Experiment) -> Result<Device> {
    experiment.train.device.parse::<DeviceName>()?.open()
}

/// Reads or generates the data. `saved` are the tokenizers stored in the run, and `run` is the shape that its data had when it
/// began; both are empty for a new run. The vocabulary size is made to match the embedding tables of the run, or of the run
/// that a new one starts from.
///
/// # Errors
/// If `[data]` or `[tokenizer]` is wrong; if files are missing, damaged or not what the keys say; if a split is too short for
/// one window; if the data has classes that the run lacks. All of this is found before training starts.
pub fn data(
    experiment: &Experiment,
    places: &SearchPath,
    saved: &Tokenizers,
    run: Option<&Shape>,
) -> Result<Data> {
    let request = Request {
        tokenizer: experiment.tokenizer.as_ref(),
        saved_tokenizers: saved,
        run_shape: run,
        places,
        seed: experiment.seed,
        view: &experiment.task.view(),
        compares_answers: experiment.task.facts().whole_answers(),
        retrieval: chunk_encoder::chunking(experiment, places)?,
    };
    let mut data = data::prepare(&experiment.data, &request).map_err(Error::into_usage_error)?;
    match run {
        Some(run) => rows::raise_to_run(run, &mut data.shape),
        None => {
            limit::inherit_limit(experiment, places, &mut data.shape)?;
            rows::inherit_rows(experiment, places, &mut data.shape, &data.tokenizers)?;
        }
    }
    data.train = experiment.task.facts().targets().of(data.train);
    if let Some(views) = experiment.task.facts().views() {
        add_views(views, &mut data, experiment.seed);
    }
    match experiment.task.facts().class_weights() {
        Some(weights) => {
            let table = match experiment.task.distillation() {
                Some(_) => "task.of",
                None => "task",
            };
            with_class_weights((table, weights), data, run)
        }
        None => Ok(data),
    }
}

/// Wraps the images of all splits so that they yield augmented views.
fn add_views(views: &ViewsConfig, data: &mut Data, seed: u64) {
    let shape = &data.shape;
    data.train = WithViews::of(data.train.clone(), views, shape, seed);
    for held_out in [&mut data.valid, &mut data.test] {
        *held_out = held_out
            .take()
            .map(|images| WithViews::of(images, views, shape, seed));
    }
}

/// Attaches class weights to the data. Weights that are counted from the training examples are taken from the run if it has
/// stored them.
fn with_class_weights(
    (table, weights): (&str, &ClassWeights),
    mut data: Data,
    run: Option<&Shape>,
) -> Result<Data> {
    let known = run.map_or_else(Vec::new, |run| run.class_weights.clone());
    let all = match weights.is_balanced() && known.len() == data.shape.classes.len() {
        true => known,
        false => weights.resolve(table, &data.shape.classes, data.train.as_ref())?,
    };
    if weights.is_balanced() {
        data.shape.class_weights.clone_from(&all);
    }
    let all: Arc<[f32]> = all.into();
    data.train = WeightedSource::of(data.train, all.clone());
    for held_out in [&mut data.valid, &mut data.test] {
        *held_out = held_out
            .take()
            .map(|source| WeightedSource::of(source, all.clone()));
    }
    Ok(data)
}

/// Prepares [`data`] for a new run, with the tokenizer of the run in `[init] from` if the experiment names none.
///
/// # Errors
/// As [`data`], located at the keys that caused them; if there is no run where `[init]` says.
pub fn training_data(loaded: &LoadedExperiment) -> Result<Data> {
    let (experiment, places) = (&loaded.experiment, loaded.places());
    let tokenizers = transfer::tokenizers(experiment, &places)?;
    data(experiment, &places, &tokenizers, None).map_err(|error| check::locate_error(loaded, error))
}

/// Builds the network with its objective and its adapters. Every parameter is named by its path, and none is initialised yet.
///
/// # Errors
/// If the model cannot learn the task, or patterns of `[init]` and `[lora]` match nothing.
pub fn objective(experiment: &Experiment, shape: &Shape, device: &Device) -> Result<Objective> {
    let inputs = BuildContext {
        shape,
        seed: experiment.seed,
        device,
    };
    let exact = experiment.data.data_set().has_answers();
    let objective = experiment.task.init(&experiment.model, &inputs, exact)?;
    if experiment.train.carry_state && objective.empty_state().is_none() {
        return Err(Error::usage(
            "[train] carry_state = true has no effect: the model keeps no state from one step to the next; use a recurrent or \
             memory layer, or remove carry_state",
        ));
    }
    let objective = parameters::name_parameters(objective);
    match &experiment.lora {
        Some(lora) => lora.attach(objective, experiment.seed),
        None => experiment.init.freeze_matching(objective),
    }
}

/// The source of a model's weights.
pub enum WeightSource<'a> {
    /// Random initialisation by the seed, or the run in `[init] from`.
    Initial {
        /// Where that run is searched for.
        places: &'a SearchPath,
        /// The run's own tokenizers, which decide whether embedding tables can be copied.
        tokenizers: &'a Tokenizers,
    },
    /// A checkpoint, for further training.
    ForTraining(&'a Checkpoint),
    /// A checkpoint, for use: its averaged weights if it has any.
    ForInference(&'a Checkpoint),
    /// As `Evaluated`, for use beside another run, in whose number format the weights are loaded.
    ForCompanion(&'a Checkpoint),
    /// The mean of the weights of several files.
    Mean(&'a [PathBuf]),
}

/// Builds the network with its weights. If they come from another run, also returns a report of what was taken.
///
/// # Errors
/// If the model cannot learn the task; if weights are missing, damaged or belong to another model; the errors of
/// [`transfer::weights`].
pub fn model(
    experiment: &Experiment,
    shape: &Shape,
    device: &Device,
    weights: &WeightSource,
) -> Result<(Objective, Option<Transferred>)> {
    if let WeightSource::Initial { .. } | WeightSource::ForTraining(_) = weights {
        require_classes(experiment, shape)?;
    }
    let model = objective(experiment, shape, device)?;
    Ok(match weights {
        WeightSource::Initial { places, tokenizers } => {
            let (model, taken) = transfer::weights(experiment, places, shape, tokenizers, model)?;
            (parameters::materialize(model), taken)
        }
        WeightSource::ForTraining(checkpoint) => (checkpoint.load_model(model)?, None),
        WeightSource::ForInference(checkpoint) => {
            require_average(experiment, checkpoint)?;
            (checkpoint.load_evaluated(model)?, None)
        }
        WeightSource::ForCompanion(checkpoint) => {
            require_average(experiment, checkpoint)?;
            (checkpoint.load_converted(model)?, None)
        }
        WeightSource::Mean(files) => {
            let mean = mean(files, &model)?;
            (weights::fill(model, mean)?, None)
        }
    })
}

/// Checks that there is more than one class to learn, since the probability of a single class is always 1. A published model
/// may have a single score.
///
/// # Errors
/// If the data has a single class.
pub fn require_classes(experiment: &Experiment, shape: &Shape) -> Result<()> {
    match (experiment.task.network_use(), shape.classes.len()) {
        (Use::TextClasses | Use::TokenClasses | Use::ImageClasses, 1) => {
            Err(Error::usage(format!(
                "[task] {} needs at least two classes; the data has one",
                experiment.task.kind()
            )))
        }
        _ => Ok(()),
    }
}

/// Returns an error if the experiment asks for averaged weights and the checkpoint has none: the plain weights would be used
/// silently.
pub fn require_average(experiment: &Experiment, checkpoint: &Checkpoint) -> Result<()> {
    match average::key(experiment) {
        Some(key) if !checkpoint.has_ema() => Err(Error::run(format!(
            "checkpoint {}: it has no averaged weights (ema.safetensors), but {key} requires them",
            checkpoint.folder().display()
        ))),
        Some(_) | None => Ok(()),
    }
}
