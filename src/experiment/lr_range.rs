//! Learning-rate range test of an experiment: uses its model, data and optimizer, without a run folder.

use super::assemble::{self, WeightSource};
use super::{Experiment, LoadedExperiment, cost, judge, teacher, training};
use crate::error::{Error, Fault, Result};
use crate::train::lr_range::{self, RateRange, TestStep};

/// Returns the `optimizer.lr` with which the schedule peaks at `rate`: the rate itself, unless `lr` is a factor of the
/// schedule's formula.
pub fn lr_for_peak(experiment: &Experiment, rate: f64) -> f64 {
    rate / training::schedule(experiment).peak(1.0)
}

/// Trains the experiment's model at rising learning rates; writes nothing.
///
/// # Errors
/// If `train` would refuse the experiment, or data cannot be read.
pub fn test(loaded: &LoadedExperiment, range: RateRange) -> Result<Vec<TestStep>> {
    let (experiment, places) = (&loaded.experiment, loaded.places());
    if experiment.task.grpo().is_some() {
        return Err(Error::Invalid(vec![Fault::new(
            "[task] kind = \"grpo\" has no learning-rate range test: its loss varies around 0 and does not measure the success \
             of a step; compare learning rates by the metric `reward` of formwork train",
        )]));
    }
    let data = assemble::training_data(loaded)?;
    cost::require_memory(experiment, &places, &data.shape)?;
    let device = assemble::device(experiment, true)?;
    let weights = WeightSource::Initial {
        places: &places,
        tokenizers: &data.tokenizers,
    };
    let (model, taken) = assemble::model(experiment, &data.shape, &device, &weights)?;
    let optimizer = training::optimizer(experiment, &model)?;
    let model = teacher::with_teacher(experiment, &places, &data, None, model)?.model;
    let of_data = (&data.shape, &data.tokenizers);
    let (mut model, _) = judge::with_judge(experiment, &places, of_data, None, model)?;
    if taken.is_none() {
        model = training::with_residual_scales(experiment, &data, model)?;
    }
    let source = (data.train.clone(), experiment.seed);
    lr_range::run_test(model, optimizer, &experiment.train, source, range)
}
