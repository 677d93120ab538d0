//! Parallel texts from CSV, read as labelled texts are: quotes around a text that holds a comma, a quote or a line break.
//! Columns go by number, or by the names of the first line; where no key says them and the first line names `source` and
//! `target`, these are taken.

use std::path::Path;
use std::sync::Arc;

use super::read::{Fields, Texts};
use super::{Field, tabs};
use crate::data::files::packed;
use crate::data::labelled::column::Column;
use crate::data::labelled::tables::{self, Format, Layout};
use crate::error::{Error, Result};

/// What follows a fault of quotes for data that may say how they are read, which pairs do not.
const QUOTING: &str = ", or set quoting = \"none\"";

/// The pairs of a CSV file.
///
/// # Errors
/// A file that cannot be read, an open quote, a column that the first line does not name or that a row lacks, columns of which
/// none is said to be read.
pub(super) fn read(path: &Path, fields: &Fields) -> Result<Texts> {
    let mut usual = false;
    if fields.are_unsaid() {
        let text = packed::text(path)?;
        usual = names_both(&text);
        if fields.strict && !usual {
            no_third(&text, path)?;
        }
    }
    let side = |field: &Option<Field>, name: &str, number: usize| match field {
        Some(Field::Name(name)) => Column::Name(name.clone()),
        Some(Field::Column(number)) => Column::Number(*number),
        None if usual => Column::Name(name.to_owned()),
        None => Column::Number(number),
    };
    let (text, label) = (
        side(&fields.source, "source", 1),
        side(&fields.target, "target", 2),
    );
    let is_name = |column: &Column| matches!(column, Column::Name(_));
    let layout = Layout {
        format: Some(Format::Csv),
        quoting: None,
        header: fields.header || is_name(&text) || is_name(&label),
        text,
        pair: None,
        label,
        answer: "target_field",
        several: None,
    };
    let rows = tables::read(path, &layout).map_err(|error| match error {
        Error::Run(told) => Error::Run(match told.find(QUOTING) {
            Some(end) => told[..end].to_owned(),
            None => told,
        }),
        other => other,
    })?;
    let mut texts = Texts::default();
    let file: Arc<Path> = path.into();
    for row in rows {
        texts.push_at((&file, row.line), &row.text, &[row.label.as_str()]);
    }
    Ok(texts)
}

/// An error where the first line has more than two columns; that no line has more than the first one, its reader sees to.
fn no_third(text: &str, path: &Path) -> Result<()> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    match reader.records().next() {
        Some(Ok(first)) if first.iter().skip(2).any(|cell| !cell.trim().is_empty()) => {
            Err(Error::run(format!(
                "{}:1: the row has {} columns, and a pair has two; {}, or put a text that holds a comma in quotes",
                path.display(),
                first.len(),
                tabs::MORE
            )))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether the first line names the usual columns.
fn names_both(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let names = || {
        let cells = first.trim_start_matches('\u{feff}').split(',');
        cells.map(|cell| cell.trim().trim_matches('"'))
    };
    names().any(|name| name == "source") && names().any(|name| name == "target")
}
