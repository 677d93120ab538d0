//! Checks whether a file still describes the sweep in a folder, if the data for planning it is missing.
//!
//! Steps and widths that are computed from the data are not compared, only the rules for computing them. Steps that
//! follow from `train.epochs` have no such rule in the plan, so that such a file is never recognised. Of two paths, one
//! may have further leading parts: the paths in an arm's file are resolved differently if nothing is found at them.

use crate::ablation::folders::ExistingSweep;
use crate::ablation::halving;
use crate::ablation::matching::WIDTH;
use crate::ablation::planner;
use crate::ablation::prepared::PreparedArm;
use crate::ablation::settings::ArmSettings;
use crate::error::Result;
use crate::experiment;
use crate::experiment::ablation::{AblationConfig, HalvingConfig, Matched};
use crate::report::read::rungs::Rungs;
use crate::report::read::sweep::{PlannedArm, SweepPlan};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

/// Returns whether the sweep of a file is the one in the folder.
///
/// # Errors
/// If the file has faults that can be found without data.
pub fn is_same(path: &Path, sets: &[String], before: &ExistingSweep) -> Result<bool> {
    let Some(plan) = &before.plan else {
        return Ok(false);
    };
    let loaded = experiment::load(path, sets)?;
    let config = planner::ablation(&loaded, path)?;
    let (arms, _) = planner::prepare_arms(
        &loaded,
        sets,
        config,
        experiment::check::check_without_files,
    )?;
    let first = loaded.experiment.seed;
    let seeds = (0..config.seeds).map(|number| first + number);
    let alike = plan.name == loaded.experiment.name
        && plan.metric == config.metric
        && plan.baseline == planner::baseline(&loaded, config, &arms)?
        && plan.budget == planner::budget(config)
        && plan.halving == config.halving.as_ref().map(|halving| rungs(halving, plan))
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

/// Returns the rungs that a rule gives to the arms of a plan.
fn rungs(halving: &HalvingConfig, plan: &SweepPlan) -> Rungs {
    let steps = plan.arms.first().map_or(0, |arm| arm.steps);
    Rungs {
        eta: halving.eta,
        rungs: halving::rungs(halving, plan.arms.len(), steps),
    }
}

fn is_same_arm(
    arm: &PreparedArm,
    config: &AblationConfig,
    plan: &SweepPlan,
    before: &ExistingSweep,
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
    let matches_others = !matches!(config.matched, None | Some(Matched::Parameters));
    let follows = matches_others && arm.name != plan.baseline;
    let has_steps = config.budget.is_some()
        || train.epochs.is_none() && (follows || there.steps == train.steps);
    let alike = has_steps && settings(&there.settings, counts) == settings(&arm.settings, counts);
    Ok(alike && is_same_except_paths([&own, was], counts, &ArmSettings::path_keys(&arm.loaded)?))
}

/// Returns the settings by which an arm differs from the others, restricted to keys that count.
fn settings(all: &BTreeMap<String, String>, counts: impl Fn(&str) -> bool) -> BTreeMap<&str, &str> {
    let all = all
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    all.filter(|(key, _)| counts(key)).collect()
}

/// Returns whether all settings of two arms are equal, except for the leading parts of the values of `paths`.
fn is_same_except_paths(
    arms: [&ArmSettings; 2],
    counts: impl Fn(&str) -> bool,
    paths: &BTreeSet<String>,
) -> bool {
    let [one, other] = arms.map(|arm| {
        let all = arm.without_steps();
        let all = all.filter(|(key, _)| counts(key));
        all.collect::<BTreeMap<_, _>>()
    });
    let mut both = one.iter().zip(&other);
    one.len() == other.len()
        && both.all(|((key, value), (of_other, others))| {
            let fits = || paths.contains(*key) && are_same_except_paths(value, others);
            key == of_other && (value == others || fits())
        })
}

/// Returns whether two values are equal except for the leading parts of the paths in them.
fn are_same_except_paths(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|value| value.split('"').collect::<Vec<_>>());
    let mut both = one.iter().zip(&other).enumerate();
    one.len() == other.len()
        && both.all(|(number, (one, other))| match number % 2 {
            1 => is_suffix(one, other),
            _ => one == other,
        })
}

/// Returns whether one of two paths is a suffix of the other, part by part; `..` is ignored.
fn is_suffix(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|path| {
        let parts = Path::new(path).components();
        let named = parts.filter(|part| matches!(part, Component::Normal(_)));
        named.collect::<Vec<_>>()
    });
    match one.is_empty() || other.is_empty() {
        true => one == other,
        false => one.ends_with(&other) || other.ends_with(&one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_may_differ_at_their_beginnings_alone() {
        assert!(is_suffix("../../a/b.txt", "a/b.txt"));
        assert!(is_suffix("/far/a/b.txt", "a/b.txt"));
        assert!(!is_suffix("data/de/train.txt", "data/en/train.txt"));
        assert!(!is_suffix("a/xb.txt", "b.txt"));
        assert!(!is_suffix("", "b.txt"));
        assert!(are_same_except_paths(
            r#"["../x/a", "b"]"#,
            r#"["x/a", "b"]"#
        ));
        assert!(!are_same_except_paths(r#"["x/a", "b"]"#, r#"["x/a", "c"]"#));
        assert!(!are_same_except_paths(r#"["a"]"#, r#""a""#));
        assert!(!are_same_except_paths("1e-3", "1e-4"));
    }

    #[test]
    fn another_rule_gives_other_rungs() {
        let arm = |name: &str| PlannedArm {
            name: name.into(),
            folder: name.into(),
            settings: BTreeMap::new(),
            steps: 81,
            params: 1,
            flops_per_item: 1.0,
        };
        let plan = SweepPlan {
            name: "sweep".into(),
            metric: "loss".into(),
            baseline: "a".into(),
            budget: String::new(),
            axes: Vec::new(),
            seeds: vec![1],
            arms: ["a", "b", "c", "d"].map(arm).into(),
            halving: None,
        };
        let of = |first: u64, eta: u64| rungs(&HalvingConfig { first, eta }, &plan);
        assert_eq!(of(9, 2), of(9, 2));
        assert_eq!(of(9, 2).rungs.len(), 2);
        assert_ne!(of(9, 2), of(18, 2));
        assert_ne!(of(9, 2), of(9, 3));
    }
}
