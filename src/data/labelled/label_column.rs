//! Detects columns that cannot be class labels: texts, numbers with a fraction, column names, rows without a
//! label.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::labels::EMPTY;
use super::multi_label;
use super::tables::{Layout, Row};
use crate::error::{Error, Result};

/// Number of rows from which on a column of labels can be told from one of texts.
const ENOUGH_ROWS: usize = 20;
/// Number of classes beyond which the label column is also compared with the text column.
const MANY_CLASSES: usize = 1000;

/// Returns an error if the label column does not hold classes: it has numbers with a fraction, most of its
/// values are different, or it has thousands of values while the text column has fewer. The message says
/// which column is meant, if that can be seen.
pub(super) fn check_column(rows: &[(PathBuf, Row)], layout: &Layout) -> Result<()> {
    let broken = |row: &Row| row.label.parse::<f64>().is_ok_and(|x| x.fract() != 0.0);
    if let Some((_, row)) = rows.iter().find(|(_, row)| broken(row)) {
        let label = layout.label.key_value();
        return Err(Error::usage(format!(
            "[data] label = {label}: this column contains numbers, for example {}; to predict them, set `score = {label}` instead and \
             [task] kind = \"regression\"; if they are classes, name all of them in `classes`",
            row.label
        )));
    }
    check_first(rows)?;
    let different = |of: fn(&Row) -> &str| {
        rows.iter()
            .map(|(_, row)| of(row))
            .collect::<BTreeSet<_>>()
            .len()
    };
    let labels = different(|row| &row.label);
    let singles = rows.len() >= ENOUGH_ROWS && 2 * labels > rows.len();
    if !singles && labels <= MANY_CLASSES {
        return Ok(());
    }
    let texts = different(|row| &row.text);
    let swapped = texts < labels && 2 * texts <= rows.len();
    if !singles && !swapped {
        return Ok(());
    }
    let (text, label) = (layout.text.key_value(), layout.label.key_value());
    let remedy = match swapped {
        true => format!(
            "column {} has {texts}: set `label = {text}` and `text = {label}`",
            layout.text
        ),
        false => "set `label` to the column of the class, for example `label = 1`, or `classes` to the names of all \
                  classes"
            .into(),
    };
    Err(Error::usage(format!(
        "[data] label = {label}: this column has {labels} different values in {} rows, too many for classes; {remedy}",
        rows.len()
    )))
}

/// Returns the same error for a column of any number of labels.
pub(super) fn check_lists(rows: &[(PathBuf, Row)], layout: &Layout) -> Result<()> {
    check_first(rows)?;
    let labels = rows
        .iter()
        .flat_map(|(_, row)| multi_label::parts(&row.label));
    let different = labels.collect::<BTreeSet<_>>().len();
    if rows.len() < ENOUGH_ROWS || 2 * different <= rows.len() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "[data] labels = {}: this column has {different} different labels in {} rows, too many for classes; set `labels` to the column \
         of the classes, or `classes` to the names of all of them",
        layout.label.key_value(),
        rows.len()
    )))
}

/// Returns an error if some rows have no label: classes are not named yet, so an empty label cannot be one.
pub(super) fn check_empty(rows: &[(PathBuf, Row)]) -> Result<()> {
    let all = rows.iter().all(|(_, row)| row.label.is_empty());
    match rows.iter().find(|(_, row)| row.label.is_empty()) {
        Some((path, row)) if !all => Err(Error::run(format!(
            "{}:{}: {EMPTY}",
            path.display(),
            row.line
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Returns an error if a row has the label -1 and the others have class numbers from 0 on: classes are not
/// named yet, so -1 cannot be one.
pub(super) fn check_unlabelled(rows: &[(PathBuf, Row)]) -> Result<()> {
    let Some((path, row)) = rows.iter().find(|(_, row)| row.label == "-1") else {
        return Ok(());
    };
    let others = rows.iter().map(|(_, row)| row.label.as_str());
    let others: BTreeSet<&str> = others.filter(|label| *label != "-1").collect();
    let numbered = |number: usize| others.contains(number.to_string().as_str());
    if others.len() < 2 || !(0..others.len()).all(numbered) {
        return Ok(());
    }
    let last = others.len() - 1;
    Err(Error::run(format!(
        "{}:{}: the label is -1, but the others are 0 to {last}; Hugging Face writes -1 for rows without a label, as in the test splits of \
         benchmarks; remove such rows, or name all classes, including \"-1\", in [data] classes",
        path.display(),
        row.line
    )))
}

/// Returns an error if the first line names the columns.
fn check_first(rows: &[(PathBuf, Row)]) -> Result<()> {
    match rows.first().filter(|(_, row)| names_columns(row, rows)) {
        None => Ok(()),
        Some((path, row)) => Err(Error::usage(format!(
            "{}: the first line, `{}` and `{}`, names the columns: set [data] header = true; if it is an example, name all \
             classes in `classes`",
            path.display(),
            row.text,
            row.label
        ))),
    }
}

/// Usual names of a label column.
const LABEL_NAMES: [&str; 6] = [
    "label",
    "labels",
    "class",
    "category",
    "target",
    "sentiment",
];

/// Whether a row is a header line: its label is a usual name of a label column, and no other row has it.
fn names_columns(row: &Row, rows: &[(PathBuf, Row)]) -> bool {
    let named = LABEL_NAMES.contains(&row.label.to_lowercase().as_str());
    named
        && row.line == 1
        && rows
            .iter()
            .filter(|(_, other)| other.label == row.label)
            .count()
            == 1
}
