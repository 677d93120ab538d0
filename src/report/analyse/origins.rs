//! Finds runs whose inputs differ in content under the same key: a data file that was changed between them, other initial
//! weights, another teacher. Such inputs affect the values, so the values do not test the other differences.
//!
//! A sweep may vary such a key by an axis, and runs given one by one may name different files. Arms that differ that way
//! are still tested, unless the key also determines the scored examples, as a validation file does.

use std::collections::{BTreeMap, BTreeSet};

use super::arms::Arm;
use crate::report::read::origins::{Origin, short};
use crate::report::read::run::Run;
use crate::report::read::sweep::SweepPlan;

/// Maximum number of arms, hashes and values that a note lists.
const NAMED: usize = 12;
/// Maximum number of hashes shown for one run.
const MAX_HASHES: usize = 3;

/// Runs that are compared on one split.
#[derive(Clone, Copy)]
pub struct ComparedRuns<'a> {
    /// All runs.
    pub runs: &'a [Run],
    /// Arms over these runs.
    pub arms: &'a [Arm],
    /// Plan of the sweep the runs belong to, if any.
    pub plan: Option<&'a SweepPlan>,
    /// Split that the values are measured on.
    pub split: &'a str,
}

impl<'a> ComparedRuns<'a> {
    /// Bundles runs, arms, plan and split.
    pub fn new(
        runs: &'a [Run],
        arms: &'a [Arm],
        plan: Option<&'a SweepPlan>,
        split: &'a str,
    ) -> Self {
        Self {
            runs,
            arms,
            plan,
            split,
        }
    }

    /// Returns the counted runs of an arm.
    pub(super) fn counted(self, arm: &'a Arm) -> impl Iterator<Item = &'a Run> {
        arm.counted.iter().map(move |&m| &self.runs[m])
    }

    fn keys(self) -> BTreeSet<&'a str> {
        let origins = self.runs.iter().flat_map(|run| &run.origins);
        origins.map(|origin| origin.key.as_str()).collect()
    }

    /// Whether different contents of a key forbid testing an arm against the first one.
    fn differ(self, key: &str, first: &'a Arm, arm: &'a Arm) -> bool {
        let both = || self.counted(first).chain(self.counted(arm));
        if !has_several_contents(both(), key, |origin| &origin.sha256) {
            return false;
        }
        let within =
            |arm: &'a Arm| has_several_contents(self.counted(arm), key, |origin| &origin.sha256);
        let meant = match self.plan {
            Some(plan) => plan.axes.iter().any(|axis| axis_varies_key(axis, key)),
            None => has_several_contents(both(), key, |origin| &origin.path),
        };
        // A file that changed during a run was not asked for by any axis or path.
        let mut origins = both().flat_map(|run| &run.origins);
        let changed = origins.any(|o| o.key == key && o.last_step.is_some());
        changed || !meant || within(first) || within(arm) || self.is_scored(key)
    }

    /// Whether the scored examples come from a key: it is a key of the split, or the split is a share of all the data.
    fn is_scored(self, key: &str) -> bool {
        let of_split = format!("data.{}", self.split);
        let own = ["path", "source"].map(|part| format!("{of_split}_{part}"));
        let has_own = |run: &Run| run.settings.iter().any(|(key, _)| own.contains(key));
        let held_out = ["data.valid", "data.test"];
        key.starts_with(&of_split)
            || key.starts_with("data.")
                && !held_out.iter().any(|part| key.starts_with(part))
                && !self.runs.iter().all(has_own)
    }
}

/// Whether the contents of a key (or their paths) differ between the runs that record them. Contents that are specific to a
/// seed are compared only between runs of the same seed.
fn has_several_contents<'a>(
    runs: impl Iterator<Item = &'a Run>,
    key: &str,
    of: fn(&Origin) -> &String,
) -> bool {
    let mut known: BTreeMap<Option<&str>, Vec<&String>> = BTreeMap::new();
    for run in runs {
        let own: Vec<&Origin> = run.origins.iter().filter(|o| o.key == key).collect();
        let Some(origin) = own.first() else { continue };
        let seed = run.seed.as_deref().filter(|_| origin.is_per_seed);
        let found: Vec<&String> = own.into_iter().map(of).collect();
        match known.get(&seed) {
            Some(before) if *before != found => return true,
            Some(_) => {}
            None => drop(known.insert(seed, found)),
        }
    }
    false
}

/// Whether an axis varies the content of a key: it is the key itself, a table around it, or its checkpoint choice.
fn axis_varies_key(axis: &str, key: &str) -> bool {
    let within = key
        .strip_prefix(axis)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let checkpoint = match key.strip_suffix(".from") {
        Some(table) => format!("{table}.checkpoint"),
        None => format!("{key}_checkpoint"),
    };
    within || axis == checkpoint
}

/// Returns for each arm whether different contents forbid testing its difference from the first one.
pub fn content_differs(compared: ComparedRuns) -> Vec<bool> {
    let Some(first) = compared.arms.first() else {
        return Vec::new();
    };
    let keys = compared.keys();
    let of = |arm| keys.iter().any(|key| compared.differ(key, first, arm));
    let others = compared.arms.iter().skip(1).map(of);
    std::iter::once(false).chain(others).collect()
}

/// Returns the notes on contents that differ under the same key: `the content of data.path is not the same in all runs …`.
pub fn notes(compared: ComparedRuns) -> Vec<String> {
    let Some((first, others)) = compared.arms.split_first() else {
        return Vec::new();
    };
    let note = |key: &str| {
        let apart = others.iter().filter(|arm| compared.differ(key, first, arm));
        let apart: Vec<&Arm> = apart.collect();
        let alone = others.is_empty() && compared.differ(key, first, first);
        if apart.is_empty() && !alone {
            return None;
        }
        let named = || apart.iter().copied().take(NAMED);
        let said = |arm: &Arm| format!("{}: {}", arm.id, sums(compared, arm, key));
        let each: Vec<String> = std::iter::once(first).chain(named()).map(said).collect();
        let more = match apart.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!(", and {n} more arms"),
        };
        let ids: Vec<&str> = named().map(|arm| arm.id.as_str()).collect();
        let untested = match ids.as_slice() {
            [] => String::new(),
            ids => format!(
                ": the difference of {}{more} from {} is not tested",
                ids.join(", "),
                first.id
            ),
        };
        Some(format!(
            "the content of {key} is not the same in all runs ({}){untested}",
            each.join(", ")
        ))
    };
    compared.keys().into_iter().filter_map(note).collect()
}

/// Formats the content hashes of a key in an arm's counted runs: `1a2b3c4d and 5e6f7a8b`.
fn sums(compared: ComparedRuns, arm: &Arm, key: &str) -> String {
    let of_run = |run: &Run| {
        let own = run.origins.iter().filter(|o| o.key == key);
        let own: Vec<&str> = own.map(|o| short(&o.sha256)).collect();
        let more = if own.len() > MAX_HASHES { " …" } else { "" };
        format!("{}{more}", own[..own.len().min(MAX_HASHES)].join(" "))
    };
    let all: BTreeSet<String> = arm
        .counted
        .iter()
        .map(|&m| of_run(&compared.runs[m]))
        .collect();
    let all: Vec<String> = all.into_iter().filter(|sums| !sums.is_empty()).collect();
    match all.len() {
        0 => "not known".into(),
        n if n > NAMED => format!("{} and {} more", all[..NAMED].join(" and "), n - NAMED),
        _ => all.join(" and "),
    }
}
