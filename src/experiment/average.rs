//! The weight average that evaluations of an experiment use: the average of `[train] ema`, the optimizer's own average, or the
//! teacher average of a self-distillation task.

use super::Experiment;
use crate::train::ema::Rule;

/// Returns the update rule of the average, if the experiment has one.
pub fn rule(experiment: &Experiment) -> Option<Rule> {
    let warmup_steps = experiment.schedule.warmup_steps();
    let own = experiment.optimizer.averaging(warmup_steps);
    let asked = experiment.train.ema.map(Rule::Constant);
    let teaching = experiment.task.facts().teacher_momentum();
    let teaching = teaching.map(|from| Rule::Teaching {
        from,
        steps: experiment.train.steps,
    });
    teaching.or(own.map(Rule::Own)).or(asked)
}

/// Returns the key that asks for the average, in TOML syntax.
pub fn key(experiment: &Experiment) -> Option<String> {
    rule(experiment).map(|rule| match rule {
        Rule::Constant(decay) => format!("train.ema = {decay:?}"),
        Rule::Own(_) => "optimizer.kind = \"schedule_free\"".into(),
        Rule::Teaching { .. } => format!("task.kind = \"{}\"", experiment.task.kind()),
    })
}
