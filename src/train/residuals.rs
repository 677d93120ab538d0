//! Residual scales that a new run begins with, if they are measured ([`crate::stack::residual_scale::admin`]): the
//! first examples of its first step go through the untrained network, one by one. So the result does not depend on
//! micro-batches, on padding or on which rank holds the examples: every rank measures the same.

use super::config::TrainConfig;
use crate::data::Source;
use crate::data::loader;
use crate::error::Result;
use crate::nn::branches::ResidualMoments;
use crate::task::Objective;

/// Measures the residual connections of `model` on the first `examples` examples of the first step.
///
/// # Errors
/// If the data cannot be read.
pub fn measure_residuals(
    model: &Objective,
    config: &TrainConfig,
    (source, seed): (&dyn Source, u64),
    examples: usize,
) -> Result<ResidualMoments> {
    let mut order = config.order(seed);
    let mut branches = ResidualMoments::default();
    for number in 0..examples {
        let one = |all: usize| number.min(all)..(number + 1).min(all);
        let share = loader::step_share(source, &mut order, 1, 0, &one)?;
        let Some(mut batch) = share.as_whole_step().pop() else {
            break;
        };
        batch.steps = config.steps;
        branches = model.measure_residuals(&batch, branches);
    }
    Ok(branches)
}
