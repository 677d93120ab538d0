//! What a reader should know before trusting a comparison's numbers.

use std::collections::BTreeSet;

use crate::report::arms::Arm;
use crate::report::compare::{LEVEL, Results};
use crate::report::run::Run;
use crate::report::statistics::Interval;
use crate::report::statistics::rates::{Rate, compare_rates};
use crate::report::terminal::p_value;

/// What `machine.json` says that makes speeds incomparable.
const MACHINE: [&str; 3] = ["cpu", "cores", "device"];
/// What it says of the program.
const PROGRAM: [&str; 2] = ["version", "commit"];

/// Runs that are not done, lines that were not read, evaluations and machines that do not compare.
pub fn notes(runs: &[Run], arms: &[Arm], results: &[Results]) -> Vec<String> {
    let mut notes = Vec::new();
    for (arm, i) in arms
        .iter()
        .flat_map(|arm| arm.members.iter().map(move |&i| (arm, i)))
    {
        let (run, at) = (&runs[i], format!("{} ({})", arm.id, runs[i].path.display()));
        let out = if arm.counted.contains(&i) {
            ""
        } else {
            "; left out of means and curves"
        };
        if run.state() != "done" && (run.steps.is_some() || !run.done()) {
            notes.push(format!("{at}: {}{out}", run.state()));
        }
        if run.journal.unreadable > 0 {
            let n = run.journal.unreadable;
            notes.push(format!(
                "{at}: {n} unreadable line(s) of metrics.jsonl were skipped"
            ));
        }
    }
    if runs.iter().any(|r| {
        r.settings
            .iter()
            .any(|(key, _)| key == "train.eval_batches")
    }) {
        let note = "best values come from evaluations of part of the split (train.eval_batches), final ones from all of it";
        notes.push(note.into());
    }
    notes.extend(machines(runs));
    notes.extend(divergence(runs, arms));
    let tests = results
        .iter()
        .filter(|r| r.last_gap.as_ref().is_some_and(|g| g.p.is_some()));
    let tests = tests.count();
    if tests > 1 {
        notes.push(format!(
            "p values are corrected for {tests} arms (Holm 1979)"
        ));
    }
    notes
}

/// How often the runs of each arm diverged, when some did, with Wilson's interval and Fisher's exact test against
/// the first arm.
fn divergence(runs: &[Run], arms: &[Arm]) -> Vec<String> {
    let rate = |arm: &Arm| Rate {
        events: arm
            .members
            .iter()
            .filter(|&&m| runs[m].diverged().is_some())
            .count(),
        n: arm.members.len(),
    };
    let several = arms.iter().any(|arm| arm.members.len() > 1);
    if !several || arms.iter().all(|arm| rate(arm).events == 0) {
        return Vec::new();
    }
    let percent = |share: f64| (100.0 * share).round();
    let note = |(i, arm): (usize, &Arm)| {
        let rate_of = rate(arm);
        let Interval { low, high } = rate_of.wilson(LEVEL)?;
        let against = compare_rates(rate(&arms[0]), rate_of).filter(|_| i > 0);
        let p = against.map_or(String::new(), |c| {
            format!("; p {} against {}", p_value(c.p), arms[0].id)
        });
        Some(format!(
            "{}: {} of {} runs diverged, 95 % interval {} to {} %{p}",
            arm.id,
            rate_of.events,
            rate_of.n,
            percent(low),
            percent(high)
        ))
    };
    arms.iter().enumerate().filter_map(note).collect()
}

/// Where runs were not made on one machine by one program.
fn machines(runs: &[Run]) -> Vec<String> {
    let mut notes = Vec::new();
    for key in MACHINE.into_iter().chain(PROGRAM) {
        let said = runs.iter().filter_map(|r| r.machine.get(key));
        let values: BTreeSet<&str> = said.map(String::as_str).collect();
        if values.len() > 1 {
            let values: Vec<&str> = values.into_iter().collect();
            let why = match MACHINE.contains(&key) {
                true => "do not compare speeds",
                false => "results may differ for that alone",
            };
            notes.push(format!(
                "runs differ in {key}: {}; {why}",
                values.join(" | ")
            ));
        }
    }
    notes
}
