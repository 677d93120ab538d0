//! The average of the weights that evaluations of an experiment use: that of `[train] ema`, the own one of its optimizer, or the one
//! that teaches its task.

use super::Experiment;
use crate::train::ema::Rule;

/// How it follows the weights, where there is one.
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

/// The key that asks for it, as TOML has it.
pub fn key(experiment: &Experiment) -> Option<String> {
    rule(experiment).map(|rule| match rule {
        Rule::Constant(decay) => format!("train.ema = {decay:?}"),
        Rule::Own(_) => "optimizer.kind = \"schedule_free\"".into(),
        Rule::Teaching { .. } => format!("task.kind = \"{}\"", experiment.task.kind()),
    })
}
