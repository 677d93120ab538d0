//! Builds the optimizer of an experiment.

use crate::error::Result;
use crate::experiment::Experiment;
use crate::nn::role::Role;
use crate::stack::mup;
use crate::task::Objective;
use crate::train::optim::{self, Factors, FactorsByRole};
use crate::train::parameters::{self, Parameter};
use burn::optim::ModuleOptimizer;

/// Builds the optimizer, with the per-layer learning rates of `[init]`.
///
/// # Errors
/// If a group matches no parameter.
pub fn optimizer(experiment: &Experiment, model: &Objective) -> Result<ModuleOptimizer> {
    let trained = trainable_parameters(experiment, model)?;
    let (config, by_role) = (&experiment.optimizer, role_factors(experiment));
    let warmup_steps = experiment.schedule.warmup_steps();
    optim::build_scaled(config, &trained, by_role, warmup_steps)
}

/// Factors on the learning rate and the weight decay of each parameter, by its layer (`[init] layer_lr_decay`) and by the
/// model's width (`[model.mup]`).
fn role_factors(experiment: &Experiment) -> Option<FactorsByRole<'static>> {
    let depths = experiment.model.stack_depths();
    let by_layer = depths.and_then(|depths| experiment.init.lr_scale(depths));
    let transformer = experiment.model.transformer();
    let width = transformer.map_or(1.0, |model| model.stack.width_ratio());
    let apart = experiment.optimizer.has_decoupled_decay();
    let by_width = move |role: Role| {
        let rate = mup::learning_rate_factor(role, width);
        Factors {
            lr: rate,
            weight_decay: if apart { 1.0 / rate } else { 1.0 },
        }
    };
    match (by_layer, width == 1.0) {
        (by_layer, true) => by_layer,
        (None, false) => Some(Box::new(by_width)),
        (Some(by_layer), false) => Some(Box::new(move |role| by_layer(role).times(by_width(role)))),
    }
}

/// The parameters to optimize: only those of adapters, if there are any.
pub(super) fn trainable_parameters(
    experiment: &Experiment,
    model: &Objective,
) -> Result<Vec<Parameter>> {
    let all = parameters::list(model);
    match &experiment.lora {
        Some(lora) => lora.trainable(all),
        None => Ok(all),
    }
}
