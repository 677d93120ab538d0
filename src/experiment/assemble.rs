//! From a checked experiment to the things that run: device, data, model, optimizer, job.

use super::{Experiment, transfer};
use crate::data::{self, Data, Places, Request, Shape, Tokenizers};
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::model::{ItemOf, ModelConfig, ModelInputs};
use crate::nn::position::Grid;
use crate::nn::position::resample::resample_grid;
use crate::task::Objective;
use crate::train::checkpoint::State;
use crate::train::config::Dtype;
use crate::train::ema::Ema;
use crate::train::evaluation::Split;
use crate::train::job::Job;
use crate::train::optim;
use crate::train::parameters;
use crate::train::run_dir::RunDir;
use crate::train::schedule::ScheduleConfig;
use crate::train::signal::Stop;
use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, FloatDType, IntDType, Tensor, TensorData};

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

/// Reads or generates the data; `saved` are the run's own tokenizers when there are any.
///
/// # Errors
/// Faults of `[data]` and `[tokenizer]`, files that are missing, damaged or not what the keys say, a split too short
/// for one window: all of them before anything runs.
pub fn data(experiment: &Experiment, places: &Places, saved: &Tokenizers) -> Result<Data> {
    let request = Request {
        tokenizer: experiment.tokenizer.as_ref(),
        saved,
        places,
        seed: experiment.seed,
        view: &experiment.task.view(),
    };
    data::prepare(&experiment.data, &request).map_err(Error::before_running)
}

/// [`data`] for a new run, with the tokenizer of the run that it begins from when it names none.
///
/// # Errors
/// Those of [`data`], and no run where `[init]` says.
pub fn data_to_train_on(experiment: &Experiment, places: &Places) -> Result<Data> {
    data(
        experiment,
        places,
        &transfer::tokenizers(experiment, places)?,
    )
}

/// The network with its objective, every parameter named by its path and none drawn yet.
///
/// # Errors
/// A model that cannot learn the task.
pub fn objective(experiment: &Experiment, shape: &Shape, device: &Device) -> Result<Objective> {
    let inputs = ModelInputs {
        shape,
        seed: experiment.seed,
        device,
    };
    let exact = experiment.data.set().has_answers();
    let objective = experiment.task.init(&experiment.model, &inputs, exact)?;
    experiment
        .init
        .frozen(parameters::name_parameters(objective))
}

/// How the experiment's model cuts images of a size into patches; `None` when it reads no patches.
pub fn grid(experiment: &Experiment, image: Option<[usize; 3]>) -> Option<Grid> {
    match (&experiment.model, image) {
        (ModelConfig::Vision(c), Some([_, height, width])) => Some(c.grid(height, width)),
        _ => None,
    }
}

/// A table of positions for another number of them: of the patches of images of the first size for those of the
/// second by their two sides, of a text along it. `None` when it is no such table.
pub fn resampled(
    experiment: &Experiment,
    images: [Option<[usize; 3]>; 2],
    data: &TensorData,
    shape: &[usize],
) -> Option<TensorData> {
    let (&[from, width], &[to, d]) = (&data.shape().to_vec()[..], shape) else {
        return None;
    };
    if width != d || from == 0 {
        return None;
    }
    let table: Vec<f32> = data.iter::<f32>().collect();
    let values = match images.map(|image| grid(experiment, image)) {
        [Some(theirs), Some(ours)] => {
            if theirs.positions() != from || ours.positions() != to {
                return None;
            }
            let data = TensorData::new(table, [from, d]);
            let table = Tensor::<2>::from_data(data, &Device::default());
            let sides = |grid: Grid| [grid.rows, grid.cols];
            let table = resample_grid(table, sides(theirs), sides(ours), ours.class_token);
            table.into_data().iter::<f32>().collect()
        }
        _ => transfer::stretched(&table, from, to, d),
    };
    Some(TensorData::new(values, [to, d]).convert_dtype(data.dtype()))
}

/// The optimizer, with the learning rates of `[init]`.
///
/// # Errors
/// A group of `[optimizer]` that matches no parameter.
pub fn optimizer(experiment: &Experiment, model: &Objective) -> Result<ModuleOptimizer> {
    let transformer = experiment.model.transformer();
    let stacks = transformer.iter().flat_map(|t| t.depths());
    let layers = stacks.map(|depth| depth.blocks()).max().unwrap_or(0);
    let scale = experiment.init.lr_scale(layers);
    optim::build_scaled(&experiment.optimizer, model, scale)
}

/// The schedule, as the model's width makes it.
pub fn schedule(experiment: &Experiment) -> ScheduleConfig {
    experiment.schedule.for_width(experiment.model.d_model())
}

/// A fresh job: step 0, initial weights, empty optimizer.
///
/// # Errors
/// A group of `[optimizer]` that matches no parameter.
pub fn job(
    experiment: &Experiment,
    data: &Data,
    model: &Objective,
    optimizer: ModuleOptimizer,
    run: RunDir,
    stop: Stop,
) -> Job<Objective> {
    Job {
        config: experiment.train.clone(),
        diagnostics: experiment.diagnostics,
        journal: experiment.journal,
        seed: experiment.seed,
        optimizer,
        base_lr: experiment.optimizer.lr(),
        schedule: schedule(experiment),
        unit: match experiment.model.item() {
            ItemOf::Token | ItemOf::Pair => "tokens",
            ItemOf::Image => "images",
        },
        ema: experiment.train.ema.map(|decay| Ema::new(decay, model)),
        train: data.train.clone(),
        valid: data.valid.clone().map(|source| Split {
            source,
            bytes_per_token: data.bytes_per_token.valid,
        }),
        run,
        state: State::default(),
        last: None,
        notes: Vec::new(),
        stop,
    }
}
