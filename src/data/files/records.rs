//! Reads rows of tables as objects: JSON lines, TSV, CSV, Parquet and Arrow, for kinds of data whose keys say
//! how a row is used.

use super::row_lines::RowLines;
use super::{columnar, delimiter as delimiters, json_line, packed};
use crate::data::labelled::tables::{self, Format};
use crate::error::{Error, Result};
use serde_json::{Map, Value};
use std::path::Path;

/// A row with its line, or with its number in a columnar table.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::data) struct Record {
    pub(in crate::data) line: u64,
    pub(in crate::data) fields: Map<String, Value>,
}

/// Whether a file's columns have names, judged by the file's name.
pub(in crate::data) fn has_names(path: &Path) -> bool {
    columnar::is_columnar(path) || Format::of(path) == Some(Format::Jsonl)
}

impl Record {
    /// Returns an error about this row of a file.
    pub(in crate::data) fn fault(&self, path: &Path, why: &str) -> Error {
        Error::run(format!("{}:{}: {why}", path.display(), self.line))
    }
}

/// Reads the rows of a file. Columns of TSV and CSV have the names in `columns`, or those of the first line
/// if `columns` is empty.
///
/// # Errors
/// If the file cannot be read, its name does not tell its format, it has no rows, or a row has a different
/// number of columns.
pub(in crate::data) fn read(path: &Path, columns: &[String]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    if columnar::is_columnar(path) {
        columnar::objects(path, |line, fields| {
            records.push(Record { line, fields });
            Ok(())
        })?;
    } else {
        let text = packed::text(path)?;
        let text = text.as_str();
        records = match Format::of(path) {
            Some(Format::Jsonl) => objects(text, path)?,
            Some(Format::Tsv) => separated(text, b'\t', columns, path)?,
            Some(Format::Csv) => separated(text, b',', columns, path)?,
            None => {
                return Err(Error::usage(json_line::fault(path).unwrap_or_else(|| {
                    format!(
                        "[data] the format of {} is unknown; its name must end in .jsonl, .tsv, .csv, .parquet or .arrow, \
                         followed by .gz or .zst if it is packed",
                        path.display()
                    )
                })));
            }
        };
    }
    match records.is_empty() {
        true => Err(Error::run(format!("{} has no rows", path.display()))),
        false => Ok(records),
    }
}

fn at(path: &Path, line: u64, why: &str) -> Error {
    Error::run(format!("{}:{line}: {why}", path.display()))
}

fn objects(text: &str, path: &Path) -> Result<Vec<Record>> {
    let lines = text.lines().zip(1u64..);
    lines
        .filter(|(text, _)| !text.trim().is_empty())
        .map(|(text, line)| {
            let fields = json_line::object(text).map_err(|why| at(path, line, &why))?;
            Ok(Record { line, fields })
        })
        .collect()
}

fn separated(text: &str, delimiter: u8, columns: &[String], path: &Path) -> Result<Vec<Record>> {
    let quoted = delimiter == b',';
    if quoted {
        tables::require_closed_quotes(text.as_bytes(), delimiter)
            .map_err(|(line, why)| at(path, line, why))?;
    }
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .quoting(quoted)
        .has_headers(columns.is_empty())
        .flexible(true)
        .from_reader(text.as_bytes());
    let wrong = |line: u64, e: csv::Error| at(path, line, &e.to_string());
    let names: Vec<String> = match columns.is_empty() {
        true => {
            let header = reader.headers().map_err(|e| wrong(1, e))?;
            header.iter().map(|name| name.trim().to_owned()).collect()
        }
        false => columns.to_vec(),
    };
    if let (true, Some(why)) = (
        columns.is_empty(),
        delimiters::other_delimiter_hint(&names, delimiter),
    ) {
        return Err(at(path, 1, &why));
    }
    let mut lines = RowLines::of(text);
    let mut records = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| wrong(0, e))?;
        let line = lines.line(&record);
        if record.len() != names.len() {
            let why = format!(
                "the row has {} columns, but there are {} names: {}",
                record.len(),
                names.len(),
                names.join(", ")
            );
            return Err(at(path, line, &why));
        }
        let cells = names.iter().cloned().zip(record.iter().map(Value::from));
        let fields = cells.collect();
        records.push(Record { line, fields });
    }
    Ok(records)
}
