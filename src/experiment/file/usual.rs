//! Values that follow from others where no file says them. The kind of a table that says none is that of the table which stands
//! there where a file has no such table; the entropy of attention is measured where there is some.

use super::read::{kinds, read};
use super::tree::{Node, Value};
use crate::experiment::{Experiment, Origin};
use std::collections::BTreeMap;

/// Leaves the entropy of attention out of the diagnostics of a model whose attention forms no weights, unless a file or a `--set`
/// asks for it, which [`crate::experiment::check`] refuses.
pub(super) fn measured(experiment: &mut Experiment, origins: &BTreeMap<String, Origin>) {
    let written = origins.contains_key("diagnostics.attention_entropy");
    if let Some(measured) = &mut experiment.diagnostics
        && !written
    {
        let model = &experiment.model;
        let mut networks = model.networks().into_iter();
        let attends = networks.any(|network| network.transformer().is_some());
        measured.attention_entropy &= attends && model.forms_weights();
    }
}

/// Gives a table without a kind the one that stands there where the file has no such table; whether there is one.
pub(super) fn take_kind(root: &mut Node, at: &[String]) -> bool {
    let mut without = root.clone();
    if !remove(&mut without, at) {
        return false;
    }
    // Other faulty keys are removed, too: they are reported once all kinds are known.
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
    let kind = written.or_else(|| without_effect(&without, at, &experiment));
    let table = root.at_mut(at).and_then(Node::table_mut);
    match (kind, table) {
        (Some(kind), Some(table)) => {
            table.insert("kind", named(kind));
            true
        }
        _ => false,
    }
}

/// The kind that changes nothing where it stands alone: that of a default which is not written out, as `[decode]`.
fn without_effect(without: &Node, at: &[String], experiment: &Experiment) -> Option<&'static str> {
    let (last, parents) = at.split_last()?;
    let same = |kind: &str| {
        let mut tree = without.clone();
        let Some(parent) = tree.at_mut(parents).and_then(Node::table_mut) else {
            return false;
        };
        parent.insert(last, named(kind));
        read::<Experiment>(&mut tree).is_ok_and(|other| other == *experiment)
    };
    let all = kinds::<Experiment>(without, at);
    all.iter().copied().find(|kind| same(kind))
}

/// A kind as a string, which no file holds.
fn named(kind: &str) -> Node {
    Node {
        value: Value::String(kind.into()),
        origin: Origin::Default,
    }
}

/// Takes a node out of a tree; whether it was there.
fn remove(root: &mut Node, place: &[String]) -> bool {
    let Some((last, parents)) = place.split_last() else {
        return false;
    };
    let table = root.at_mut(parents).and_then(Node::table_mut);
    table.and_then(|table| table.remove(last)).is_some()
}
