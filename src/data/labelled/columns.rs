//! Labelled texts in Parquet and Arrow tables.

use std::path::Path;

use super::column::Column;
use super::multi_label::{self, MultiLabelColumns};
use super::tables::{Layout, Row};
use crate::data::files::columnar::{self, Cell, Features};
use crate::error::{Error, Result};

/// Returns the class names that the numbers in the label column stand for, if the file has them.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn classes(path: &Path, layout: &Layout) -> Result<Option<Vec<String>>> {
    match &layout.label {
        Column::Name(name) if columnar::is_columnar(path) => {
            let features = columnar::features(path)?;
            Ok(match layout.several {
                None => features.classes(name),
                Some(MultiLabelColumns::Listed(_)) => features.classes_of_lists(name),
                Some(MultiLabelColumns::Indicators(_)) => None,
            })
        }
        Column::Name(_) | Column::Number(_) => Ok(None),
    }
}

/// Replaces class numbers by class names.
///
/// # Errors
/// If a number stands for no class.
pub(super) fn name(rows: &mut [Row], names: &[String], several: bool, path: &Path) -> Result<()> {
    for row in rows {
        let line = row.line;
        let of = |label: &str| {
            let name = Features::class(names, label).map(str::to_owned);
            name.map_err(|why| Error::run(format!("{}: row {line} {why}", path.display())))
        };
        row.label = match several {
            true => multi_label::each(&row.label, of)?,
            false => of(&row.label)?,
        };
    }
    Ok(())
}

/// Reads the rows of a columnar table.
///
/// # Errors
/// If the file cannot be read or lacks a column, or a row has no text or label.
pub(super) fn read(path: &Path, layout: &Layout) -> Result<Vec<Row>> {
    let name = |key: &str, column: &'_ Column| match column {
        Column::Name(name) => Ok(name.clone()),
        Column::Number(_) => Err(Error::usage(format!(
            "[data] {key} = {column} is a number, but the columns of {} have names; use a name",
            path.display()
        ))),
    };
    let text = name("text", &layout.text)?;
    let pair = layout.pair.as_ref().map(|pair| name("pair", pair));
    let pair = pair.transpose()?;
    let answers = match &layout.several {
        Some(MultiLabelColumns::Indicators(names)) => names.clone(),
        Some(MultiLabelColumns::Listed(_)) | None => vec![name(layout.answer, &layout.label)?],
    };
    let mut wanted = vec![(text.as_str(), "text")];
    wanted.extend(pair.as_deref().map(|pair| (pair, "pair")));
    let key = match layout.several {
        Some(MultiLabelColumns::Indicators(_)) => "indicators",
        Some(MultiLabelColumns::Listed(_)) | None => layout.answer,
    };
    wanted.extend(answers.iter().map(|column| (column.as_str(), key)));
    let mut rows = Vec::new();
    columnar::rows(path, &wanted, |line, cells| {
        let mut cells = cells.into_iter().zip(&wanted);
        let mut next = || match cells.next() {
            Some((cell, (column, _))) => text_of(cell, path, line, column),
            None => Ok(String::new()),
        };
        let text = next()?;
        let pair = pair.is_some().then(&mut next).transpose()?;
        let label = match &layout.several {
            None => next()?.trim().to_owned(),
            Some(several @ MultiLabelColumns::Listed(_)) => {
                let cell = cells.next().map_or(Cell::Missing, |(cell, _)| cell);
                several.of_cells(cell)
            }
            Some(MultiLabelColumns::Indicators(names)) => {
                let named = names.iter().map(|name| Ok((name.as_str(), next()?)));
                let named = named.collect::<Result<Vec<_>>>()?;
                let found = MultiLabelColumns::of_indicators(named.into_iter());
                found.map_err(|why| Error::run(format!("{}: row {line}: {why}", path.display())))?
            }
        };
        rows.push(Row {
            text,
            pair,
            label,
            line,
        });
        Ok(())
    })?;
    Ok(rows)
}

/// Returns the text of a cell, or an error if it is empty.
fn text_of(cell: Cell, path: &Path, line: u64, column: &str) -> Result<String> {
    cell.joined().ok_or_else(|| {
        Error::run(format!(
            "{}: row {line} has an empty column `{column}`",
            path.display()
        ))
    })
}
