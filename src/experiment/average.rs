//! The weight average that evaluations of an experiment use: the average of `[train] ema`, the optimizer's own average, or the
//! teacher average of a self-distillation task.

use super::Experiment;
use crate::train::ema::DecayRule;

/// Returns the update rule of the average, if the experiment has one.
pub fn rule(experiment: &Experiment) -> Option<DecayRule> {
    let warmup_steps = experiment.schedule.warmup_steps();
    let own = experiment.optimizer.averaging(warmup_steps);
    let asked = experiment.train.ema.map(DecayRule::Constant);
    let teaching = experiment.task.facts().teacher_momentum();
    let teaching = teaching.map(|from| DecayRule::Teacher {
        from,
        steps: experiment.train.steps,
    });
    teaching.or(own.map(DecayRule::OptimizerAverage)).or(asked)
}

/// Returns the key that asks for the average, in TOML syntax.
pub fn key(experiment: &Experiment) -> Option<String> {
    rule(experiment).map(|rule| match rule {
        DecayRule::Constant(decay) => format!("train.ema = {decay:?}"),
        DecayRule::OptimizerAverage(_) => "optimizer.kind = \"schedule_free\"".into(),
        DecayRule::Teacher { .. } => format!("task.kind = \"{}\"", experiment.task.kind()),
    })
}
