//! Labelled texts in Parquet and Arrow tables.

use std::path::Path;

use super::column::Column;
use super::tables::{Layout, Row};
use crate::data::files::columnar::{self, Cell, Features};
use crate::error::{Error, Result};

/// The names of the classes that the numbers in the column of labels stand for, where the file says them.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn classes(path: &Path, layout: &Layout) -> Result<Option<Vec<String>>> {
    match &layout.label {
        Column::Name(name) if columnar::is_columnar(path) => {
            Ok(columnar::features(path)?.classes(name))
        }
        Column::Name(_) | Column::Number(_) => Ok(None),
    }
}

/// Puts names of classes in the place of the numbers that stand for them.
///
/// # Errors
/// A number that stands for none.
pub(super) fn name(rows: &mut [Row], names: &[String], path: &Path) -> Result<()> {
    for row in rows {
        let name = Features::class(names, &row.label);
        let name =
            name.map_err(|why| Error::run(format!("{}: row {} {why}", path.display(), row.line)))?;
        row.label = name.to_owned();
    }
    Ok(())
}

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
