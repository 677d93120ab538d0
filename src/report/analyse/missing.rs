//! Notes on values that only some runs of an arm have: their mean is over fewer runs than the arm has.

use super::arms::Arm;
use super::metrics::{SPLITS, is_shown};
use super::results::RunResult;
use crate::report::read::run::Run;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of arms and of runs that are named.
const NAMED: usize = 12;

/// Returns a note for each set of means over fewer runs than the arm has: `B: test loss: of 2 of 3 runs (seed 5 has none)`.
pub fn notes(
    runs: &[Run],
    arms: &[Arm],
    outcomes: &[RunResult],
    (split, metric, others): (&str, &str, &[String]),
) -> Vec<String> {
    let shown = others.iter().filter(|other| is_shown(other, runs));
    let shown: Vec<&str> = shown.map(String::as_str).collect();
    let of_arm = |arm: &Arm| {
        let mut lacking: BTreeMap<Vec<usize>, Vec<String>> = BTreeMap::new();
        let mut values = missing_evaluations(outcomes, (split, metric, &shown), &arm.counted);
        values.extend(missing_scores(runs, split, &arm.counted));
        for (name, missing) in values {
            if !missing.is_empty() && missing.len() < arm.counted.len() {
                lacking.entry(missing).or_default().push(name);
            }
        }
        let notes = lacking.into_iter().map(|(missing, names)| {
            let all = arm.counted.len();
            format!(
                "{}: {}: mean over {} of {all} runs ({})",
                arm.id,
                names.join(", "),
                all - missing.len(),
                seeds_text(runs, &missing)
            )
        });
        notes.collect::<Vec<String>>()
    };
    let mut notes: Vec<String> = arms.iter().flat_map(of_arm).collect();
    if let Some(more) = notes.len().checked_sub(NAMED + 1).map(|n| n + 1) {
        notes.truncate(NAMED);
        notes.push(format!(
            "{more} more means are over fewer runs than their arms have"
        ));
    }
    notes
}

/// Returns the evaluation metrics on the compared split, each with the runs that lack it.
fn missing_evaluations(
    outcomes: &[RunResult],
    (split, metric, shown): (&str, &str, &[&str]),
    counted: &[usize],
) -> Vec<(String, Vec<usize>)> {
    let lacking = |has: &dyn Fn(&RunResult) -> bool| -> Vec<usize> {
        let lacking = counted.iter().copied().filter(|&m| !has(&outcomes[m]));
        lacking.collect()
    };
    let mut values = Vec::new();
    let mut add = |name: String, best: Vec<usize>, last: Vec<usize>| {
        if best == last {
            values.push((name, last));
        } else {
            values.push((format!("best {name}"), best));
            values.push((format!("final {name}"), last));
        }
    };
    add(
        format!("{split} {metric}"),
        lacking(&|o| o.best.is_some()),
        lacking(&|o| o.last.is_some()),
    );
    for other in shown {
        add(
            format!("{split} {other}"),
            lacking(&|o| o.metrics.contains_key(*other)),
            lacking(&|o| o.last_metrics.contains_key(*other)),
        );
    }
    values
}

/// Returns the scores on the other splits, each with the runs that lack it.
fn missing_scores(runs: &[Run], compared: &str, counted: &[usize]) -> Vec<(String, Vec<usize>)> {
    let splits = SPLITS.into_iter().filter(|split| *split != compared);
    let of_split = |split: &'static str| {
        let scores = |m: usize| runs[m].scores.get(split);
        let metrics = counted.iter().filter_map(|&m| scores(m));
        let metrics: BTreeSet<&String> = metrics.flat_map(BTreeMap::keys).collect();
        let lacks = |metric: &String| -> Vec<usize> {
            let has = |m: usize| scores(m).is_some_and(|s| s.contains_key(metric));
            counted.iter().copied().filter(|&m| !has(m)).collect()
        };
        let values = metrics
            .into_iter()
            .map(|m| (format!("{split} {m}"), lacks(m)));
        values.collect::<Vec<(String, Vec<usize>)>>()
    };
    splits.flat_map(of_split).collect()
}

/// Formats `seed 5 has none` or `seeds 5, 6 have none`. A run without a seed is named by its title.
fn seeds_text(runs: &[Run], missing: &[usize]) -> String {
    let told = |&m: &usize| runs[m].seed.as_deref().unwrap_or(&runs[m].title);
    let names: Vec<&str> = missing.iter().take(NAMED).map(told).collect();
    let more = match missing.len() - names.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let seeds = missing.iter().all(|&m| runs[m].seed.is_some());
    let (what, verb) = match (missing.len(), seeds) {
        (1, true) => ("seed ", "has"),
        (1, false) => ("", "has"),
        (_, true) => ("seeds ", "have"),
        (_, false) => ("", "have"),
    };
    format!("{what}{}{more} {verb} none", names.join(", "))
}
