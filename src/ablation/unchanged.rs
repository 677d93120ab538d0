//! Whether a file still describes the sweep that a folder holds, where its data is not there to plan with.
//!
//! Steps and widths that follow from the data are not compared, but the rule by which they do. Paths are compared by their last
//! part: those of an arm's file lead elsewhere once nothing is found at them.

use crate::ablation::folders::Before;
use crate::ablation::matching::WIDTH;
use crate::ablation::planner;
use crate::ablation::prepared::Prepared;
use crate::ablation::settings::ArmSettings;
use crate::error::Result;
use crate::experiment;
use crate::experiment::ablation::{AblationConfig, Matched};
use crate::report::read::sweep::{PlannedArm, SweepPlan};
use std::collections::BTreeMap;
use std::path::Path;

/// Whether the sweep of a file is the one that is there.
///
/// # Errors
/// Those of the file that need no data to be found.
pub fn is_same(path: &Path, sets: &[String], before: &Before) -> Result<bool> {
    let Some(plan) = &before.plan else {
        return Ok(false);
    };
    let loaded = experiment::load(path, sets)?;
    let config = planner::ablation(&loaded, path)?;
    let (arms, _) = planner::prepared(&loaded, sets, config)?;
    let first = loaded.experiment.seed;
    let seeds = (0..config.seeds).map(|number| first + number);
    let alike = plan.name == loaded.experiment.name
        && plan.metric == config.metric
        && plan.baseline == planner::baseline(&loaded, config, &arms)?
        && plan.budget == planner::budget(config)
        && plan.halving.is_some() == config.halving.is_some()
        && plan.seeds.iter().copied().eq(seeds)
        && plan.arms.len() == arms.len();
    if !alike {
        return Ok(false);
    }
    for arm in &arms {
        if !is_same_arm(arm, config, plan, before)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_same_arm(
    arm: &Prepared,
    config: &AblationConfig,
    plan: &SweepPlan,
    before: &Before,
) -> Result<bool> {
    let named = |there: &&PlannedArm| there.name == arm.name;
    let Some(there) = plan.arms.iter().find(named) else {
        return Ok(false);
    };
    let Some(was) = before.arm(&there.folder) else {
        return Ok(false);
    };
    let widened = config.matched == Some(Matched::Parameters);
    let counts = |key: &str| !(widened && key == WIDTH);
    let own = ArmSettings::of(&arm.loaded)?;
    let train = &arm.loaded.experiment.train;
    let has_steps = train.epochs.is_some()
        || config.matched.is_some()
        || config.budget.is_some()
        || there.steps == train.steps;
    Ok(has_steps
        && settings(&there.settings, counts) == settings(&arm.settings, counts)
        && compared(&own, counts) == compared(was, counts))
}

/// The settings by which an arm differs from the others.
fn settings(all: &BTreeMap<String, String>, counts: impl Fn(&str) -> bool) -> BTreeMap<&str, &str> {
    let all = all
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    all.filter(|(key, _)| counts(key)).collect()
}

/// All settings of an arm.
fn compared(all: &ArmSettings, counts: impl Fn(&str) -> bool) -> BTreeMap<&str, String> {
    let all = all.but_for_steps();
    let all = all.filter(|(key, _)| counts(key));
    all.map(|(key, value)| (key.as_str(), without_folders(value)))
        .collect()
}

/// A value with the last part of each path alone.
fn without_folders(value: &str) -> String {
    let parts = value.split('"').enumerate();
    let parts = parts.map(|(number, part)| match number % 2 {
        1 => part.rsplit('/').next().unwrap_or(part),
        _ => part,
    });
    parts.collect::<Vec<_>>().join("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_by_their_last_part() {
        assert_eq!(without_folders(r#""../../a/b.txt""#), r#""b.txt""#);
        assert_eq!(without_folders(r#"["x/a", "b"]"#), r#"["a", "b"]"#);
        assert_eq!(without_folders("1e-3"), "1e-3");
    }
}
