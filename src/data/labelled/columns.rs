//! Labelled texts in Parquet and Arrow tables.

use std::path::Path;

use super::column::Column;
use super::tables::{Layout, Row};
use crate::data::files::columnar::{self, Cell};
use crate::error::{Error, Result};

/// The rows of a table of columns.
///
/// # Errors
/// A file that cannot be read or has no such columns; a row without a text or a label.
pub(super) fn read(path: &Path, layout: &Layout) -> Result<Vec<Row>> {
    let name = |key: &str, column: &'_ Column| match column {
        Column::Name(name) => Ok(name.clone()),
        Column::Number(_) => Err(Error::usage(format!(
            "[data] {key} = {column}: the columns of {} have names; give the name",
            path.display()
        ))),
    };
    let text = name("text", &layout.text)?;
    let label = name("label", &layout.label)?;
    let pair = layout.pair.as_ref().map(|pair| name("pair", pair));
    let pair = pair.transpose()?;
    let mut wanted = vec![(text.as_str(), "text"), (label.as_str(), "label")];
    wanted.extend(pair.as_deref().map(|pair| (pair, "pair")));
    let mut rows = Vec::new();
    columnar::rows(path, &wanted, |line, cells| {
        let mut cells = cells.into_iter().map(Cell::joined).zip(&wanted);
        let mut next = || match cells.next() {
            Some((Some(text), _)) => Ok(text),
            Some((None, (column, _))) => Err(Error::run(format!(
                "{}: row {line} has nothing in column `{column}`",
                path.display()
            ))),
            None => Ok(String::new()),
        };
        let (text, label) = (next()?, next()?);
        let pair = pair.is_some().then(next).transpose()?;
        rows.push(Row {
            text,
            pair,
            label: label.trim().to_owned(),
            line,
        });
        Ok(())
    })?;
    Ok(rows)
}
