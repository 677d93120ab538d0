//! Reads parallel texts separated by tabs: one row per line, with columns by number or by the names in the
//! first line.
//!
//! A row with more columns than expected is an error, since the end of a text with a tab in it would be lost.

use std::path::Path;
use std::sync::Arc;

use super::Field;
use super::read::{Fields, Texts, lines};
use crate::error::{Error, Result, suggestion};

/// Remedy for a table with more than two columns if no key says which are read.
pub(super) const EXTRA_COLUMNS_REMEDY: &str =
    "name the two columns with [data] source_field and target_field (columns count from 1)";

/// Returns the pairs of a file's text.
///
/// # Errors
/// If the first line does not name a column, or a row lacks a column or has more columns than expected.
pub(super) fn read(content: &str, fields: &Fields, path: &Path) -> Result<Texts> {
    let at = |line: u64, why: String| Error::run(format!("{}:{line}: {why}", path.display()));
    let mut rows = lines(content).into_iter().zip(1..).peekable();
    let is_named = |field: &Option<Field>| matches!(field, Some(Field::Name(_)));
    let named = fields.header || is_named(&fields.source) || is_named(&fields.target);
    let first: Vec<&str> = rows.peek().map_or(Vec::new(), |(row, _)| split(row));
    let header = if named { first.as_slice() } else { &[] };
    let names_both = ["source", "target"].iter().all(|name| first.contains(name));
    if fields.strict && fields.are_default() && !named && names_both {
        let why = "the first line names the columns: set [data] header = true";
        return Err(at(1, why.into()));
    }
    if named {
        rows.next();
    }
    let usual = fields.are_default() && named && names_both;
    let place = |field: &Option<Field>, name: &str, default: usize| match field {
        None if usual => Ok(first.iter().position(|n| *n == name).unwrap_or(default)),
        None => Ok(default),
        Some(Field::Column(number)) => Ok(number - 1),
        Some(Field::Name(name)) => header.iter().position(|h| h == name).ok_or_else(|| {
            let hint = suggestion(name, header.iter().copied());
            let why = format!(
                "the first line has no column `{name}`{hint}; a number counts columns from 1"
            );
            at(1, why)
        }),
    };
    let source = place(&fields.source, "source", 0)?;
    let target = place(&fields.target, "target", 1)?;
    let width = match fields.are_default() && !usual {
        true => 2,
        false => first.len(),
    };
    let no_wider = |line: u64, cells: &[&str]| match fields.strict {
        true => {
            require_width(cells, width, fields.are_default() && !usual).map_err(|why| at(line, why))
        }
        false => Ok(()),
    };
    if named {
        no_wider(1, header)?;
    }
    let mut texts = Texts::default();
    let file: Arc<Path> = path.into();
    for (row, line) in rows {
        let cells: Vec<&str> = row.split('\t').collect();
        no_wider(line, &cells)?;
        let (Some(from), Some(to)) = (cells.get(source), cells.get(target)) else {
            let why = format!(
                "the line has {} column(s), but sources are in column {} and targets in column {}; columns are separated by tabs",
                cells.len(),
                source + 1,
                target + 1
            );
            return Err(at(line, why));
        };
        texts.push_at((&file, line), from, &[*to]);
    }
    Ok(texts)
}

fn split(row: &str) -> Vec<&str> {
    row.split('\t').map(str::trim).collect()
}

/// Returns a clause if a row has more than `width` columns. Trailing empty columns are allowed.
fn require_width(cells: &[&str], width: usize, unsaid: bool) -> std::result::Result<(), String> {
    if cells.iter().skip(width).all(|cell| cell.trim().is_empty()) {
        return Ok(());
    }
    let count = cells.len();
    Err(match unsaid {
        true => format!(
            "the row has {count} columns, but a pair has two; {EXTRA_COLUMNS_REMEDY}, or remove the tabs from its texts"
        ),
        false => format!(
            "the row has {count} columns, but the first line has {width}; remove the tabs from its texts"
        ),
    })
}
