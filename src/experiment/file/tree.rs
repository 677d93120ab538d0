//! A document as a tree that remembers, for every key, where it was written; and how trees merge.
//!
//! A table over a list whose keys are numbers of its items, from 0, is laid on these (`--set model.layers.0.repeat=2`).
//!
//! Two rules make "one key changes the scheme" true: a string where the other side has a tagged table is that
//! table's `kind`, and a table whose `kind` differs from that of the table below replaces it whole.

use crate::experiment::Origin;
use std::collections::HashMap;

/// A value and the place of its key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub value: Value,
    pub origin: Origin,
}

/// A value of TOML.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Table(Table),
    Array(Vec<Node>),
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

/// Keys in the order of the document.
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

    /// Whether its keys are numbers of a list of so many items.
    fn numbers(&self, items: usize) -> bool {
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

    /// Lays `over` on this table.
    pub fn merge(&mut self, over: Self, layers: Layers) {
        let (below, above) = (self.string("kind"), over.string("kind"));
        if layers == Layers::Two && below.is_some() && above.is_some() && below != above {
            *self = over;
            return;
        }
        // A file may have any number of keys, each of which is looked for.
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
pub(super) enum Layers {
    /// Together: the table is their union.
    One,
    /// One above the other: a table of another `kind` replaces the one below.
    Two,
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

    /// The node at a path of keys; an item of a list goes by its number.
    pub fn at(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| match &node.value {
            Value::Table(table) => table.get(key),
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// The node at a path of keys, to change.
    pub fn at_mut(&mut self, path: &[String]) -> Option<&mut Self> {
        path.iter()
            .try_fold(self, |node, key| match &mut node.value {
                Value::Table(table) => table.get_mut(key),
                Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
                _ => None,
            })
    }

    /// Adds the items of another list to this one; what is no list stays for the reader to refuse.
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

    fn merge(&mut self, mut over: Self, layers: Layers) {
        let tagged = |n: &Self| n.table().is_some_and(|t| t.string("kind").is_some());
        match (&self.value, &over.value) {
            (Value::Table(_), Value::String(_)) if layers == Layers::One || tagged(self) => {
                over.string_to_kind();
            }
            (Value::String(_), Value::Table(_)) => self.string_to_kind(),
            _ => {}
        }
        self.origin = over.origin;
        match (&mut self.value, over.value) {
            (Value::Table(below), Value::Table(above)) => below.merge(above, layers),
            (Value::Array(items), Value::Table(above)) if above.numbers(items.len()) => {
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

    /// The value as TOML writes it, cut when it is long.
    pub fn shown(&self) -> String {
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
