//! Labelled texts in TSV and CSV files: columns by name or number.

use std::path::Path;

use csv::StringRecord;

use super::column::Column;
use super::multi_label::MultiLabelColumns;
use super::tables::{Format, Layout, Quoting, Row, at, require_closed_quotes};
use crate::data::files::delimiter as delimiters;
use crate::data::files::row_lines::RowLines;
use crate::error::{Error, Result, suggestion};

/// Returns the rows of a file's text.
///
/// # Errors
/// If the first line lacks a named column, a row lacks a column or has more columns than the first line, or a
/// quote is left open.
pub(super) fn rows(text: &str, format: Format, layout: &Layout, path: &Path) -> Result<Vec<Row>> {
    let quoting = layout.quoting.unwrap_or(match format {
        Format::Csv => Quoting::Csv,
        Format::Tsv | Format::Jsonl => Quoting::None,
    });
    let delimiter = if format == Format::Csv { b',' } else { b'\t' };
    if quoting == Quoting::Csv {
        require_closed_quotes(text.as_bytes(), delimiter)
            .map_err(|(line, why)| at(path, line, why))?;
    }
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .quoting(quoting == Quoting::Csv)
        .has_headers(layout.header)
        .flexible(true)
        .from_reader(text.as_bytes());
    let names: Vec<String> = match layout.header {
        true => {
            let header = reader.headers().map_err(|e| at(path, 1, &e.to_string()))?;
            header.iter().map(|name| name.trim().to_owned()).collect()
        }
        false => Vec::new(),
    };
    if layout.header && text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let taken = ColumnIndices::of(layout, &names, path).map_err(|error| {
        let other = delimiters::other_delimiter_hint(&names, delimiter);
        other.map_or(error, |why| at(path, 1, &why))
    })?;
    let mut width = layout.header.then_some(names.len());
    let mut lines = RowLines::of(text);
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| Error::run(format!("{}: {e}", path.display())))?;
        let line = lines.line(&record);
        let width = *width.get_or_insert(record.len());
        let row = require_width(&record, width, quoting).and_then(|()| taken.row(&record, line));
        rows.push(row.map_err(|why| at(path, line, &why))?);
    }
    Ok(rows)
}

/// The columns that are read, by number from 0.
struct ColumnIndices<'a> {
    text: usize,
    pair: Option<usize>,
    answer: Answer<'a>,
}

/// Where the answer of a row is.
enum Answer<'a> {
    One(usize),
    /// Several classes in one column, and the way in which they are written.
    Listed(usize, &'a MultiLabelColumns),
    /// One column for each class.
    Indicators(Vec<(String, usize)>),
}

impl<'a> ColumnIndices<'a> {
    fn of(layout: &'a Layout, names: &[String], path: &Path) -> Result<Self> {
        let number = |column: &Column| number(column, layout, names, path);
        let named = |name: &String| Ok((name.clone(), number(&Column::Name(name.clone()))?));
        Ok(Self {
            text: number(&layout.text)?,
            pair: layout.pair.as_ref().map(number).transpose()?,
            answer: match &layout.several {
                Some(MultiLabelColumns::Indicators(classes)) => {
                    Answer::Indicators(classes.iter().map(named).collect::<Result<_>>()?)
                }
                Some(listed) => Answer::Listed(number(&layout.label)?, listed),
                None => Answer::One(number(&layout.label)?),
            },
        })
    }

    fn row(&self, record: &StringRecord, line: u64) -> Result<Row, String> {
        let column = |number: usize| {
            let missing = || format!("no column {}: the row has {}", number + 1, record.len());
            record.get(number).ok_or_else(missing)
        };
        Ok(Row {
            text: column(self.text)?.to_owned(),
            pair: self
                .pair
                .map(|number| column(number).map(str::to_owned))
                .transpose()?,
            label: match &self.answer {
                Answer::One(number) => column(*number)?.trim().to_owned(),
                Answer::Listed(number, several) => several.of_cell(column(*number)?),
                Answer::Indicators(classes) => {
                    let cells = classes
                        .iter()
                        .map(|(name, number)| Ok((name.as_str(), column(*number)?.to_owned())));
                    let cells = cells.collect::<Result<Vec<_>, String>>()?;
                    MultiLabelColumns::of_indicators(cells.into_iter())?
                }
            },
            line,
        })
    }
}

/// Returns the number of a column, from 0.
fn number(column: &Column, layout: &Layout, names: &[String], path: &Path) -> Result<usize> {
    let name = match column {
        Column::Number(number) => return Ok(number.saturating_sub(1)),
        Column::Name(_) if !layout.header => {
            return Err(Error::usage(format!(
                "[data] {column} is the name of a column, but {} has no header; set header = true if its first line names the columns",
                path.display()
            )));
        }
        Column::Name(name) => name,
    };
    let mut found = (0..names.len()).filter(|&i| names[i] == *name);
    let Some(first) = found.next() else {
        let hint = suggestion(name, names.iter().map(String::as_str));
        let numbers = match name.as_str() {
            "text" | "label" => format!(
                "; text = 1 and {} = 2 are the first two columns",
                layout.answer
            ),
            _ => String::new(),
        };
        return Err(at(path, 1, &format!("no column `{name}`{hint}{numbers}")));
    };
    match found.next() {
        None => Ok(first),
        Some(second) => {
            let why = format!(
                "columns {} and {} are both named `{name}`; use the number of one of them",
                first + 1,
                second + 1
            );
            Err(at(path, 1, &why))
        }
    }
}

/// Returns an error if a row has more columns than the first line, since the end of a text with a delimiter
/// in it would be lost. Trailing empty columns are allowed.
fn require_width(row: &StringRecord, width: usize, quoting: Quoting) -> Result<(), String> {
    if row.iter().skip(width).all(|cell| cell.trim().is_empty()) {
        return Ok(());
    }
    let remedy = match quoting {
        Quoting::Csv => "put texts that contain a delimiter in quotes",
        Quoting::None => "remove the delimiters from its texts",
    };
    let has = row.len();
    Err(format!(
        "the row has {has} columns, but the first line has {width}; {remedy}"
    ))
}
