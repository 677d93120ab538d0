//! A TOML document as a tree that remembers, for every key, where it was written; and how trees merge.
//!
//! Two rules make "one key changes the scheme" true: a string where the other side has a tagged table is that
//! table's `kind`, and a table whose `kind` differs from that of the table below replaces it whole.

use super::escape::one_line;
use crate::error::Fault;
use crate::experiment::Origin;
use crate::faults;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Tables inside tables go no deeper than this.
const MAX_DEPTH: usize = 16;

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
    /// A date or a time, as written: no key takes one.
    Datetime(String),
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
            Value::Datetime(d) => d.clone(),
        };
        match text.char_indices().nth(60) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }
}

/// Reads one document; `origin` makes the place of a key from its line.
pub(super) fn parse(
    path: &Path,
    text: &str,
    origin: &dyn Fn(usize) -> Origin,
) -> Result<Table, Fault> {
    let lines = Lines::new(text);
    let document = DeTable::parse(text).map_err(|error| {
        let span = error
            .span()
            .filter(|s| text.get(s.clone()).is_some())
            .unwrap_or(0..0);
        let line = lines.of(span.start);
        Fault::at(path, line, malformed(text, span, error.message()))
    })?;
    let reader = Reader { lines, origin };
    reader
        .table(document.into_inner(), 0)
        .map_err(|wrong| Fault::at(path, reader.lines.of(wrong.at), wrong.told()))
}

/// The fault of a text that is not TOML.
fn malformed(text: &str, span: Range<usize>, message: &str) -> String {
    let begins_table = text[..span.start].trim_end().ends_with('[');
    let found = &text[span];
    match message {
        "duplicate key" if begins_table => format!("there are two tables [{found}]"),
        "duplicate key" => format!("duplicate key `{found}`"),
        _ if message.starts_with("string values must be quoted") && found.trim().is_empty() => {
            "not valid TOML: a value is missing".into()
        }
        _ if message.starts_with("string values must be quoted") => {
            format!(
                "not valid TOML: {} is no value; a string stands in quotes",
                found.trim()
            )
        }
        _ => format!("not valid TOML: {message}"),
    }
}

/// Where lines begin.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        Self(breaks.map(|(at, _)| at).collect())
    }

    /// The line, from 1, of a byte.
    fn of(&self, at: usize) -> usize {
        self.0.partition_point(|line_break| *line_break < at) + 1
    }
}

struct Reader<'a> {
    lines: Lines,
    origin: &'a dyn Fn(usize) -> Origin,
}

/// A value that no key takes: its place, its dotted key where that says more than the place, and what is wrong.
struct Misread {
    at: usize,
    key: Option<String>,
    what: String,
}

impl Misread {
    fn value(at: usize, what: String) -> Self {
        let key = Some(String::new());
        Self { at, key, what }
    }

    fn inside(self, table: String) -> Self {
        let key = self.key.map(|key| match key.as_str() {
            "" => table,
            key => format!("{table}.{key}"),
        });
        Self { key, ..self }
    }

    /// `[optimizer] lr: nan is not a finite number`.
    fn told(&self) -> String {
        let Some(key) = &self.key else {
            return self.what.clone();
        };
        let (table, key) = key.rsplit_once('.').unwrap_or(("", key));
        one_line(&faults::about(table, &format!("{key}: {}", self.what)))
    }
}

impl Reader<'_> {
    fn table(&self, table: DeTable, depth: usize) -> Result<Table, Misread> {
        let entries = table.into_iter().map(|(key, value)| {
            let at = key.span().start;
            let node = self.node(value, at, depth + 1);
            let key = key.into_inner().into_owned();
            match node {
                Ok(node) => Ok((key, node)),
                Err(wrong) => Err(wrong.inside(key)),
            }
        });
        Ok(Table {
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    fn node(&self, value: Spanned<DeValue>, at: usize, depth: usize) -> Result<Node, Misread> {
        if depth > MAX_DEPTH {
            let rule = format!("more than {MAX_DEPTH} tables inside each other");
            return Err(Misread {
                at,
                key: None,
                what: rule,
            });
        }
        let outside = |text: &str| {
            let rule = format!(
                "{text} is out of range; whole numbers are {} to {}",
                i64::MIN,
                i64::MAX
            );
            Misread::value(at, rule)
        };
        let value = match value.into_inner() {
            DeValue::String(s) => Value::String(s.into_owned()),
            DeValue::Integer(i) => Value::Integer(
                i64::from_str_radix(i.as_str(), i.radix()).map_err(|_| outside(i.as_str()))?,
            ),
            DeValue::Float(f) => match f.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Float(number),
                Ok(_) | Err(_) => {
                    let rule = format!("{} is not a finite number", f.as_str());
                    return Err(Misread::value(at, rule));
                }
            },
            DeValue::Boolean(b) => Value::Boolean(b),
            DeValue::Datetime(d) => Value::Datetime(d.to_string()),
            DeValue::Array(items) => Value::Array(
                items
                    .into_iter()
                    .map(|item| {
                        let at = item.span().start;
                        self.node(item, at, depth + 1)
                    })
                    .collect::<Result<_, _>>()?,
            ),
            DeValue::Table(table) => Value::Table(self.table(table, depth)?),
        };
        Ok(Node {
            value,
            origin: (self.origin)(self.lines.of(at)),
        })
    }
}
