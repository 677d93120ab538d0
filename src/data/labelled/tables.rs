//! Tables of labelled texts: TSV, CSV and JSON lines, plain or packed; columnar tables are in `columns`.
//!
//! A row is read as text. Columns are identified by number or, with a header or in JSON, by name. A
//! byte-order mark is dropped. The meaning of labels is in `labels`.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::column::Column;
use super::columns;
use super::multi_label::MultiLabelColumns;
use super::separated;
use crate::data::files::{columnar, json_line, packed};
use crate::error::{Error, Result};

/// Format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Tabs between columns, no quoting.
    Tsv,
    /// Commas between columns, quotes around columns if necessary.
    Csv,
    /// One JSON object per line.
    Jsonl,
}

/// Whether quotes around a column enclose it or belong to its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quoting {
    /// Quotes are part of the text.
    None,
    /// Quotes enclose a column and are doubled inside; a quoted column may hold line breaks.
    Csv,
}

/// Which columns a table has, and how it is written.
#[derive(Clone, Debug)]
pub(in crate::data) struct Layout {
    pub(in crate::data) format: Option<Format>,
    pub(in crate::data) quoting: Option<Quoting>,
    pub(in crate::data) header: bool,
    pub(in crate::data) text: Column,
    pub(in crate::data) pair: Option<Column>,
    pub(in crate::data) label: Column,
    /// Key of the `label` column.
    pub(in crate::data) answer: &'static str,
    /// How the classes are written, if a row may have any number of them.
    pub(in crate::data) several: Option<MultiLabelColumns>,
}

/// A labelled text or pair of texts, with its line in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::data) struct Row {
    pub(in crate::data) text: String,
    pub(in crate::data) pair: Option<String>,
    pub(in crate::data) label: String,
    pub(in crate::data) line: u64,
}

impl Format {
    /// Returns the format for a file name.
    pub(in crate::data) fn of(path: &Path) -> Option<Self> {
        let name = packed::plain_name(path);
        match name.rsplit_once('.')?.1 {
            "tsv" | "txt" => Some(Self::Tsv),
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }
}

/// Reads the rows of a file.
///
/// # Errors
/// If the file cannot be read, is not UTF-8 or has no rows, or a row lacks a column.
pub(in crate::data) fn read(path: &Path, layout: &Layout) -> Result<Vec<Row>> {
    let rows = match columnar::is_columnar(path) {
        true => columns::read(path, layout)?,
        false => lines(path, layout)?,
    };
    if rows.is_empty() {
        return Err(Error::run(format!("{} has no rows", path.display())));
    }
    Ok(rows)
}

/// Reads the rows of a table that is not columnar.
fn lines(path: &Path, layout: &Layout) -> Result<Vec<Row>> {
    let format = layout.format.or_else(|| Format::of(path)).ok_or_else(|| {
        Error::usage(json_line::fault(path).unwrap_or_else(|| {
            format!(
                "[data] the format of {} is unknown; set format = \"tsv\", \"csv\" or \"jsonl\"",
                path.display()
            )
        }))
    })?;
    let text = packed::text(path)?;
    let text = text.as_str();
    match format {
        Format::Jsonl => json_lines(text, layout, path),
        Format::Tsv | Format::Csv => separated::rows(text, format, layout, path),
    }
}

pub(super) fn at(path: &Path, line: u64, why: &str) -> Error {
    Error::run(format!("{}:{line}: {why}", path.display()))
}

/// Returns an error, with its line, if a quote opens a column and does not close it before the next delimiter
/// or line: what follows would be read as part of that column (RFC 4180, section 2).
pub(in crate::data) fn require_closed_quotes(
    text: &[u8],
    delimiter: u8,
) -> std::result::Result<(), (u64, &'static str)> {
    let (mut line, mut at, mut begins) = (1, 0, true);
    while at < text.len() {
        let byte = text[at];
        at += 1;
        line += u64::from(byte == b'\n');
        if byte != b'"' || !begins {
            begins = byte == delimiter || byte == b'\n' || byte == b'\r';
            continue;
        }
        let opened = line;
        loop {
            match text.get(at) {
                None => {
                    return Err((
                        opened,
                        "a quote is opened and never closed; close it, or set quoting = \"none\" if quotes are text",
                    ));
                }
                Some(b'"') if text.get(at + 1) == Some(&b'"') => at += 2,
                Some(b'"') => break,
                Some(byte) => {
                    line += u64::from(*byte == b'\n');
                    at += 1;
                }
            }
        }
        at += 1;
        match text.get(at) {
            Some(next) if *next != delimiter && *next != b'\n' && *next != b'\r' => {
                return Err((
                    opened,
                    "a column begins with a quote that closes before the column ends; double the quotes inside it, or \
                     set quoting = \"none\" if they are text",
                ));
            }
            _ => begins = false,
        }
    }
    Ok(())
}

fn json_lines(text: &str, layout: &Layout, path: &Path) -> Result<Vec<Row>> {
    let lines = text.lines().zip(1u64..);
    lines
        .filter(|(text, _)| !text.trim().is_empty())
        .map(|(text, line)| {
            let wrong = |why: &str| at(path, line, why);
            let object = json_line::object(text).map_err(|why| wrong(&why))?;
            let field = |column: &Column| match column {
                Column::Number(_) => Err(Error::usage(format!(
                    "[data] column {column} is a number, but the fields of JSON lines have names; use a name"
                ))),
                Column::Name(name) => match json_line::nested_field(&object, name) {
                    Some(Value::String(text)) => Ok(text.clone()),
                    Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
                    Some(Value::Null) => Err(wrong(&format!("`{name}` is empty"))),
                    Some(_) => Err(wrong(&format!("`{name}` is neither text nor a number"))),
                    None => Err(wrong(&json_line::missing_field(&object, name))),
                },
            };
            let label = match &layout.several {
                None => field(&layout.label)?,
                Some(several) => classes(several, &layout.label, &object, &field, &wrong)?,
            };
            Ok(Row {
                text: field(&layout.text)?,
                pair: layout.pair.as_ref().map(field).transpose()?,
                label,
                line,
            })
        })
        .collect()
}

/// Converts the classes of a JSON object to their form in memory. `field` reads a single value; `fault` adds
/// the row to a clause.
fn classes(
    several: &MultiLabelColumns,
    column: &Column,
    object: &Map<String, Value>,
    field: &dyn Fn(&Column) -> Result<String>,
    fault: &dyn Fn(&str) -> Error,
) -> Result<String> {
    match (several, column) {
        (MultiLabelColumns::Indicators(names), _) => {
            let cell = |name: &String| Ok((name.clone(), field(&Column::Name(name.clone()))?));
            let cells = names.iter().map(cell).collect::<Result<Vec<_>>>()?;
            let cells = cells
                .iter()
                .map(|(name, cell)| (name.as_str(), cell.clone()));
            MultiLabelColumns::of_indicators(cells).map_err(|why| fault(&why))
        }
        (MultiLabelColumns::Listed(_), Column::Name(name)) => {
            match json_line::nested_field(object, name) {
                Some(value) => several.of_json(value).ok_or_else(|| {
                    fault(&format!(
                        "`{name}` is neither a list of labels nor one label"
                    ))
                }),
                None => field(column),
            }
        }
        (MultiLabelColumns::Listed(_), Column::Number(_)) => field(column),
    }
}

#[cfg(test)]
mod tests {
    use super::require_closed_quotes;

    #[test]
    fn quotes_that_would_swallow_rows_are_found() {
        let line = |text: &str| {
            require_closed_quotes(text.as_bytes(), b',')
                .err()
                .map(|(line, _)| line)
        };
        for whole in [
            "a,b\n1,2\n",
            "a,\"b\"\n\"c\",d",
            "\"two\nlines, a comma and \"\"quotes\"\"\",x\r\n",
            "it's,6\" tall\n\"\",\"\"",
        ] {
            assert_eq!(line(whole), None, "{whole}");
        }
        assert_eq!(line("pos,good\nneg,\"bad film\npos,great\n"), Some(2));
        assert_eq!(line("x,y\npos,\"a\nneg,\"b\"\n"), Some(2));
        assert_eq!(line("\"a\nb\",c\n\"d"), Some(3));
    }
}
