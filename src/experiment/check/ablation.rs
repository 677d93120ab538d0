//! Checks `[ablation]`, as far as possible without expanding its arms.

use super::Checker;
use crate::experiment::Origin;
use crate::experiment::ablation::{AblationConfig, Matched};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// Maximum number of arms or seeds; more are assumed to be a typing mistake.
const MOST: u64 = 10_000;
/// The largest integer that an experiment file can hold.
const MOST_SEED: u64 = i64::MAX as u64;
/// Keys that a sweep sets for its runs itself.
const SWEEP_KEYS: [&str; 3] = ["seed", "name", "ablation"];
/// Keys that affect only the use of a trained run and not the evaluations during training, each with the reason.
const INFERENCE_KEYS: [(&str, &str); 4] = [
    (
        "decode.search.beam",
        "evaluations during training search with decode.valid_beam; vary that key instead",
    ),
    (
        "decode.search.n_best",
        "evaluations during training write one text for each source",
    ),
    (
        "decode.sampling",
        "evaluations during training sample no texts; use `generate` with its flags on one run",
    ),
    (
        "decode.beam_search",
        "evaluations during training continue no texts; use `generate` with its flags on one run",
    ),
];

pub(super) fn check(sense: &mut Checker) {
    let Some(ablation) = &sense.loaded.experiment.ablation else {
        return;
    };
    let many = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    sense.count("ablation.seeds", many(ablation.seeds), MOST as usize);
    if ablation.seeds > MOST_SEED - sense.loaded.experiment.seed.min(MOST_SEED) {
        sense.fault(
            &["seed", "ablation.seeds"],
            "seed and the seeds that follow it are too large",
        );
    }
    axes(sense, &ablation.axes);
    arms(sense, ablation);
    overlaps(sense, ablation);
    size(sense, ablation);
    budget(sense, ablation);
    halving(sense, ablation);
    if let Some(random) = &ablation.random {
        sense.count(
            "ablation.random.samples",
            many(random.samples),
            MOST as usize,
        );
        if random.ranges.is_empty() {
            sense.fault(
                &["ablation.random.ranges"],
                "ranges is empty; name the keys to draw",
            );
        }
        for (key, range) in &random.ranges {
            refuse_sweep_key(sense, "ablation.random.ranges", key);
            refuse_inference_key(sense, "ablation.random.ranges", key);
            if let Some(wrong) = range.fault() {
                let rule = format!("ranges.{key}: {wrong}");
                let place = format!("ablation.random.ranges.{key}");
                sense.fault_at("ablation.random.ranges", &place, rule);
            }
        }
    }
    if ablation.axes.is_empty() && ablation.arms.is_empty() && ablation.random.is_none() {
        sense.fault(
            &["ablation"],
            "[ablation] varies nothing; add axes, arms or random",
        );
    }
}

/// Checks the rungs as far as possible without the arms; `crate::ablation::halving` checks them against each arm.
fn halving(sense: &mut Checker, ablation: &AblationConfig) {
    let Some(halving) = &ablation.halving else {
        return;
    };
    let train = &sense.loaded.experiment.train;
    let (every, axes) = (train.eval_every, &ablation.axes);
    if !(2..=MOST).contains(&halving.eta) {
        let rule = format!("eta = {} must be between 2 and {MOST}", halving.eta);
        sense.fault(&["ablation.halving.eta"], rule);
    }
    if halving.first == 0 {
        sense.fault(&["ablation.halving.first"], "first = 0 must be 1 or more");
    } else if every.is_none() && !axes.contains_key("train.eval_every") {
        sense.fault(
            &["ablation.halving.first", "ablation.halving"],
            "halving compares arms by evaluations during training; set train.eval_every",
        );
    }
    if ablation.baseline.is_some() {
        sense.fault(
            &["ablation.baseline"],
            "baseline has no effect with halving, which ranks arms and does not test them against each other",
        );
    }
}

/// Reports two lists that set the same key, or a key and its parent: one would override the other silently.
fn overlaps(sense: &mut Checker, ablation: &AblationConfig) {
    let arms: BTreeSet<&String> = ablation
        .arms
        .iter()
        .flat_map(|arm| arm.set.keys())
        .collect();
    // Where a list sets a key; for `arms`, the first arm that sets it.
    let place = |list: &str, key: &str| match list {
        "axes" => format!("ablation.axes.{key}"),
        "random" => format!("ablation.random.ranges.{key}"),
        _ => {
            let mut arms = ablation.arms.iter();
            let number = arms.position(|arm| arm.set.contains_key(key));
            format!("ablation.arms.{}.set.{key}", number.unwrap_or(0))
        }
    };
    // A table is not an axis and is reported separately.
    let axes = ablation.axes.iter().filter(|(_, value)| !value.is_table());
    let mut all: Vec<(&str, &String)> = axes.map(|(key, _)| ("axes", key)).collect();
    all.extend(arms.into_iter().map(|key| ("arms", key)));
    let drawn = ablation.random.iter().flat_map(|r| r.ranges.keys());
    all.extend(drawn.map(|key| ("random", key)));
    let within =
        |a: &str, b: &str| a == b || a.strip_prefix(b).is_some_and(|rest| rest.starts_with('.'));
    let mut faults = Vec::new();
    for (i, (list, key)) in all.iter().enumerate() {
        for (other, same) in &all[..i] {
            // Different named arms may set the same key.
            let apart = list == other && *list == "arms";
            if !apart && (within(key, same) || within(same, key)) {
                let rule =
                    format!("{list} and {other} both set `{key}`; remove it from one of them");
                faults.push((place(list, key), rule));
            }
        }
    }
    let steps_are_found =
        ablation.budget.is_some() || ablation.matched.is_some_and(|m| m != Matched::Parameters);
    let is_length = |key: &String| ["train.steps", "train.epochs"].contains(&key.as_str());
    let length = all.iter().find(|(_, key)| is_length(key));
    if let (true, Some((list, key))) = (steps_are_found, length) {
        let rule =
            format!("`{key}` has no effect with match or budget, which set how long arms train");
        faults.push((place(list, key), rule));
    }
    for (place, rule) in faults {
        sense.fault_at("ablation.axes", &place, rule);
    }
}

/// Limits the number of arms.
fn size(sense: &mut Checker, ablation: &AblationConfig) {
    let axes = ablation
        .axes
        .values()
        .filter_map(Value::as_array)
        .map(|a| a.len() as u64);
    let others = [
        ablation.arms.len() as u64,
        ablation.random.as_ref().map_or(1, |random| random.samples),
    ];
    let mut sizes = axes.chain(others).map(|n| n.max(1));
    let arms = sizes.try_fold(1u64, u64::checked_mul);
    if arms.is_none_or(|arms| arms > MOST) {
        let rule = format!("[ablation] has more than {MOST} arms");
        sense.fault(&["ablation"], rule);
    }
}

/// Reports a key that the sweep sets itself.
fn refuse_sweep_key(sense: &mut Checker, table: &str, key: &str) {
    let first = key.split('.').next().unwrap_or(key);
    if SWEEP_KEYS.contains(&first) {
        let rule = match first {
            "seed" => {
                "`seed` cannot be an axis: `seeds` sets how many seeds each arm gets".to_string()
            }
            "ablation" => {
                format!(
                    "`{key}` cannot be an axis: [ablation] belongs to the whole sweep, not to an arm"
                )
            }
            _ => format!("`{key}` cannot be an axis: a sweep names its runs itself"),
        };
        sense.fault_at(table, &format!("{table}.{key}"), rule);
    }
}

/// Reports a key that affects nothing a sweep measures.
fn refuse_inference_key(sense: &mut Checker, table: &str, key: &str) {
    if let Some(why) = inference_key_reason(key) {
        let rule = format!("`{key}` has no effect on what a sweep measures: {why}");
        sense.fault_at(table, &format!("{table}.{key}"), rule);
    }
}

/// Why a key has no effect on what a sweep measures; `None` if it has an effect.
fn inference_key_reason(key: &str) -> Option<&'static str> {
    let mut all = INFERENCE_KEYS.into_iter();
    let found = all.find(|(known, _)| {
        let rest = key.strip_prefix(*known);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    found.map(|(_, why)| why)
}

fn axes(sense: &mut Checker, axes: &Table) {
    for (key, values) in axes {
        refuse_sweep_key(sense, "ablation.axes", key);
        refuse_inference_key(sense, "ablation.axes", key);
        let place = format!("ablation.axes.{key}");
        match values {
            Value::Array(values) if !values.is_empty() => {
                let known: BTreeSet<String> = values.iter().map(Value::to_string).collect();
                if known.len() < values.len() {
                    let rule = format!("axes.{key} contains a value twice");
                    sense.fault_at("ablation.axes", &place, rule);
                }
            }
            Value::Table(_) => {
                let set = match matches!(sense.loaded.origin(&place), Origin::Set(_)) {
                    true => format!("; with --set: --set 'ablation.axes={{ \"{key}.…\" = […] }}'"),
                    false => String::new(),
                };
                let rule = format!(
                    "axes.{key} must be a list; write the dotted key in quotes: \"{key}.…\" = […]{set}"
                );
                sense.fault_at("ablation.axes", &place, rule);
            }
            _ => {
                let rule = format!("axes.{key} must be a list of values");
                sense.fault_at("ablation.axes", &place, rule);
            }
        }
    }
}

fn arms(sense: &mut Checker, ablation: &AblationConfig) {
    let mut seen = BTreeSet::new();
    for (number, arm) in ablation.arms.iter().enumerate() {
        let table = format!("ablation.arms.{number}");
        let name = format!("{table}.name");
        if arm.name.trim().is_empty() {
            sense.fault(&[&name], "an arm has an empty name");
        }
        if !seen.insert(&arm.name) {
            let rule = format!("two arms are named `{}`", arm.name);
            sense.fault(&[&name], rule);
        }
        for key in arm.set.keys() {
            refuse_sweep_key(sense, &format!("{table}.set"), key);
        }
        // If an arm sets other keys as well, such a key is allowed: it is for the later use of the arm's runs.
        if let Some(key) = arm.set.keys().next()
            && arm
                .set
                .keys()
                .all(|key| inference_key_reason(key).is_some())
        {
            refuse_inference_key(sense, &format!("{table}.set"), key);
        }
    }
}

fn budget(sense: &mut Checker, ablation: &AblationConfig) {
    let Some(budget) = &ablation.budget else {
        return;
    };
    let given = budget.given();
    match given.as_slice() {
        [(key, value)] if !(*value > 0.0 && value.is_finite()) => {
            let rule = format!("budget.{key} must be above 0");
            let place = format!("ablation.budget.{key}");
            sense.fault_at("ablation.budget", &place, rule);
        }
        [_] => {}
        _ => sense.fault(
            &["ablation.budget"],
            "budget needs exactly one of steps, items, flops and minutes",
        ),
    }
    if ablation.matched.is_some_and(|m| m != Matched::Parameters) {
        sense.fault(
            &["ablation.match", "ablation.budget"],
            "match and budget both set how long arms train; remove one of them",
        );
    }
}
