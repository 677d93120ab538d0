//! Checks that the values of a metric measure the same thing. A loss over other tokens, of other rows or in other units is a
//! different number for the same network, so the difference of two such numbers does not test anything else that differs.
//! [`crate::task::metric_keys`] lists the keys that define a measure, [`super::examples`] those that define the examples.

use std::collections::{BTreeMap, BTreeSet};

use super::examples::{self, RunInputs, is_within};
use super::origins::ComparedRuns;
use crate::data::evaluation_keys;
use crate::evaluate::metric::BITS_PER_BYTE;
use crate::task::metric_keys::{self, MetricKeys, is_loss, is_per_token};

/// Maximum number of values that a note lists.
const NAMED: usize = 12;
/// Key of the task's kind.
const KIND: &str = "task.kind";
/// Prefix of the tokenizer's keys.
const TOKENIZER: &str = "tokenizer.";

/// Returns for each arm whether its values are of a different measure, or on different examples, than the first arm's.
pub fn measure_differs(compared: ComparedRuns, metric: &str) -> Vec<bool> {
    let Some((first, others)) = compared.arms.split_first() else {
        return Vec::new();
    };
    let of = |arm| {
        let runs = compared.counted(first).chain(compared.counted(arm));
        let made: Vec<RunInputs> = runs.map(RunInputs::of).collect();
        !differing_keys(&made, metric).is_empty()
            || !examples::differing_examples(&made, compared.split).is_empty()
    };
    let others = others.iter().map(of);
    std::iter::once(false).chain(others).collect()
}

/// Returns the notes on runs whose values are not comparable, such as
/// `runs differ in their valid examples (data.valid_fraction: 0.1 | 0.2) …`.
pub fn notes(compared: ComparedRuns, metric: &str) -> Vec<String> {
    let counted = compared.arms.iter().flat_map(|arm| compared.counted(arm));
    let made: Vec<RunInputs> = counted.map(RunInputs::of).collect();
    let split = compared.split;
    let of_examples = examples::differing_examples(&made, split);
    let of_measure = differing_keys(&made, metric);
    let tokens = match is_loss(metric) && of_measure.iter().all(|key| key.starts_with(TOKENIZER)) {
        true => " (only bits_per_byte is comparable between tokenizers)",
        false => "",
    };
    let notes = [
        (!of_examples.is_empty()).then(|| {
            format!(
                "runs differ in their {split} examples ({}): {metric} is measured on different examples, so their differences are \
                 not tested",
                of_examples.join("; ")
            )
        }),
        (!of_measure.is_empty()).then(|| {
            format!(
                "runs differ in keys that define {metric} ({}): its values are not comparable{tokens}, so their differences are \
                 not tested",
                of_measure.join("; ")
            )
        }),
    ];
    notes.into_iter().flatten().collect()
}

/// Returns the keys that define a metric and differ between these runs: `task.beta: 0.1 | 0.5`.
pub fn differing_keys(made: &[RunInputs], metric: &str) -> Vec<String> {
    let all: Vec<BTreeMap<String, &str>> = made
        .iter()
        .map(|made| defining_settings(*made, metric))
        .collect();
    let keys: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    let values = |key: &str| {
        let values = all.iter().map(|own| own.get(key).copied());
        let values: BTreeSet<Option<&str>> = values.collect();
        let shown = values.iter().take(NAMED).map(|value| value.unwrap_or("–"));
        let shown: Vec<&str> = shown.collect();
        (values.len() > 1).then(|| format!("{key}: {}", shown.join(" | ")))
    };
    // Different kinds have different keys, so listing the other keys adds nothing.
    if let Some(kinds) = values(KIND) {
        return vec![kinds];
    }
    keys.into_iter()
        .filter_map(|key| values(key.as_str()))
        .collect()
}

/// Returns the settings that define a metric's values, under the keys of the task without distillation; empty if no setting
/// defines the metric.
fn defining_settings<'a>(made: RunInputs<'a>, metric: &str) -> BTreeMap<String, &'a str> {
    let mut found = BTreeMap::new();
    // A distillation task is evaluated as the task it wraps (`task.of`).
    let (table, kind) = match made.setting("task.of.kind") {
        Some(kind) => ("task.of.", kind),
        None => match made.setting(KIND) {
            Some(kind) => ("task.", kind),
            None => return found,
        },
    };
    let measures = metric_keys::find_by_kind(kind);
    if let Some(measures) = measures {
        found.extend(targets(made, measures, metric));
    }
    let keys = match measures {
        Some(measures) => measures.keys(metric),
        None => is_loss(metric).then_some(&[][..]),
    };
    let Some(keys) = keys else { return found };
    found.insert(KIND.to_string(), kind);
    for (name, value) in made.settings {
        let of_task = name.strip_prefix(table);
        let own = of_task.filter(|below| keys.iter().any(|key| is_within(below, key)));
        if let Some(below) = own {
            found.insert(format!("task.{below}"), value);
        } else if keys.iter().any(|key| is_within(name, key)) {
            found.insert(name.clone(), value);
        }
    }
    if let Some(measures) = measures {
        found.extend(rows(made, measures, table));
        if is_loss(metric) && measures.over_tokens {
            found.extend(tokens(made));
        }
    }
    found
}

/// Returns the tokenizer settings.
fn tokens<'a>(made: RunInputs<'a>) -> impl Iterator<Item = (String, &'a str)> {
    let keys = made.settings.iter();
    let keys = keys.filter(|(name, _)| name.starts_with(TOKENIZER));
    keys.map(|(name, value)| (name.clone(), value.as_str()))
}

/// Returns the data settings for how targets are written and how much of them is scored, if these define the metric.
fn targets<'a>(made: RunInputs<'a>, measures: &MetricKeys, metric: &str) -> Vec<(String, &'a str)> {
    let Some(data) = evaluation_keys::of_kind(made.setting("data.kind").unwrap_or_default()) else {
        return Vec::new();
    };
    let given = |key: &&str| {
        let key = format!("data.{key}");
        made.setting(&key).map(|value| (key, value))
    };
    let by_token = measures.over_tokens && is_per_token(metric);
    let is_written = is_loss(metric) || by_token && metric == BITS_PER_BYTE.name;
    let written = data.rendering_keys.iter().filter(|_| is_written);
    let cut = data.length_keys.iter().find_map(given).filter(|_| by_token);
    written.filter_map(given).chain(cut).collect()
}

/// Returns the number of rows that a contrastive loss compares with each other: a group, or the whole batch of a step.
fn rows<'a>(made: RunInputs<'a>, measures: &MetricKeys, table: &str) -> Option<(String, &'a str)> {
    let loss = made.setting(&format!("{table}loss"));
    let usual = measures.compares_rows.first().copied();
    let compares = measures.compares_rows.contains(&loss.or(usual)?);
    let group = made.setting(&format!("{table}group"));
    let rows = group.or_else(|| made.setting("train.batch_size"));
    Some(("task.group".to_string(), rows?)).filter(|_| compares)
}
