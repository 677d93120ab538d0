//! Parses a TOML document into a tree, with the line of every key.

use super::duplicate;
use super::escape::one_line;
use super::tree::{Node, Table, Value};
use crate::error::Fault;
use crate::experiment::Origin;
use crate::faults;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum nesting depth of tables.
const MAX_DEPTH: usize = 16;

/// Parses one document; `origin` converts a line number to an origin.
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
        .map_err(|wrong| Fault::at(path, reader.lines.of(wrong.at), wrong.to_message()))
}

/// The message about a text that is not TOML.
fn malformed(text: &str, span: Range<usize>, message: &str) -> String {
    let found = &text[span.clone()];
    match message {
        "duplicate key" => duplicate::duplicate_message(text, span),
        _ if message.starts_with("string values must be quoted") && found.trim().is_empty() => {
            "not valid TOML: a value is missing".into()
        }
        _ if message.starts_with("string values must be quoted") => {
            format!(
                "not valid TOML: {} is not a value; put a string in quotes",
                found.trim()
            )
        }
        _ => format!("not valid TOML: {message}"),
    }
}

/// Byte offsets of the line breaks.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        Self(breaks.map(|(at, _)| at).collect())
    }

    /// The line number, from 1, of a byte offset.
    fn of(&self, at: usize) -> usize {
        self.0.partition_point(|line_break| *line_break < at) + 1
    }
}

struct Reader<'a> {
    lines: Lines,
    origin: &'a dyn Fn(usize) -> Origin,
}

/// A value that no key accepts: its byte offset, its dotted key (unless the offset says enough), and what is wrong.
struct InvalidValue {
    at: usize,
    key: Option<String>,
    what: String,
}

impl InvalidValue {
    fn value(at: usize, what: String) -> Self {
        let key = Some(String::new());
        Self { at, key, what }
    }

    fn within_table(self, table: String) -> Self {
        let key = self.key.map(|key| match key.as_str() {
            "" => table,
            key => format!("{table}.{key}"),
        });
        Self { key, ..self }
    }

    /// The message: `[optimizer] lr: nan is not a finite number`.
    fn to_message(&self) -> String {
        let Some(key) = &self.key else {
            return self.what.clone();
        };
        let (table, key) = key.rsplit_once('.').unwrap_or(("", key));
        one_line(&faults::prefix_with_table(
            table,
            &format!("{key}: {}", self.what),
        ))
    }
}

impl Reader<'_> {
    fn table(&self, table: DeTable, depth: usize) -> Result<Table, InvalidValue> {
        let entries = table.into_iter().map(|(key, value)| {
            let at = key.span().start;
            let node = self.node(value, at, depth + 1);
            let key = key.into_inner().into_owned();
            match node {
                Ok(node) => Ok((key, node)),
                Err(wrong) => Err(wrong.within_table(key)),
            }
        });
        Ok(Table {
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    fn node(&self, value: Spanned<DeValue>, at: usize, depth: usize) -> Result<Node, InvalidValue> {
        if depth > MAX_DEPTH {
            let rule = format!("more than {MAX_DEPTH} nested tables");
            return Err(InvalidValue {
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
            InvalidValue::value(at, rule)
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
                    return Err(InvalidValue::value(at, rule));
                }
            },
            DeValue::Boolean(b) => Value::Boolean(b),
            DeValue::Datetime(date) => {
                let rule =
                    format!("{date} is a date or a time, which no key accepts; put text in quotes");
                return Err(InvalidValue::value(at, rule));
            }
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
