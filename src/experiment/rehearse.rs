//! What `train` refuses before there is a folder, without training: the data is read, the tokenizer made, the model built
//! with no parameter drawn, `[init]` and `[optimizer]` held against it. Each step is the function that a run takes.

use super::{
    Loaded, assemble, cost, counted, data_files, epochs, judge, run, teacher, training, transfer,
};
use crate::data::Data;
use crate::device;
use crate::error::Result;

/// What a rehearsal gives.
#[derive(Default)]
pub struct Rehearsed {
    /// The experiment with the steps that its epochs make, where it has epochs.
    pub settled: Option<Loaded>,
    /// Messages about the data, and its size.
    pub said: Vec<String>,
}

/// Everything that a new run of a checked experiment can be refused for but its folder and its device. Memory is that of
/// this machine.
///
/// # Errors
/// What `train` would be refused with.
pub fn rehearse(loaded: &Loaded) -> Result<Rehearsed> {
    let (experiment, places) = (&loaded.experiment, loaded.places());
    for (_, folder) in transfer::folders(experiment, &places) {
        folder?;
    }
    let data = assemble::data_to_train_on(loaded)?;
    with_data(loaded, &data)?;
    let mut said = counted::said(experiment, &data);
    said.extend(data_files::held_out_too(experiment, &places)?);
    Ok(Rehearsed {
        settled: epochs::settled(loaded, &data)?,
        said,
    })
}

/// [`rehearse`] with its data, which experiments may share.
///
/// # Errors
/// As [`rehearse`].
pub fn with_data(loaded: &Loaded, data: &Data) -> Result<()> {
    let (experiment, places) = (&loaded.experiment, loaded.places());
    run::require_data(experiment, data)?;
    assemble::require_classes(experiment, &data.shape)?;
    cost::require_memory(experiment, &places, &data.shape)?;
    let model = assemble::objective(experiment, &data.shape, &device::host())?;
    let (shape, tokenizers) = (&data.shape, &data.tokenizers);
    let (model, _) = transfer::weights(experiment, &places, shape, tokenizers, model)?;
    training::optimizer(experiment, &model)?;
    teacher::open(experiment, &places, (shape, tokenizers), None)?;
    judge::told(experiment, &places, (shape, tokenizers), None)?;
    Ok(())
}
