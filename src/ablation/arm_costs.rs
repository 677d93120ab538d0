//! Costs of arms: FLOPs, items and the time of a step.

use super::matching::Cost;
use super::prepared::PreparedArm;
use crate::data::Data;
use crate::error::Result;
use crate::experiment::cost::{self, StepTime};
use crate::experiment::{LoadedExperiment, assemble, epochs};

/// Computes costs; data is read once for consecutive arms that use the same.
#[derive(Default)]
pub(super) struct Costs(Option<(String, Data)>);

impl Costs {
    pub(super) fn data(&mut self, loaded: &LoadedExperiment) -> Result<&Data> {
        let e = &loaded.experiment;
        let key = format!(
            "{:?} {:?} {:?} {:?} {}",
            e.data, e.tokenizer, e.task, e.init, e.seed
        );
        let data = match self.0.take() {
            Some((known, data)) if known == key => data,
            _ => assemble::training_data(loaded)?,
        };
        Ok(&self.0.insert((key, data)).1)
    }

    pub(super) fn cost_of(&mut self, loaded: &LoadedExperiment) -> Result<Cost> {
        let experiment = &loaded.experiment;
        let data = self.data(loaded)?;
        let steps = epochs::steps(experiment, data).unwrap_or(experiment.train.steps);
        let shape = &data.shape;
        let plan = cost::plan(experiment, &loaded.places(), shape)?;
        Ok(Cost {
            steps,
            params: plan.params,
            flops_per_item: plan.flops_per_item,
            items_per_step: cost::items_per_step(experiment, shape),
            step_ms: None,
        })
    }
}

/// Times a few steps of an arm, in milliseconds.
///
/// # Errors
/// The error that a run of the arm would end with.
pub fn step_ms(arm: &PreparedArm) -> Result<StepTime> {
    let data = assemble::training_data(&arm.loaded)?;
    cost::step_ms(&arm.loaded.experiment, &arm.loaded.places(), &data)
}

/// Measures the step times of the arms that were not planned before, and of the baseline, which they must match.
pub(super) fn time_arms(
    arms: &mut [PreparedArm],
    at: usize,
    known: &[Option<u64>],
    costs: &mut Costs,
) -> Result<()> {
    if known.iter().all(Option::is_some) {
        return Ok(());
    }
    for (i, arm) in arms.iter_mut().enumerate() {
        if i == at || known[i].is_none() {
            let (experiment, places) = (&arm.loaded.experiment, arm.loaded.places());
            let time = cost::step_ms(experiment, &places, costs.data(&arm.loaded)?)?;
            arm.cost.step_ms = Some(time.ms);
        }
    }
    Ok(())
}
