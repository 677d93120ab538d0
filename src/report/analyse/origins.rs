//! Runs that were made from other contents under one key: a file of the data that was changed between them, other initial
//! weights, another teacher. Their values differ for that, too, and are no test of what else differs.
//!
//! A sweep may vary such a key by an axis, and runs that are named one by one may name other files: arms that differ in it are
//! then tested, unless the values themselves are of it, as where the validation split is.

use std::collections::{BTreeMap, BTreeSet};

use super::arms::Arm;
use crate::report::read::origins::{Origin, short};
use crate::report::read::run::Run;
use crate::report::read::sweep::SweepPlan;

/// Arms, sums and values that a note names, at most.
const NAMED: usize = 12;
/// Sums of one run.
const SUMS: usize = 3;

/// Runs that are compared on a split.
#[derive(Clone, Copy)]
pub struct Compared<'a> {
    /// All runs.
    pub runs: &'a [Run],
    /// The arms over them.
    pub arms: &'a [Arm],
    /// The sweep that they are of.
    pub plan: Option<&'a SweepPlan>,
    /// The split that values are of.
    pub split: &'a str,
}

impl<'a> Compared<'a> {
    /// Some runs on a split.
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

    /// The runs of an arm that count.
    pub(super) fn counted(self, arm: &'a Arm) -> impl Iterator<Item = &'a Run> {
        arm.counted.iter().map(move |&m| &self.runs[m])
    }

    fn keys(self) -> BTreeSet<&'a str> {
        let origins = self.runs.iter().flat_map(|run| &run.origins);
        origins.map(|origin| origin.key.as_str()).collect()
    }

    /// Whether an arm is not to be tested against the first one for the contents of a key.
    fn differ(self, key: &str, first: &'a Arm, arm: &'a Arm) -> bool {
        let both = || self.counted(first).chain(self.counted(arm));
        if !several(both(), key, |origin| &origin.sha256) {
            return false;
        }
        let within = |arm: &'a Arm| several(self.counted(arm), key, |origin| &origin.sha256);
        let meant = match self.plan {
            Some(plan) => plan.axes.iter().any(|axis| is_of(axis, key)),
            None => several(both(), key, |origin| &origin.place),
        };
        // No axis and no name asks for a file that changed while a run was on its way.
        let mut origins = both().flat_map(|run| &run.origins);
        let changed = origins.any(|o| o.key == key && o.until.is_some());
        changed || !meant || within(first) || within(arm) || self.is_scored(key)
    }

    /// Whether values are of the examples of a key: of those for the split, or of all where the split is a share of them.
    fn is_scored(self, key: &str) -> bool {
        let of_split = format!("data.{}", self.split);
        let own = format!("{of_split}_path");
        let has_own = |run: &Run| run.settings.iter().any(|(key, _)| *key == own);
        let held_out = ["data.valid", "data.test"];
        key.starts_with(&of_split)
            || key.starts_with("data.")
                && !held_out.iter().any(|part| key.starts_with(part))
                && !self.runs.iter().all(has_own)
    }
}

/// Whether the contents of a key, or their places, are not the same in all runs that tell; of what each seed has one of its own,
/// in all runs of one seed.
fn several<'a>(runs: impl Iterator<Item = &'a Run>, key: &str, of: fn(&Origin) -> &String) -> bool {
    let mut known: BTreeMap<Option<&str>, Vec<&String>> = BTreeMap::new();
    for run in runs {
        let own: Vec<&Origin> = run.origins.iter().filter(|o| o.key == key).collect();
        let Some(origin) = own.first() else { continue };
        let seed = run.seed.as_deref().filter(|_| origin.of_seed);
        let found: Vec<&String> = own.into_iter().map(of).collect();
        match known.get(&seed) {
            Some(before) if *before != found => return true,
            Some(_) => {}
            None => drop(known.insert(seed, found)),
        }
    }
    false
}

/// Whether an axis gives a key another content: the key itself, a table around it, or another checkpoint of the same run.
fn is_of(axis: &str, key: &str) -> bool {
    let within = key
        .strip_prefix(axis)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let checkpoint = match key.strip_suffix(".from") {
        Some(table) => format!("{table}.checkpoint"),
        None => format!("{key}_checkpoint"),
    };
    within || axis == checkpoint
}

/// For each arm, whether its difference from the first one is not to be tested.
pub fn apart(compared: Compared) -> Vec<bool> {
    let Some(first) = compared.arms.first() else {
        return Vec::new();
    };
    let keys = compared.keys();
    let of = |arm| keys.iter().any(|key| compared.differ(key, first, arm));
    let others = compared.arms.iter().skip(1).map(of);
    std::iter::once(false).chain(others).collect()
}

/// What is said of contents that are not the same under one key: `the content of data.path is not the same in all runs …`.
pub fn notes(compared: Compared) -> Vec<String> {
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

/// The sums of a key in the runs of an arm that count: `1a2b3c4d and 5e6f7a8b`.
fn sums(compared: Compared, arm: &Arm, key: &str) -> String {
    let of_run = |run: &Run| {
        let own = run.origins.iter().filter(|o| o.key == key);
        let own: Vec<&str> = own.map(|o| short(&o.sha256)).collect();
        let more = if own.len() > SUMS { " …" } else { "" };
        format!("{}{more}", own[..own.len().min(SUMS)].join(" "))
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
