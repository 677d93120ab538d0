//! `unset = ["train.ema"]`: removes keys that extended files set, since TOML has no null value. The keys then have their
//! defaults, or the values that the same file gives.

use super::messages::placed;
use super::tree::{Node, Table, Value};
use crate::error::{Fault, suggestion};
use crate::experiment::Origin;
use std::path::Path;

/// Name of the key at the top of a file.
pub(in crate::experiment) const UNSET: &str = "unset";

/// A key to remove, and where this was requested.
pub(super) struct Unset {
    pub key: String,
    origin: Origin,
}

/// Removes `unset` from a layer and returns the keys it lists.
pub(super) fn take_unset(path: &Path, layer: &mut Table) -> Result<Vec<Unset>, Fault> {
    let Some(node) = layer.remove(UNSET) else {
        return Ok(Vec::new());
    };
    let rule = "must be a list of keys by their dotted names, for example unset = [\"train.ema\"]";
    let fault = |shown: &str| placed(path, Some(&node.origin), format!("unset = {shown} {rule}"));
    let Value::Array(items) = &node.value else {
        return Err(fault(&node.to_short_toml()));
    };
    if items.is_empty() {
        return Err(fault("[]"));
    }
    let mut all = Vec::new();
    for item in items {
        let Value::String(key) = &item.value else {
            return Err(fault(&format!("[{}]", item.to_short_toml())));
        };
        let written = find(layer, key).filter(|node| node.table().is_none());
        if written.is_some() {
            let rule = format!("unset names `{key}`, but the same file sets it; keep one");
            return Err(placed(path, Some(&item.origin), rule));
        }
        all.push(Unset {
            key: key.clone(),
            origin: item.origin.clone(),
        });
    }
    Ok(all)
}

impl Unset {
    /// Removes the key from the layers below; returns a message with the removed value and both locations.
    pub fn apply(&self, path: &Path, below: &mut Table) -> Result<String, Fault> {
        if let Some(gone) = remove(below, &self.key) {
            return Ok(self.removal_message(&gone));
        }
        let key = &self.key;
        let rule = if key == "model.preset" {
            "a preset is removed with the whole table, unset = [\"model\"], or replaced by another preset"
                .into()
        } else if below.entries.is_empty() {
            format!(
                "this file extends no file that could set `{key}`; unset needs extends or a preset"
            )
        } else if in_a_list(below, key) {
            format!("`{key}` is an item of a list; write the whole list instead")
        } else {
            let mut names = Vec::new();
            collect(below, "", &mut names);
            let near = suggestion(key, names.iter().map(String::as_str));
            match near.ends_with('?') {
                true => format!("no extended file sets `{key}`{near}"),
                false => format!(
                    "no extended file sets `{key}`; formwork check prints the keys that are set, with their places"
                ),
            }
        };
        Err(placed(path, Some(&self.origin), format!("unset: {rule}")))
    }

    fn removal_message(&self, gone: &Node) -> String {
        let value = match &gone.value {
            Value::Table(_) => String::new(),
            Value::Array(_) => " = […]".into(),
            _ => format!(" = {}", gone.to_short_toml()),
        };
        let (was, by) = (
            super::show::place(&gone.origin),
            super::show::place(&self.origin),
        );
        format!("{}{value} ({was}) is unset by {by}", self.key)
    }
}

/// The node at a dotted key.
fn find<'t>(table: &'t Table, key: &str) -> Option<&'t Node> {
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    let (first, rest) = path.split_first()?;
    table.get(first)?.at(rest)
}

/// Removes the node at a dotted key of tables.
fn remove(table: &mut Table, key: &str) -> Option<Node> {
    let Some((above, last)) = key.rsplit_once('.') else {
        return table.remove(key);
    };
    let path: Vec<String> = above.split('.').map(str::to_owned).collect();
    let (first, rest) = path.split_first()?;
    let above = table.get_mut(first)?.at_mut(rest)?;
    above.table_mut()?.remove(last)
}

fn in_a_list(table: &Table, key: &str) -> bool {
    let above = key
        .rsplit_once('.')
        .and_then(|(above, _)| find(table, above));
    above.is_some_and(|node| matches!(node.value, Value::Array(_)))
}

/// The dotted names of all keys.
fn collect(table: &Table, above: &str, names: &mut Vec<String>) {
    for (key, node) in &table.entries {
        let name = match above {
            "" => key.clone(),
            _ => format!("{above}.{key}"),
        };
        if let Some(inner) = node.table() {
            collect(inner, &name, names);
        }
        names.push(name);
    }
}
