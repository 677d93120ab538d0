//! Lists the content of a tree by dotted names: the origin of every key, and plain values.

use super::tree::{Node, Value};
use crate::experiment::Origin;
use std::collections::BTreeMap;

/// Origins and plain values by dotted names.
pub(super) type OriginsAndValues = (BTreeMap<String, Origin>, BTreeMap<String, toml::Value>);

/// Collects the origins and values of a whole file.
pub(super) fn origins_and_values(root: &Node) -> OriginsAndValues {
    let mut found = OriginsAndValues::default();
    collect(root, "", &mut found);
    found
}

/// Collects the origin and plain value of every key; a table in a list is named by its index from 0.
fn collect(node: &Node, prefix: &str, found: &mut OriginsAndValues) {
    let mut note = |key: &str, child: &Node| {
        let name = match prefix {
            "" => key.to_string(),
            _ => format!("{prefix}.{key}"),
        };
        found.0.insert(name.clone(), child.origin.clone());
        collect(child, &name, found);
    };
    match &node.value {
        Value::Table(table) => {
            let all = table.entries.iter();
            all.for_each(|(key, child)| note(key, child));
        }
        Value::Array(items) => {
            let all = items.iter().enumerate();
            let tables = all.filter(|(_, item)| item.table().is_some());
            tables.for_each(|(number, item)| note(&number.to_string(), item));
        }
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => {}
    }
    if let Some(value) = plain(node) {
        found.1.insert(prefix.to_string(), value);
    }
}

/// The value, unless it contains a table.
fn plain(node: &Node) -> Option<toml::Value> {
    match &node.value {
        Value::String(text) => Some(toml::Value::String(text.clone())),
        Value::Integer(number) => Some(toml::Value::Integer(*number)),
        Value::Float(number) => Some(toml::Value::Float(*number)),
        Value::Boolean(is) => Some(toml::Value::Boolean(*is)),
        Value::Array(items) => items
            .iter()
            .map(plain)
            .collect::<Option<_>>()
            .map(toml::Value::Array),
        Value::Table(_) => None,
    }
}
