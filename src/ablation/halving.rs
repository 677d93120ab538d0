//! Successive halving (Jamieson and Talwalkar 2016, algorithm 1; Li et al. 2018, "Hyperband", section 2): decides which
//! arms of a sweep train, and to which step.
//!
//! With `first = 100` and `eta = 3`, 27 arms train to step 100, the best 9 of them to step 300, the best 3 to step 900,
//! and the best one to its end. The run of an arm that is not promoted stays as it paused.
//!
//! A rung is decided once every cell of its arms has reached it or has ended. The decision uses only the cells'
//! journals, so that it depends neither on time nor on which process makes it. Several processes may decide a rung, and
//! write the same result. Equal values are ranked by the order of the plan, also if means over seeds differ only by
//! rounding. An arm with a run that diverged or failed is not promoted.

use crate::ablation::atomic_files::replace_file;
use crate::ablation::ledger::{Ledger, MarksByCell, cell_name};
use crate::ablation::prepared::PreparedArm;
use crate::error::{Error, Result};
use crate::experiment::ablation::HalvingConfig;
use crate::report::analyse::metrics::more_is_better;
use crate::report::read::run;
use crate::report::read::rungs::{Decision, RankedArm, Rung, Rungs};
use crate::report::read::sweep::{EndState, Ending, SweepFolder};
use crate::train::run_dir;

/// Relative rounding error of a mean over seeds: in floating point, the mean of 0.1 and 0.2 is not that of 0 and 0.3.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// The part of a sweep that is to be trained now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Indices of the arms in the plan.
    pub arms: Vec<usize>,
    /// The rung that the arms train to; `None` for their last step.
    pub rung: Option<Goal>,
}

/// A rung that cells train to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    /// Number of the rung, counted from 1.
    pub number: usize,
    /// Step of the rung.
    pub step: u64,
}

/// Computes the rungs for `arms` arms that all train for `steps` steps, as long as a rung can drop an arm.
pub fn rungs(config: &HalvingConfig, arms: usize, steps: u64) -> Vec<Rung> {
    let eta = usize::try_from(config.eta).unwrap_or(usize::MAX).max(2);
    let (mut step, mut left) = (config.first, arms);
    let mut rungs = Vec::new();
    while step < steps && left > 1 {
        left = (left / eta).max(1);
        rungs.push(Rung { step, keep: left });
        step = step.saturating_mul(config.eta);
    }
    rungs
}

/// Computes the rungs of these arms.
///
/// # Errors
/// If arms train for different numbers of steps, if an arm is not evaluated at a rung, or if there is no rung at all.
/// Returns the name of the arm, if the error is about one, and a clause that describes the error.
pub fn plan_rungs(
    config: &HalvingConfig,
    arms: &[PreparedArm],
) -> std::result::Result<Rungs, (Option<String>, String)> {
    let steps = arms.first().map_or(0, |arm| arm.cost.steps);
    let rungs = rungs(config, arms.len(), steps);
    if rungs.is_empty() {
        let rule = match arms.len() {
            0 | 1 => "halving needs at least two arms".to_string(),
            _ => format!(
                "first = {} must be below the {steps} steps of the arms",
                config.first
            ),
        };
        return Err((None, rule));
    }
    for arm in arms {
        let train = &arm.loaded.experiment.train;
        let fault = |rule: String| Err((Some(arm.name.clone()), rule));
        if arm.cost.steps != steps {
            return fault(format!(
                "trains for {} steps but `{}` for {steps}; halving needs the same number of steps in all arms",
                arm.cost.steps, arms[0].name
            ));
        }
        let every = train.eval_every.unwrap_or(steps).max(1);
        if let Some(rung) = rungs.iter().find(|rung| !rung.step.is_multiple_of(every)) {
            return fault(format!(
                "is not evaluated at the rung of step {}; [ablation.halving] first must be a multiple of \
                 train.eval_every = {every}",
                rung.step
            ));
        }
    }
    Ok(Rungs {
        eta: config.eta,
        rungs,
    })
}

/// Returns the total steps of a sweep with these rungs, and of the same arms without halving.
pub fn total_steps(halving: &Rungs, arms: usize, seeds: usize, last: u64) -> (u64, u64) {
    let (mut left, mut from, mut sum) = (arms as u64, 0, 0);
    for rung in &halving.rungs {
        sum += left * (rung.step - from);
        (left, from) = (rung.keep as u64, rung.step);
    }
    sum += left * last.saturating_sub(from);
    (sum * seeds as u64, arms as u64 * last * seeds as u64)
}

/// Determines what is to be trained now. Decides rungs whose cells have all arrived, and ends the cells that are not
/// promoted.
///
/// # Errors
/// If a ledger or a run cannot be read or written.
pub fn next_stage(
    sweep: &SweepFolder,
    ledger: &Ledger,
    marks: &MarksByCell,
    decided: &mut dyn FnMut(&Decision),
) -> Result<Stage> {
    let mut arms: Vec<usize> = (0..sweep.plan.arms.len()).collect();
    let rungs = sweep.plan.halving.iter().flat_map(|h| &h.rungs);
    for (number, rung) in (1..).zip(rungs) {
        let goal = Goal {
            number,
            step: rung.step,
        };
        let decision = match sweep.decision(number)? {
            Some(decision) => decision,
            None if !has_arrived(sweep, marks, &arms, number) => {
                let rung = Some(goal);
                return Ok(Stage { arms, rung });
            }
            None => {
                let decision = decide(sweep, &arms, goal, rung.keep)?;
                write(sweep, &decision)?;
                decided(&decision);
                decision
            }
        };
        stop_dropped_arms(sweep, ledger, marks, &arms, &decision)?;
        arms.retain(|&arm| decision.promotes(&sweep.plan.arms[arm].folder));
    }
    Ok(Stage { arms, rung: None })
}

/// Returns whether all cells of these arms have reached a rung or have ended before it.
fn has_arrived(sweep: &SweepFolder, marks: &MarksByCell, arms: &[usize], rung: usize) -> bool {
    arms.iter().all(|&arm| {
        let folder = &sweep.plan.arms[arm].folder;
        let mut cells = sweep.plan.seeds.iter().map(|&s| cell_name(folder, s));
        cells.all(|cell| marks.get(&cell).is_some_and(|m| m.has_reached_rung(rung)))
    })
}

/// Ranks arms by their values at a rung; the best `keep` of the arms that have a value are promoted.
fn decide(sweep: &SweepFolder, arms: &[usize], goal: Goal, keep: usize) -> Result<Decision> {
    let mut values = Vec::new();
    for &arm in arms {
        values.push((arm, value(sweep, arm, goal.step)?));
    }
    let ranked = rank_arms(values, keep, more_is_better(&sweep.plan.metric));
    let arm = |(arm, value, stays): (usize, Option<f64>, bool)| RankedArm {
        arm: sweep.plan.arms[arm].folder.clone(),
        value,
        stays,
    };
    Ok(Decision {
        rung: goal.number,
        step: goal.step,
        arms: ranked.into_iter().map(arm).collect(),
    })
}

/// Ranks arms by their values, the best first. Returns each arm, its value, and whether it is promoted.
fn rank_arms(
    mut values: Vec<(usize, Option<f64>)>,
    keep: usize,
    more: bool,
) -> Vec<(usize, Option<f64>, bool)> {
    let sign = if more { -1.0 } else { 1.0 };
    let key = |value: Option<f64>| value.map_or(f64::INFINITY, |v| sign * v);
    // Arms without a value come last.
    values.sort_by(|(_, x), (_, y)| {
        let by_value = key(*x).total_cmp(&key(*y));
        x.is_none().cmp(&y.is_none()).then(by_value)
    });
    // Ties keep the order of the plan.
    for tied in values.chunk_by_mut(|(_, x), (_, y)| is_tie(*x, *y)) {
        tied.sort_by_key(|(arm, _)| *arm);
    }
    let at = values.into_iter().enumerate();
    at.map(|(place, (arm, value))| (arm, value, place < keep && value.is_some()))
        .collect()
}

/// Returns whether two means over seeds are equal except for rounding.
fn is_tie(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= ROUNDING * a.abs().max(b.abs()),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Returns the value of an arm at a step: the mean over its seeds of the last evaluation up to that step (a run that
/// stopped early has none later). `None` if a run has no finite value there.
fn value(sweep: &SweepFolder, arm: usize, step: u64) -> Result<Option<f64>> {
    let planned = &sweep.plan.arms[arm];
    let mut sum = 0.0;
    for &seed in &sweep.plan.seeds {
        let folder = sweep.run(planned, seed);
        if !run_dir::is_run(&folder) {
            return Ok(None);
        }
        let run = run::read(&folder)?;
        let series = run.series("valid", &sweep.plan.metric);
        let last = series.iter().rfind(|point| point.step <= step);
        // A run that ended before the rung and is not done has failed or diverged.
        let reached = run.is_done() || run.journal.last_step >= step;
        match last.filter(|point| point.value.is_finite() && reached) {
            Some(point) => sum += point.value,
            None => return Ok(None),
        }
    }
    Ok(Some(sum / sweep.plan.seeds.len() as f64))
}

fn write(sweep: &SweepFolder, decision: &Decision) -> Result<()> {
    let text = serde_json::to_string_pretty(decision)
        .map_err(|e| Error::run(format!("cannot write the decision at a rung: {e}")))?;
    replace_file(&sweep.decision_file(decision.rung), &format!("{text}\n"))
}

/// Ends the cells of arms that are not promoted from a rung, unless they have ended by themselves.
fn stop_dropped_arms(
    sweep: &SweepFolder,
    ledger: &Ledger,
    marks: &MarksByCell,
    arms: &[usize],
    decision: &Decision,
) -> Result<()> {
    for &arm in arms {
        let folder = &sweep.plan.arms[arm].folder;
        if decision.promotes(folder) {
            continue;
        }
        let place = decision.rank(folder).map_or(0, |place| place + 1);
        for &seed in &sweep.plan.seeds {
            let cell = cell_name(folder, seed);
            let marks = marks.get(&cell).copied().unwrap_or_default();
            if marks.has_ended() {
                continue;
            }
            let ending = Ending {
                state: EndState::Stopped,
                reason: format!(
                    "rung {} at step {}: place {place} of {}",
                    decision.rung,
                    decision.step,
                    decision.arms.len()
                ),
                attempts: marks.attempts(),
            };
            ledger.write_end(&cell, &ending)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(first: u64, eta: u64) -> HalvingConfig {
        HalvingConfig { first, eta }
    }

    /// Li et al. 2018, table 1, the bracket s = 3 of R = 81 resources from r = 3 on: 27 at 3, 9 at 9, 3 at 27, 1 at 81.
    #[test]
    fn rungs_are_those_of_the_paper() {
        let found = rungs(&config(3, 3), 27, 81);
        let pairs: Vec<(u64, usize)> = found.iter().map(|r| (r.step, r.keep)).collect();
        assert_eq!(pairs, [(3, 9), (9, 3), (27, 1)]);
        let halving = Rungs {
            eta: 3,
            rungs: found,
        };
        // 27·3 + 9·6 + 3·18 + 1·54
        assert_eq!(total_steps(&halving, 27, 1, 81), (243, 27 * 81));
        assert_eq!(rungs(&config(81, 3), 27, 81), []);
        assert_eq!(rungs(&config(u64::MAX / 2, 4), 9, u64::MAX).len(), 1);
    }

    #[test]
    fn equal_values_go_by_the_plan_and_diverged_arms_go_on_from_nowhere() {
        let values = vec![(0, Some(2.0)), (1, None), (2, Some(1.0)), (3, Some(1.0))];
        let order = |values, keep, more| -> Vec<(usize, bool)> {
            let ranked = rank_arms(values, keep, more);
            ranked.into_iter().map(|(a, _, stays)| (a, stays)).collect()
        };
        assert_eq!(
            order(values.clone(), 1, false),
            [(2, true), (3, false), (0, false), (1, false)]
        );
        assert_eq!(
            order(values, 4, true),
            [(0, true), (2, true), (3, true), (1, false)]
        );
        assert_eq!(order(vec![(0, None)], 1, false), [(0, false)]);
        // 0.1 and 0.2 correct, or 0 and 0.3: the later arm is better only by a rounding error.
        let means = vec![(0, Some(0.3 / 2.0)), (1, Some((0.1 + 0.2) / 2.0))];
        assert_ne!(means[0].1, means[1].1);
        assert_eq!(order(means.clone(), 1, true), [(0, true), (1, false)]);
        assert_eq!(order(means, 1, false), [(0, true), (1, false)]);
    }
}
