//! Reads parallel texts from CSV as labelled texts are read: texts with a comma, a quote or a line break are
//! quoted. Columns are identified by number or by the names in the first line. If no key sets them and the
//! first line names `source` and `target`, these are used.

use std::path::Path;
use std::sync::Arc;

use super::read::{Fields, Texts};
use super::{Field, tabs};
use crate::data::files::packed;
use crate::data::labelled::column::Column;
use crate::data::labelled::tables::{self, Format, Layout};
use crate::error::{Error, Result};

/// End of a message about quotes that does not apply here, since pairs have no key `quoting`.
const QUOTING: &str = ", or set quoting = \"none\"";

/// Returns the pairs of a CSV file.
///
/// # Errors
/// If the file cannot be read or has an open quote, the first line does not name a column, a row lacks a
/// column, or there are more than two columns and no key says which are read.
pub(super) fn read(path: &Path, fields: &Fields) -> Result<Texts> {
    let mut usual = false;
    if fields.are_default() {
        let text = packed::text(path)?;
        usual = names_both(&text);
        if fields.strict && !usual {
            require_two_columns(&text, path)?;
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

/// Returns an error if the first line has more than two columns. The reader itself checks that no line has
/// more columns than the first.
fn require_two_columns(text: &str, path: &Path) -> Result<()> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    match reader.records().next() {
        Some(Ok(first)) if first.iter().skip(2).any(|cell| !cell.trim().is_empty()) => {
            Err(Error::run(format!(
                "{}:1: the row has {} columns, but a pair has two; {}, or put a text that contains a comma in quotes",
                path.display(),
                first.len(),
                tabs::EXTRA_COLUMNS_REMEDY
            )))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether the first line names the default columns `source` and `target`.
fn names_both(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let names = || {
        let cells = first.trim_start_matches('\u{feff}').split(',');
        cells.map(|cell| cell.trim().trim_matches('"'))
    };
    names().any(|name| name == "source") && names().any(|name| name == "target")
}
