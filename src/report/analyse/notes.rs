//! Warnings about the numbers of a comparison.

use std::collections::BTreeSet;

use super::arms::Arm;
use super::measures;
use super::origins::{self, ComparedRuns};
use super::results::ArmResults;
use super::statistics::holm::holm;
use super::statistics::rates::compare_rates;
use super::statistics::{Interval, LEVEL, p_value};
use crate::report::read::changes;
use crate::report::read::run::Run;

/// Keys of `machine.json` that make speeds incomparable when they differ.
const MACHINE: [&str; 3] = ["cpu", "cores", "device"];
/// Keys of `machine.json` that identify the program.
const PROGRAM: [&str; 2] = ["version", "commit"];

/// Maximum number of unfinished runs that are named; the page and the table of runs list all of them.
const NAMED: usize = 12;

/// Returns the warnings: unfinished runs, unreadable lines, and evaluations and machines that are not comparable. With
/// `is_search`, the arms come from successive halving and no difference between them is tested.
pub fn notes(
    compared: ComparedRuns,
    results: &[ArmResults],
    (metric, is_search): (&str, bool),
) -> Vec<String> {
    let ComparedRuns {
        runs, arms, split, ..
    } = compared;
    let mut notes = unfinished_notes(runs, arms);
    if let Some(more) = notes.len().checked_sub(NAMED + 1).map(|n| n + 1) {
        notes.truncate(NAMED);
        notes.push(format!("{more} more runs are not done"));
    }
    notes.extend(repeated_seed_notes(runs, arms));
    notes.extend(halving_notes(runs, arms));
    notes.extend(changed_setting_notes(runs, arms));
    for run in runs.iter().filter(|run| run.edited) {
        notes.push(format!(
            "{}: resolved.toml was changed after the run wrote it and may differ from the settings of the training",
            run.title
        ));
    }
    for run in runs.iter().filter(|run| run.journal.unreadable > 0) {
        let (n, at) = (run.journal.unreadable, &run.title);
        notes.push(format!(
            "{at}: {n} unreadable line(s) of metrics.jsonl were skipped"
        ));
    }
    notes.extend(partial_split_note(runs, split));
    notes.extend(origins::notes(compared));
    notes.extend(measures::notes(compared, metric));
    notes.extend(machine_notes(runs));
    notes.extend(divergence(arms, results, is_search));
    let tests = results
        .iter()
        .filter(|r| r.last_gap.as_ref().is_some_and(|g| g.p.is_some()));
    let tests = tests.count();
    if tests > 1 {
        notes.push(format!(
            "p values are corrected for {tests} arms (Holm 1979); intervals are not corrected: each applies to its own arm"
        ));
    }
    notes
}

/// Returns a note on every run that is not done and every planned run that was not started, with its state.
fn unfinished_notes(runs: &[Run], arms: &[Arm]) -> Vec<String> {
    let mut notes = Vec::new();
    for arm in arms {
        for &i in &arm.members {
            let (run, state) = (&runs[i], runs[i].state());
            let out = match arm.counted.as_slice() {
                [] => "; excluded from means",
                counted if counted.contains(&i) => "",
                _ => "; excluded from means and curves",
            };
            // The runs stopped by successive halving get one common note (`searched`).
            if state != "done"
                && !run.was_stopped_at_rung()
                && (run.steps.is_some() || !run.is_done())
            {
                notes.push(format!("{} ({}): {state}{out}", arm.id, run.title));
            }
        }
        for absent in &arm.absent {
            let (id, label, seed) = (&arm.id, &arm.name, absent.seed);
            notes.push(format!("{id} ({label}, seed {seed}): {}", absent.state()));
        }
    }
    notes
}

/// Returns a note on each arm with runs that repeat a seed.
fn repeated_seed_notes(runs: &[Run], arms: &[Arm]) -> Vec<String> {
    let of_arm = |arm: &Arm| {
        let titles = arm.repeated.iter().map(|&m| runs[m].title.as_str());
        let titles: Vec<&str> = titles.take(NAMED).collect();
        let more = match arm.repeated.len().saturating_sub(titles.len()) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        (!titles.is_empty()).then(|| {
            format!(
                "{}: a seed counts once, in the run that is named last: {}{more} excluded from means and curves",
                arm.id,
                titles.join(", ")
            )
        })
    };
    arms.iter().filter_map(of_arm).collect()
}

/// Returns the notes on successive halving: the steps at which arms were stopped, and how far to trust the remaining values.
fn halving_notes(runs: &[Run], arms: &[Arm]) -> Vec<String> {
    let stopped = arms
        .iter()
        .filter_map(|arm| arm.rung.filter(|at| !at.passed));
    let stopped: Vec<u64> = stopped.map(|at| at.step).collect();
    if arms.iter().all(|arm| arm.rung.is_none()) {
        return Vec::new();
    }
    let steps: BTreeSet<u64> = stopped.iter().copied().collect();
    let each = steps.iter().map(|step| {
        let n = stopped.iter().filter(|s| *s == step).count();
        format!("{n} at step {step}")
    });
    let each: Vec<String> = each.collect();
    let seeds = arms.iter().flat_map(|arm| &arm.members);
    let seeds: BTreeSet<Option<&str>> = seeds.map(|&m| runs[m].seed.as_deref()).collect();
    let of = match seeds.len() {
        1 => "one seed".to_string(),
        n => format!("{n} seeds"),
    };
    vec![
        format!(
            "{} of {} arms were stopped at rungs ({}); they are excluded from means",
            stopped.len(),
            arms.len(),
            each.join(", ")
        ),
        format!(
            "the remaining arms were selected by values of {of}, which biases their results: no difference is tested; train them \
             again with other seeds to compare them"
        ),
    ]
}

/// Returns the note that values cover only part of the split, if they do.
fn partial_split_note(runs: &[Run], split: &str) -> Option<String> {
    // The setting by itself proves nothing: it may cover every batch, or belong to a run that was never evaluated.
    if !runs.iter().any(|run| run.journal.is_partial(split)) {
        return None;
    }
    let parts = runs
        .iter()
        .filter_map(|run| run.journal.part_description(split));
    let parts: BTreeSet<&str> = parts.collect();
    let parts: Vec<&str> = parts.into_iter().collect();
    let named = match parts.is_empty() {
        true => String::new(),
        false => format!(": {}", parts.join(" | ")),
    };
    Some(format!(
        "best {split} values and curves cover part of the split (train.eval_batches){named}; final values cover all of it unless \
         they are marked `part`"
    ))
}

/// Returns the notes on settings that changed during a run.
fn changed_setting_notes(runs: &[Run], arms: &[Arm]) -> Vec<String> {
    let members = arms
        .iter()
        .flat_map(|arm| arm.members.iter().map(move |&m| (arm, m)));
    let mut notes: Vec<String> = members
        .filter(|(_, m)| !runs[*m].changes.is_empty())
        .map(|(arm, m)| {
            let run = &runs[m];
            let said = changes::keys(&run.changes).into_iter().map(|key| {
                let values = changes::values(&changes::changes_of_key(&run.changes, key));
                format!("{key}: {values}")
            });
            let said = said.collect::<Vec<_>>().join("; ");
            format!("{} ({}): {said}", arm.id, run.title)
        })
        .collect();
    if let Some(more) = notes.len().checked_sub(NAMED + 1).map(|n| n + 1) {
        notes.truncate(NAMED);
        notes.push(format!(
            "settings of {more} more runs changed during training"
        ));
    }
    notes
}

/// Returns the notes on how often each arm's runs diverged, with Wilson's interval and, if arms are tested, Fisher's exact
/// test against the first arm.
fn divergence(arms: &[Arm], results: &[ArmResults], is_search: bool) -> Vec<String> {
    let several = results.iter().any(|result| result.diverged.n > 1);
    if !several || results.iter().all(|r| r.diverged.events == 0) {
        return Vec::new();
    }
    let tested = match is_search {
        true => vec![None; results.len()],
        false => against_first(results),
    };
    let corrected = match tested.iter().flatten().count() {
        0 | 1 => String::new(),
        tests => format!(", corrected for {tests} arms"),
    };
    let percent = |share: f64| (100.0 * share).round();
    let note = |((arm, result), p): ((&Arm, &ArmResults), Option<f64>)| {
        let rate = Some(result.diverged).filter(|rate| rate.events > 0)?;
        let Interval { low, high } = rate.wilson(LEVEL)?;
        let p = p.map_or(String::new(), |p| {
            format!("; p {} against {}{corrected}", p_value(p), arms[0].id)
        });
        Some(format!(
            "{}: {} of {} runs diverged, 95 % interval {} to {} %{p}",
            arm.id,
            rate.events,
            rate.n,
            percent(low),
            percent(high)
        ))
    };
    let notes = arms.iter().zip(results).zip(tested).filter_map(note);
    notes.collect()
}

/// Returns for each arm the p value of its divergence rate against the first arm's, corrected for the number of tests; `None` if
/// no run of either arm diverged.
fn against_first(results: &[ArmResults]) -> Vec<Option<f64>> {
    let first = results.first().map(|result| result.diverged);
    let p = |(number, result): (usize, &ArmResults)| {
        let (first, own) = (first.filter(|_| number > 0)?, result.diverged);
        let some = first.events + own.events > 0;
        compare_rates(first, own).filter(|_| some).map(|c| c.p)
    };
    holm(&results.iter().enumerate().map(p).collect::<Vec<_>>())
}

/// Returns the notes on runs that were made on different machines or with different versions of the program.
fn machine_notes(runs: &[Run]) -> Vec<String> {
    let mut notes = Vec::new();
    for key in MACHINE.into_iter().chain(PROGRAM) {
        let said = runs.iter().filter_map(|r| r.machine.get(key));
        let values: BTreeSet<&str> = said.map(String::as_str).collect();
        if values.len() > 1 {
            let values: Vec<&str> = values.into_iter().collect();
            let why = match MACHINE.contains(&key) {
                true => "do not compare speeds",
                false => "results may differ for this reason alone",
            };
            notes.push(format!(
                "runs differ in {key}: {}; {why}",
                values.join(" | ")
            ));
        }
    }
    notes
}
