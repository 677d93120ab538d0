//! A document as a tree that records the origin of every key, and the merging of trees.
//!
//! A table of item indices, from 0, that is merged over a list changes these items (`--set model.layers.0.repeat=2`).
//!
//! Two rules make "one key changes the scheme" true: a string merged with a tagged table is that table's `kind`, and a table
//! with another `kind` than the table below replaces it completely.

use crate::experiment::Origin;
use std::collections::HashMap;

/// A value and the origin of its key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub value: Value,
    pub origin: Origin,
}

/// A TOML value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Table(Table),
    Array(Vec<Node>),
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

/// Entries in the order of the document.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    pub entries: Vec<(String, Node)>,
}

impl Table {
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, n)| n)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        let entry = self.entries.iter_mut().find(|(k, _)| k == key);
        entry.map(|(_, n)| n)
    }

    pub fn insert(&mut self, key: &str, node: Node) {
        match self.get_mut(key) {
            Some(old) => *old = node,
            None => self.entries.push((key.into(), node)),
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let at = self.entries.iter().position(|(k, _)| k == key)?;
        Some(self.entries.remove(at).1)
    }

    /// Whether all keys are indices of a list of `items` items.
    fn has_index_keys(&self, items: usize) -> bool {
        let is_one = |(key, _): &(String, Node)| key.parse::<usize>().is_ok_and(|at| at < items);
        !self.entries.is_empty() && self.entries.iter().all(is_one)
    }

    /// The string at `key`, when there is one.
    pub fn string(&self, key: &str) -> Option<&str> {
        match self.get(key).map(|n| &n.value) {
            Some(Value::String(s)) => Some(s),
            _ => None,
        }
    }

    /// Merges `over` into this table.
    pub fn merge(&mut self, over: Self, layers: MergeMode) {
        let (below, above) = (self.string("kind"), over.string("kind"));
        if layers == MergeMode::OverLayer && below.is_some() && above.is_some() && below != above {
            *self = over;
            return;
        }
        // A file may have any number of keys, so they are looked up in a map.
        let names = self.entries.iter().map(|(key, _)| key.clone());
        let places: HashMap<String, usize> = names.zip(0..).collect();
        for (key, node) in over.entries {
            match places.get(&key) {
                Some(at) => self.entries[*at].1.merge(node, layers),
                None => self.entries.push((key, node)),
            }
        }
    }
}

/// Whether the keys of two tables were written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeMode {
    /// In one layer: the result is the union of both tables.
    SameLayer,
    /// In two layers: a table of another `kind` replaces the one below.
    OverLayer,
}

impl Node {
    pub fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    pub fn table_mut(&mut self) -> Option<&mut Table> {
        match &mut self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The node at a path of keys; a list item is named by its index.
    pub fn at(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| match &node.value {
            Value::Table(table) => table.get(key),
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// As [`Self::at`], mutable.
    pub fn at_mut(&mut self, path: &[String]) -> Option<&mut Self> {
        path.iter()
            .try_fold(self, |node, key| match &mut node.value {
                Value::Table(table) => table.get_mut(key),
                Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
                _ => None,
            })
    }

    /// Appends the items of another list; a value that is not a list is kept, so that the reader refuses it.
    pub fn append(&mut self, other: Self) {
        match (&mut self.value, other.value) {
            (Value::Array(items), Value::Array(more)) => items.extend(more),
            (Value::Array(_), other) => self.value = other,
            _ => {}
        }
    }

    /// Turns the string `"x"` into the table `{ kind = "x" }`.
    pub fn string_to_kind(&mut self) {
        if let Value::String(_) = self.value {
            let kind = self.clone();
            let mut table = Table::default();
            table.insert("kind", kind);
            self.value = Value::Table(table);
        }
    }

    fn merge(&mut self, mut over: Self, layers: MergeMode) {
        let tagged = |n: &Self| n.table().is_some_and(|t| t.string("kind").is_some());
        match (&self.value, &over.value) {
            (Value::Table(_), Value::String(_))
                if layers == MergeMode::SameLayer || tagged(self) =>
            {
                over.string_to_kind();
            }
            (Value::String(_), Value::Table(_)) => self.string_to_kind(),
            _ => {}
        }
        self.origin = over.origin;
        match (&mut self.value, over.value) {
            (Value::Table(below), Value::Table(above)) => below.merge(above, layers),
            (Value::Array(items), Value::Table(above)) if above.has_index_keys(items.len()) => {
                for (key, node) in above.entries {
                    let at = key.parse::<usize>().ok();
                    if let Some(item) = at.and_then(|at| items.get_mut(at)) {
                        item.merge(node, layers);
                    }
                }
            }
            (below, above) => *below = above,
        }
    }

    /// The value in TOML syntax, truncated if it is long.
    pub fn to_short_toml(&self) -> String {
        let text = match &self.value {
            Value::Table(_) => "a table".into(),
            Value::Array(_) => "a list".into(),
            Value::String(s) => super::escape::basic(s),
            Value::Integer(i) => i.to_string(),
            Value::Float(f) => toml::Value::Float(*f).to_string(),
            Value::Boolean(b) => b.to_string(),
        };
        match text.char_indices().nth(60) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }
}
