//! Arms of a comparison (groups of runs with the same settings except for the seed), and the settings in which arms differ.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{label, letters};
use crate::error::{Error, Result};
use crate::report::read::run::Run;
use crate::report::read::sweep::{SweepFolder, SweepPlan};

/// Runs that differ only in their seed.
#[derive(Clone, Debug)]
pub struct Arm {
    /// `A`, `B`, … by first appearance on the command line.
    pub id: String,
    /// Common part of the names of its runs, or the arm's name in a sweep's plan.
    pub label: String,
    /// Short name that tells the arm from the others: `pre, rotary`.
    pub name: String,
    /// Indices of the arm's runs.
    pub members: Vec<usize>,
    /// Indices of the runs that count in means: the finished runs, one for each seed. If none of the runs given one by one has
    /// finished, all of them count.
    pub counted: Vec<usize>,
    /// Indices of runs that count nowhere because a later run has the same seed: repeating a seed gives no replicate.
    pub repeated: Vec<usize>,
    /// Cells of a sweep that have no run folder.
    pub absent: Vec<MissingCell>,
    /// Cost of the arm, if a sweep's plan gives it.
    pub cost: Option<Cost>,
    /// Last decided rung that the arm reached, in a successive-halving sweep.
    pub rung: Option<LastRung>,
}

/// The last decided rung of a successive-halving sweep that an arm reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastRung {
    /// Number of the rung, from 1.
    pub number: usize,
    /// Training step of the rung.
    pub step: u64,
    /// The arm's value at the rung; `None` if a run had diverged or failed.
    pub value: Option<f64>,
    /// Whether the arm was promoted to the next rung.
    pub passed: bool,
}

/// A cell of a sweep without a run folder.
#[derive(Clone, Debug)]
pub struct MissingCell {
    /// Seed of the cell.
    pub seed: u64,
    /// Why the run failed before it wrote anything; `None` if it was not started.
    pub failure: Option<String>,
}

impl MissingCell {
    /// `not begun`, or `failed: reason`.
    pub fn state(&self) -> String {
        match &self.failure {
            Some(reason) => format!("failed: {reason}"),
            None => "not begun".into(),
        }
    }
}

/// The size of an arm's model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Number of parameters.
    pub params: usize,
    /// FLOPs of a training step per item.
    pub flops_per_item: f64,
}

impl Arm {
    /// Returns the runs shown in the arm's curves: those that count in means, or all runs if none counts.
    pub fn plotted(&self) -> &[usize] {
        if self.counted.is_empty() {
            &self.members
        } else {
            &self.counted
        }
    }

    /// Returns the runs that were started; of several runs with the same seed, only the latest.
    pub fn started_runs(&self) -> impl Iterator<Item = usize> {
        let members = self.members.iter().copied();
        members.filter(move |m| !self.repeated.contains(m))
    }

    /// Returns the number of planned runs: those started, and the cells without a run folder.
    pub fn planned(&self) -> usize {
        self.members.len() + self.absent.len()
    }
}

/// A setting in which arms differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Dotted key.
    pub key: String,
    /// Shortest suffix of the key that tells it from the other differing keys: `norm_placement`, `position.kind`.
    pub short: String,
    /// Value in each arm; `None` if the arm has no such key.
    pub values: Vec<Option<String>>,
}

/// Settings that affect only a run's outputs, not its training.
const BOOKKEEPING: [&str; 3] = [
    "train.checkpoint_every",
    "train.keep_last",
    "train.log_every",
];

/// Whether a setting only identifies or observes a run and does not shape its training: its name, seed, folder,
/// bookkeeping and expected results.
pub fn is_bookkeeping(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key);
    // In `[data]`, such a key names another run (the one that compares chunks), not this run's folder.
    matches!(key, "name" | "seed")
        || matches!(last, "run" | "run_dir") && !key.starts_with("data.")
        || key.starts_with("expect.")
        || ["train.sample.", "diagnostics.", "journal."]
            .iter()
            .any(|table| key.starts_with(table))
        || BOOKKEEPING.contains(&key)
}

/// Groups runs into arms, in order of first appearance. With `each`, every run is its own arm.
pub fn group(runs: &[Run], each: bool) -> Vec<Arm> {
    let mut known: BTreeMap<Vec<(&str, &str)>, usize> = BTreeMap::new();
    let mut members: Vec<Vec<usize>> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let shaping = run.settings.iter().filter(|(key, _)| !is_bookkeeping(key));
        let mut print: Vec<(&str, &str)> = shaping.map(|(k, v)| (k.as_str(), v.as_str())).collect();
        print.sort_unstable();
        let next = members.len();
        let arm = if each {
            next
        } else {
            *known.entry(print).or_insert(next)
        };
        if arm == next {
            members.push(Vec::new());
        }
        members[arm].push(i);
    }
    let arm = |(n, members): (usize, Vec<usize>)| {
        let done: Vec<usize> = members
            .iter()
            .copied()
            .filter(|&m| runs[m].is_done())
            .collect();
        let whole = if done.is_empty() {
            members.clone()
        } else {
            done
        };
        let again = |&m: &usize| {
            let mut later = whole.iter().filter(|&&other| other > m);
            runs[m].seed.is_some() && later.any(|&other| runs[other].seed == runs[m].seed)
        };
        let (repeated, counted): (Vec<usize>, Vec<usize>) = whole.iter().copied().partition(again);
        Arm {
            id: letters(n),
            label: label(&members, runs),
            name: String::new(),
            members,
            counted,
            repeated,
            absent: Vec::new(),
            cost: None,
            rung: None,
        }
    };
    members.into_iter().enumerate().map(arm).collect()
}

/// Checks that a sweep can be compared.
///
/// # Errors
/// If no run of the sweep was started, or if every run is to be its own arm (`each`).
pub fn require_comparable(folder: &SweepFolder, runs: &[Run], each: bool) -> Result<()> {
    let shown = folder.path.display();
    if each {
        let remedy = format!("name its runs instead, for example {shown}/cells/*/seed-*/");
        return Err(Error::usage(format!(
            "--each has no effect on a sweep, whose plan defines the arms; {remedy}"
        )));
    }
    if runs.is_empty() {
        return Err(Error::usage(format!(
            "{shown}: no run of the sweep has started yet"
        )));
    }
    Ok(())
}

/// Returns the settings that differ between arms with runs: a sweep's axes first, then in the order of the resolved
/// files. A sweep's arm without runs takes its values from the plan.
pub fn differences(runs: &[Run], arms: &[Arm], plan: Option<&SweepPlan>) -> Vec<Difference> {
    let mut differing = setting_differences(runs, arms);
    let Some(plan) = plan else {
        return differing;
    };
    for (i, arm) in arms
        .iter()
        .enumerate()
        .filter(|(_, a)| a.members.is_empty())
    {
        let planned = plan.arms.iter().find(|p| p.name == arm.label);
        for difference in &mut differing {
            let value = planned.and_then(|p| p.settings.get(&difference.key));
            difference.values[i] = value.map(|v| v.trim_matches('"').to_string());
        }
    }
    let within = |key: &str, axis: &str| {
        key.strip_prefix(axis)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let axis = |d: &Difference| plan.axes.iter().position(|axis| within(&d.key, axis));
    differing.sort_by_key(|d| axis(d).unwrap_or(plan.axes.len()));
    differing
}

fn setting_differences(runs: &[Run], arms: &[Arm]) -> Vec<Difference> {
    let of = |arm: &Arm| {
        arm.members
            .first()
            .map_or(&[][..], |&m| runs[m].settings.as_slice())
    };
    let settings: Vec<BTreeMap<&str, &str>> = arms
        .iter()
        .map(|arm| {
            of(arm)
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .collect()
        })
        .collect();
    let mut seen = BTreeSet::new();
    let mut differing: Vec<Difference> = Vec::new();
    for arm in arms {
        for (key, _) in of(arm) {
            if is_bookkeeping(key) || !seen.insert(key.as_str()) {
                continue;
            }
            let values: Vec<Option<&str>> = settings
                .iter()
                .map(|s| s.get(key.as_str()).copied())
                .collect();
            let mut told = values
                .iter()
                .zip(arms)
                .filter(|(_, arm)| !arm.members.is_empty())
                .map(|(v, _)| v);
            let first = told.next();
            if told.any(|v| Some(v) != first) {
                let values = values.into_iter().map(|v| v.map(str::to_string)).collect();
                differing.push(Difference {
                    key: key.clone(),
                    short: String::new(),
                    values,
                });
            }
        }
    }
    let keys: Vec<String> = differing.iter().map(|d| d.key.clone()).collect();
    for difference in &mut differing {
        difference.short = short_key(&difference.key, &keys);
    }
    differing
}

/// Returns the shortest suffix of a dotted key that no other key has, skipping the suffix `kind`, which says too little.
pub fn short_key(key: &str, all: &[String]) -> String {
    let starts = key.rmatch_indices('.').map(|(dot, _)| dot + 1).chain([0]);
    let mut ends = starts.map(|start| &key[start..]);
    let unique = |end: &str| {
        all.iter()
            .filter(|k| *k == end || k.ends_with(&format!(".{end}")))
            .count()
            <= 1
    };
    ends.find(|end| *end != "kind" && unique(end))
        .unwrap_or(key)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_separates_no_arms() {
        for key in [
            "diagnostics.every",
            "journal.csv",
            "train.log_every",
            "seed",
        ] {
            assert!(is_bookkeeping(key), "{key}");
        }
        assert!(!is_bookkeeping("optimizer.lr") && !is_bookkeeping("train.batch_size"));
        assert!(!is_bookkeeping("data.retrieval.compare.run"));
    }

    #[test]
    fn keys_are_shortened_to_what_tells_them_apart() {
        let keys = [
            "model.position.kind",
            "model.norm.kind",
            "model.d_model",
            "optimizer.lr",
            "schedule.lr",
        ]
        .map(str::to_string);
        let short: Vec<String> = keys.iter().map(|k| short_key(k, &keys)).collect();
        assert_eq!(
            short,
            [
                "position.kind",
                "norm.kind",
                "d_model",
                "optimizer.lr",
                "schedule.lr"
            ]
        );
    }
}
