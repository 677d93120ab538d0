//! Checks everything that `train` checks before it creates a folder, without training: reads the data, makes the tokenizer,
//! builds the model without initialising parameters, and checks `[init]` and `[optimizer]` against it. Each step calls the same
//! function as a run.

use super::{
    LoadedExperiment, assemble, cost, data_files, data_summary, epochs, judge, run, teacher,
    training, transfer,
};
use crate::data::Data;
use crate::device;
use crate::error::Result;

/// Result of a rehearsal.
#[derive(Default)]
pub struct PreflightResult {
    /// The experiment with the steps that its epochs amount to, if it has epochs.
    pub with_steps: Option<LoadedExperiment>,
    /// Messages about the data, and its size.
    pub messages: Vec<String>,
}

/// Checks everything for which a new run of a checked experiment can be refused, except its folder and its device. The memory
/// is that of this machine.
///
/// # Errors
/// If `train` would refuse the experiment.
pub fn preflight(loaded: &LoadedExperiment) -> Result<PreflightResult> {
    let (experiment, places) = (&loaded.experiment, loaded.places());
    for (_, folder) in transfer::folders(experiment, &places) {
        folder?;
    }
    let data = assemble::training_data(loaded)?;
    with_data(loaded, &data)?;
    let mut said = data_summary::messages(experiment, &data);
    said.extend(data_files::shared_files_warning(experiment, &places)?);
    Ok(PreflightResult {
        with_steps: epochs::with_steps(loaded, &data)?,
        messages: said,
    })
}

/// As [`preflight`], with data that is already read, so that experiments can share it.
///
/// # Errors
/// As [`preflight`].
pub fn with_data(loaded: &LoadedExperiment, data: &Data) -> Result<()> {
    let (experiment, places) = (&loaded.experiment, loaded.places());
    run::require_data(experiment, data)?;
    assemble::require_classes(experiment, &data.shape)?;
    cost::require_memory(experiment, &places, &data.shape)?;
    let model = assemble::objective(experiment, &data.shape, &device::host())?;
    let (shape, tokenizers) = (&data.shape, &data.tokenizers);
    let (model, _) = transfer::weights(experiment, &places, shape, tokenizers, model)?;
    training::optimizer(experiment, &model)?;
    teacher::open(experiment, &places, (shape, tokenizers), None)?;
    judge::build(experiment, &places, (shape, tokenizers), None)?;
    Ok(())
}
