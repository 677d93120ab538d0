//! Numbers of training steps. Values after different numbers of steps do not test the other differences between arms.
//!
//! A sweep may give its arms different numbers of steps, by an axis or a budget. Such arms are tested as they were planned;
//! an arm whose runs were trained for more or fewer steps than planned is not.

use super::arms::Arm;
use crate::report::read::run::Run;
use crate::report::read::sweep::SweepPlan;
use std::collections::BTreeSet;

/// Returns the number of steps a run was trained for. A run ended by early stopping counts with its planned steps.
fn trained_steps(run: &Run) -> u64 {
    match run.steps {
        Some(steps) if run.has_stopped_early() => steps,
        _ => run.journal.last_step,
    }
}

/// Returns the distinct step counts of an arm's counted runs.
fn step_counts(arm: &Arm, runs: &[Run]) -> BTreeSet<u64> {
    arm.counted
        .iter()
        .map(|&m| trained_steps(&runs[m]))
        .collect()
}

/// Whether an arm and the first one were trained for different numbers of steps that the plan does not prescribe.
pub fn differ(first: &Arm, arm: &Arm, runs: &[Run], plan: Option<&SweepPlan>) -> bool {
    let found = [first, arm].map(|arm| step_counts(arm, runs));
    let all: BTreeSet<u64> = found.iter().flatten().copied().collect();
    let planned = |arm: &Arm| {
        let planned = plan?.arms.iter().find(|p| p.name == arm.label)?;
        Some(planned.steps)
    };
    let as_planned = |(arm, steps): (&Arm, &BTreeSet<u64>)| {
        let planned = planned(arm);
        steps.iter().all(|steps| Some(*steps) == planned)
    };
    all.len() > 1 && ![first, arm].into_iter().zip(&found).all(as_planned)
}

/// Whether all counted runs were trained for the same number of steps.
pub fn are_equal(arms: &[Arm], runs: &[Run]) -> bool {
    let all: BTreeSet<u64> = arms.iter().flat_map(|arm| step_counts(arm, runs)).collect();
    all.len() <= 1
}

/// Returns the note on arms that are not tested because of their steps: `… numbers of steps (A: 40, B: 80, C: 40 and 60) …`.
pub fn note(arms: &[Arm], runs: &[Run], plan: Option<&SweepPlan>) -> Option<String> {
    let (first, others) = arms.split_first()?;
    let apart: Vec<&Arm> = others
        .iter()
        .filter(|arm| differ(first, arm, runs, plan))
        .collect();
    let said = |arm: &Arm| {
        let steps: Vec<String> = step_counts(arm, runs).iter().map(u64::to_string).collect();
        format!("{}: {}", arm.id, steps.join(" and "))
    };
    let each: Vec<String> = std::iter::once(first)
        .chain(apart.iter().copied().take(NAMED))
        .map(said)
        .collect();
    let more = match apart.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(", and {n} more arms"),
    };
    (!apart.is_empty()).then(|| {
        format!(
            "runs were trained for different numbers of steps ({}{more}): their differences are not tested",
            each.join(", ")
        )
    })
}

/// Maximum number of arms that the note lists.
const NAMED: usize = 12;
