//! Defaults that depend on other values. A table without a kind takes the kind of the default table in its place. Attention
//! entropy is only measured if there is attention.

use super::read::{kinds, read};
use super::tree::{Node, Value};
use crate::experiment::{Experiment, Origin};
use std::collections::BTreeMap;

/// Turns off the attention entropy in the diagnostics of a model whose attention forms no weights, unless a file or a `--set`
/// asks for it, which [`crate::experiment::check`] then refuses.
pub(super) fn disable_unmeasurable(
    experiment: &mut Experiment,
    origins: &BTreeMap<String, Origin>,
) {
    let written = origins.contains_key("diagnostics.attention_entropy");
    if let Some(measured) = &mut experiment.diagnostics
        && !written
    {
        let model = &experiment.model;
        let mut networks = model.networks().into_iter();
        let attends = networks.any(|network| network.transformer().is_some());
        measured.attention_entropy &= attends && model.has_attention_weights();
    }
}

/// Gives a table without a kind the kind that the table has by default; returns whether there is one.
pub(super) fn fill_default_kind(root: &mut Node, at: &[String]) -> bool {
    let mut without = root.clone();
    if !remove(&mut without, at) {
        return false;
    }
    // Other faulty keys are removed as well: they are reported once all kinds are known.
    let experiment = loop {
        match read::<Experiment>(&mut without) {
            Ok(experiment) => break experiment,
            Err((place, _)) => {
                if !remove(&mut without, &place) {
                    return false;
                }
            }
        }
    };
    let resolved = toml::Table::try_from(&experiment)
        .ok()
        .map(toml::Value::Table);
    let usual = at
        .iter()
        .try_fold(resolved.as_ref(), |value, key| Some(value?.get(key)));
    let written = usual
        .flatten()
        .and_then(|table| table.get("kind")?.as_str());
    let kind = written.or_else(|| neutral_kind(&without, at, &experiment));
    let table = root.at_mut(at).and_then(Node::table_mut);
    match (kind, table) {
        (Some(kind), Some(table)) => {
            table.insert("kind", kind_node(kind));
            true
        }
        _ => false,
    }
}

/// The kind that changes nothing if it is the only key: that of a default that is not written out, such as `[decode]`.
fn neutral_kind(without: &Node, at: &[String], experiment: &Experiment) -> Option<&'static str> {
    let (last, parents) = at.split_last()?;
    let same = |kind: &str| {
        let mut tree = without.clone();
        let Some(parent) = tree.at_mut(parents).and_then(Node::table_mut) else {
            return false;
        };
        parent.insert(last, kind_node(kind));
        read::<Experiment>(&mut tree).is_ok_and(|other| other == *experiment)
    };
    let all = kinds::<Experiment>(without, at);
    all.iter().copied().find(|kind| same(kind))
}

/// A kind as a string that does not come from any file.
fn kind_node(kind: &str) -> Node {
    Node {
        value: Value::String(kind.into()),
        origin: Origin::Default,
    }
}

/// Removes a node from a tree; returns whether it existed.
fn remove(root: &mut Node, place: &[String]) -> bool {
    let Some((last, parents)) = place.split_last() else {
        return false;
    };
    let table = root.at_mut(parents).and_then(Node::table_mut);
    table.and_then(|table| table.remove(last)).is_some()
}
