//! Plans a sweep from an experiment with `[ablation]`: checks every arm, and determines its cost, its steps and its
//! folder; also for a sweep's folder that grows when axes or seeds are added.

use crate::ablation::arm_costs::{Costs, time_arms};
use crate::ablation::arms::{Arm, arms};
use crate::ablation::faults::{self, ArmContext, ArmFaults, fault_at};
use crate::ablation::folders::ExistingSweep;
use crate::ablation::halving;
use crate::ablation::matching::{self, Cost};
use crate::ablation::prepared::{ArmCheck, PreparedArm, Settings, Sweep};
use crate::ablation::{base_name, comparability, duplicate_arms, overridden_sets, widths};
use crate::error::{Error, Result, suggestion};
use crate::experiment::ablation::{AblationConfig, Matched};
use crate::experiment::data_summary::messages;
use crate::experiment::{self, LoadedExperiment, dropped_keys, preflight};
use crate::report::read::rungs::Rungs;
use std::path::Path;

/// A sweep before any step is timed.
struct UntimedSweep {
    loaded: LoadedExperiment,
    config: AblationConfig,
    baseline: String,
    arms: Vec<PreparedArm>,
    /// Index of the baseline among the arms.
    baseline_index: usize,
    costs: Costs,
    /// Notes about keys of `--set` that some arms set themselves, and others about the arms.
    notes: Vec<String>,
}

/// Reads a file with `[ablation]`, checks every arm and determines its cost and steps. `before` is the sweep that is
/// resumed: steps that were determined by timing stay as they are.
///
/// # Errors
/// If there is no `[ablation]`, if an arm has faults (each is reported with the arm's name), or if data is missing.
pub fn prepare(path: &Path, sets: &[String], before: &ExistingSweep) -> Result<Sweep> {
    let mut sweep = read_sweep(path, sets)?;
    let config = &sweep.config;
    let timed = matching::needs_timing(config);
    let budget = budget(config);
    let settled = |arm: &PreparedArm| before.steps_of(&arm.loaded, &budget).filter(|_| timed);
    let known: Vec<Option<u64>> = sweep.arms.iter().map(settled).collect();
    if timed {
        time_arms(
            &mut sweep.arms,
            sweep.baseline_index,
            &known,
            &mut sweep.costs,
        )?;
    }
    set_steps(&mut sweep, known)?;
    let halving = rungs(&sweep)?;
    Ok(Sweep {
        halving,
        name: sweep.loaded.experiment.name.clone(),
        first_seed: sweep.loaded.experiment.seed,
        config: sweep.config,
        baseline: sweep.baseline,
        budget,
        arms: sweep.arms,
        notes: sweep.notes,
    })
}

/// Checks everything that would make `sweep`, or the run of an arm, fail at its start; nothing is timed or trained.
/// Returns notes about data and arms.
///
/// # Errors
/// As [`prepare`]; also those of [`rehearse`](preflight::preflight) for each arm, with the arm's name.
pub fn preflight(path: &Path, sets: &[String]) -> Result<Vec<String>> {
    let mut sweep = read_sweep(path, sets)?;
    let mut all = std::mem::take(&mut sweep.notes);
    for arm in &sweep.arms {
        let found = sweep.costs.data(&arm.loaded);
        let rehearsed = found.and_then(|data| {
            preflight::with_data(&arm.loaded, data)?;
            Ok(messages(&arm.loaded.experiment, data))
        });
        let told = rehearsed.map_err(|error| ArmContext::of(&sweep.loaded, arm).error(error))?;
        for message in told.into_iter().chain(arm.replaced_notes()) {
            if !all.contains(&message) {
                all.push(message);
            }
        }
    }
    if matching::needs_timing(&sweep.config) {
        return Ok(all);
    }
    let known = vec![None; sweep.arms.len()];
    set_steps(&mut sweep, known)?;
    rungs(&sweep).map(|_| all)
}

/// Checks the files of the arms by themselves: no data is read and no model is built. Returns notes about the arms.
///
/// # Errors
/// If there is no `[ablation]`, or if an arm has faults (each is reported with the arm's name).
pub fn check(path: &Path, sets: &[String]) -> Result<Vec<String>> {
    let loaded = experiment::load(path, sets)?;
    let config = ablation(&loaded, path)?;
    let (arms, mut all) = prepare_arms(&loaded, sets, config, experiment::check)?;
    baseline(&loaded, config, &arms)?;
    for message in arms.iter().flat_map(PreparedArm::replaced_notes) {
        if !all.contains(&message) {
            all.push(message);
        }
    }
    Ok(all)
}

/// Returns the rungs of the halving, checked against every arm.
fn rungs(sweep: &UntimedSweep) -> Result<Option<Rungs>> {
    let Some(config) = &sweep.config.halving else {
        return Ok(None);
    };
    let planned = halving::plan_rungs(config, &sweep.arms).map_err(|(arm, rule)| {
        let of_arm = arm.map_or(String::new(), |arm| format!("arm `{arm}` "));
        let message = format!("[ablation.halving] {of_arm}{rule}");
        Error::Invalid(vec![fault_at(
            &sweep.loaded,
            "ablation.halving.first",
            message,
        )])
    })?;
    comparability::require(&sweep.loaded, &sweep.arms, &sweep.config.metric)?;
    Ok(Some(planned))
}

/// Returns the `[ablation]` table of a file.
///
/// # Errors
/// If the file has none.
pub fn ablation<'a>(loaded: &'a LoadedExperiment, path: &Path) -> Result<&'a AblationConfig> {
    loaded.experiment.ablation.as_ref().ok_or_else(|| {
        Error::usage(format!(
            "{0} has no [ablation], so there is nothing to sweep; use: formwork train {0}",
            path.display()
        ))
    })
}

fn read_sweep(path: &Path, sets: &[String]) -> Result<UntimedSweep> {
    let loaded = experiment::load(path, sets)?;
    let config = ablation(&loaded, path)?.clone();
    experiment::check(&loaded)?;
    let (mut arms, notes) = prepare_arms(&loaded, sets, &config, experiment::check)?;
    let baseline = baseline(&loaded, &config, &arms)?;
    let mut costs = Costs::default();
    for arm in &mut arms {
        let cost = costs.cost_of(&arm.loaded);
        arm.cost = cost.map_err(|error| ArmContext::of(&loaded, arm).error(error))?;
    }
    let at = arms
        .iter()
        .position(|arm| arm.name == baseline)
        .unwrap_or(0);
    if config.matched == Some(Matched::Parameters) {
        widths::widen(&mut arms, at, &loaded, sets, &mut costs)?;
    }
    Ok(UntimedSweep {
        loaded,
        config,
        baseline,
        arms,
        baseline_index: at,
        costs,
        notes,
    })
}

/// Returns the text of match and budget, by which a change is noticed.
pub(super) fn budget(config: &AblationConfig) -> String {
    format!("{:?} {:?}", config.matched, config.budget)
}

/// Sets the steps of every arm: the known ones, otherwise those that match and budget ask for.
fn set_steps(sweep: &mut UntimedSweep, known: Vec<Option<u64>>) -> Result<()> {
    let UntimedSweep {
        loaded,
        config,
        arms,
        baseline_index: at,
        ..
    } = sweep;
    let base = Cost {
        steps: known[*at].unwrap_or(arms[*at].cost.steps),
        ..arms[*at].cost
    };
    for (arm, known) in arms.iter_mut().zip(known) {
        let found = known.map_or_else(|| matching::steps(config, &base, &arm.cost), Ok);
        arm.cost.steps = found.map_err(|reason| {
            let rule = match config.budget {
                Some(_) => "ablation.budget",
                None => "ablation.match",
            };
            let message = format!("[ablation] arm `{}`: {reason}", arm.name);
            Error::Invalid(vec![faults::fault_at(loaded, rule, message)])
        })?;
        let train = &mut arm.loaded.experiment.train;
        (train.steps, train.epochs) = (arm.cost.steps, None);
    }
    faults::check_steps(arms, loaded)
}

/// Reads every arm's experiment and checks it with `check`. Also returns notes about the arms, such as keys of `--set`
/// that some arms set themselves.
pub(super) fn prepare_arms(
    base: &LoadedExperiment,
    sets: &[String],
    config: &AblationConfig,
    check: ArmCheck,
) -> Result<(Vec<PreparedArm>, Vec<String>)> {
    let mut prepared = Vec::new();
    let mut faults = ArmFaults::default();
    let all = arms(config);
    let mut notes = overridden_sets::notes(config, &all, sets)?;
    notes.extend(base_name::note(base));
    for arm in all {
        let settings = settings(&arm);
        match arm_experiment(&base.path, &[sets, &arm.overrides()].concat(), check) {
            Ok(loaded) => prepared.push(PreparedArm {
                settings,
                replaced: dropped_keys::replaced_tables(base, &loaded),
                name: arm.name,
                cost: Cost {
                    steps: 0,
                    params: 0,
                    flops_per_item: 0.0,
                    items_per_step: 0.0,
                    step_ms: None,
                },
                loaded,
            }),
            Err(Error::Invalid(wrong)) => {
                let of_arm = ArmContext {
                    base,
                    name: &arm.name,
                    settings: &settings,
                };
                faults.add(of_arm, &wrong);
            }
            Err(other) => return Err(other),
        }
    }
    faults.into_result()?;
    require_metric(base, config, &prepared)?;
    notes.extend(duplicate_arms::notes(&prepared));
    Ok((prepared, notes))
}

/// Rejects a metric that no arm measures. An arm may have its own task, data or decoding, and so metrics that the base
/// lacks.
fn require_metric(
    base: &LoadedExperiment,
    config: &AblationConfig,
    arms: &[PreparedArm],
) -> Result<()> {
    let mut known: Vec<&str> = Vec::new();
    for arm in arms {
        for metric in experiment::measured_metrics(&arm.loaded.experiment) {
            if !known.contains(&metric) {
                known.push(metric);
            }
        }
    }
    let metric = config.metric.as_str();
    if known.contains(&metric) {
        return Ok(());
    }
    let near = suggestion(metric, known);
    let message = format!("[ablation] metric = {metric:?} is not measured{near}");
    Err(Error::Invalid(vec![fault_at(
        base,
        "ablation.metric",
        message,
    )]))
}

fn settings(arm: &Arm) -> Settings {
    let set = |(key, value): &(String, toml::Value)| (key.clone(), experiment::inline(value));
    arm.sets.iter().map(set).collect()
}

/// Returns the experiment of an arm, without `[ablation]`.
pub(super) fn arm_experiment(
    path: &Path,
    sets: &[String],
    check: ArmCheck,
) -> Result<LoadedExperiment> {
    let mut loaded = experiment::load(path, sets)?;
    loaded.experiment.ablation = None;
    check(&loaded)?;
    Ok(loaded)
}

pub(super) fn baseline(
    base: &LoadedExperiment,
    config: &AblationConfig,
    arms: &[PreparedArm],
) -> Result<String> {
    let names = || arms.iter().map(|arm| arm.name.as_str());
    match &config.baseline {
        None => Ok(names().next().unwrap_or_default().to_string()),
        Some(name) if names().any(|n| n == name) => Ok(name.clone()),
        Some(name) => {
            let near = suggestion(name, names().collect::<Vec<_>>());
            let message = format!("[ablation] baseline = \"{name}\" is not an arm{near}");
            Err(Error::Invalid(vec![fault_at(
                base,
                "ablation.baseline",
                message,
            )]))
        }
    }
}
