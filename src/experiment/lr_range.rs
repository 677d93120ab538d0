//! Learning-rate range test of an experiment: uses its model, data and optimizer, without a run folder.

use super::assemble::{self, Weights};
use super::{Experiment, Loaded, cost, judge, teacher, training};
use crate::error::{Error, Fault, Result};
use crate::train::lr_range::{self, Range, TestStep};

/// Returns the `optimizer.lr` with which the schedule peaks at `rate`: the rate itself, unless `lr` is a factor of the
/// schedule's formula.
pub fn key_for(experiment: &Experiment, rate: f64) -> f64 {
    rate / training::schedule(experiment).peak(1.0)
}

/// Trains the experiment's model at rising learning rates; writes nothing.
///
/// # Errors
/// If `train` would refuse the experiment, or data cannot be read.
pub fn test(loaded: &Loaded, range: Range) -> Result<Vec<TestStep>> {
    let (experiment, places) = (&loaded.experiment, loaded.places());
    if experiment.task.grpo().is_some() {
        return Err(Error::Invalid(vec![Fault::new(
            "[task] kind = \"grpo\" has no learning-rate range test: its loss goes around 0 and does not tell how well a step did; try rates \
             by the metric `reward` with formwork train",
        )]));
    }
    let data = assemble::data_to_train_on(loaded)?;
    cost::require_memory(experiment, &places, &data.shape)?;
    let device = assemble::device(experiment, true)?;
    let weights = Weights::Initial {
        places: &places,
        tokenizers: &data.tokenizers,
    };
    let (model, taken) = assemble::model(experiment, &data.shape, &device, &weights)?;
    let optimizer = training::optimizer(experiment, &model)?;
    let model = teacher::taught(experiment, &places, &data, None, model)?.model;
    let of_data = (&data.shape, &data.tokenizers);
    let (mut model, _) = judge::with_judge(experiment, &places, of_data, None, model)?;
    if taken.is_none() {
        model = training::scaled_skips(experiment, &data, model)?;
    }
    let source = (data.train.clone(), experiment.seed);
    lr_range::test(model, optimizer, &experiment.train, source, range)
}
