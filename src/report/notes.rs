//! What a reader should know before trusting a comparison's numbers.

use std::collections::BTreeSet;

use crate::report::arms::Arm;
use crate::report::compare::Results;
use crate::report::run::Run;

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
    if results
        .iter()
        .filter(|r| r.best_gap.is_some_and(|g| g.paired.is_some()))
        .count()
        > 1
    {
        notes.push("p values are not corrected for comparing several arms".into());
    }
    notes
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
