//! Labels as they are written, and the classes that they stand for.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use super::several;
use super::tables::{Layout, Row};

use crate::data::{Shape, TextItem};
use crate::error::{Error, Result, suggestion};

/// What a model is to say of each text.
#[derive(Clone, Debug)]
pub(super) enum Answers {
    /// A class.
    Classes(Labels),
    /// Any number of these classes.
    Several(Labels),
    /// A number.
    Numbers,
}

impl Answers {
    /// An encoded text with the answer that a table has for it.
    ///
    /// # Errors
    /// A label that stands for no class; a number that is none.
    pub(super) fn answered(&self, item: TextItem, written: &str) -> Result<TextItem> {
        Ok(match self {
            Self::Classes(labels) => TextItem {
                label: Some(labels.class(written)?),
                ..item
            },
            Self::Several(labels) => {
                let classes = several::parts(written).map(|label| labels.class(label));
                let mut classes = classes.collect::<Result<Vec<i32>>>()?;
                classes.sort_unstable();
                classes.dedup();
                TextItem {
                    classes: Some(classes),
                    ..item
                }
            }
            Self::Numbers => TextItem {
                number: Some(number(written)?),
                ..item
            },
        })
    }
}

/// A finite number.
fn number(written: &str) -> Result<f32> {
    let number = written.parse::<f32>().ok().filter(|x| x.is_finite());
    number.ok_or_else(|| Error::run(format!("the score `{written}` is no number, such as 3.8")))
}

/// The classes of a data set.
#[derive(Clone, Debug)]
pub(in crate::data) struct Labels {
    /// Their names, in order.
    pub(in crate::data) names: Vec<String>,
    /// How they are written in the files, in order.
    written: Vec<String>,
    /// Their numbers by how they are written.
    numbers: HashMap<String, i32>,
    /// Whether they are those of a run that has begun.
    of_run: bool,
}

/// Numbers by value, then other words.
fn sorted<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut labels: Vec<&str> = labels.collect();
    labels.sort_unstable_by_key(|label| (label.parse::<i64>().unwrap_or(i64::MAX), *label));
    labels.dedup();
    labels
}

/// Rows from which on a column of labels can be told from one of texts.
const ENOUGH_ROWS: usize = 20;
/// Classes beyond which a column is held against the other one, too.
const MANY_CLASSES: usize = 1000;

/// An error where the column of labels holds no classes: some are numbers with a fraction, or most of its values are different ones, or there are thousands
/// and fewer in the column of texts. It says which column is meant where that can be seen.
pub(super) fn check_column(rows: &[(PathBuf, Row)], layout: &Layout) -> Result<()> {
    let broken = |row: &Row| row.label.parse::<f64>().is_ok_and(|x| x.fract() != 0.0);
    if let Some((_, row)) = rows.iter().find(|(_, row)| broken(row)) {
        let label = layout.label.key_value();
        return Err(Error::usage(format!(
            "[data] label = {label}: this column has numbers such as {}; to learn them set `score = {label}` in its place, and \
             [task] kind = \"regression\"; where they stand for classes, name all of them as `classes`",
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
        false => "set `label` to the column of the class, such as `label = 1`, or `classes` to the names of all \
                  classes"
            .into(),
    };
    Err(Error::usage(format!(
        "[data] label = {label}: this column has {labels} different values in {} rows, too many for classes; {remedy}",
        rows.len()
    )))
}

/// The same of a column of any number of labels.
pub(super) fn check_lists(rows: &[(PathBuf, Row)], layout: &Layout) -> Result<()> {
    check_first(rows)?;
    let labels = rows.iter().flat_map(|(_, row)| several::parts(&row.label));
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

/// An error where the first line names the columns.
fn check_first(rows: &[(PathBuf, Row)]) -> Result<()> {
    match rows.first().filter(|(_, row)| names_columns(row, rows)) {
        None => Ok(()),
        Some((path, row)) => Err(Error::usage(format!(
            "{}: the first line, `{}` and `{}`, names the columns: set [data] header = true; where it is an example, name all \
             classes as `classes`",
            path.display(),
            row.text,
            row.label
        ))),
    }
}

/// The usual names of a column of labels.
const LABEL_NAMES: [&str; 6] = [
    "label",
    "labels",
    "class",
    "category",
    "target",
    "sentiment",
];

/// Whether a row is a line that names columns: its label is a usual name of such a column, and no other row has it.
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

impl Labels {
    /// From the labels of the training rows and the names that were given, if any. Names are the labels
    /// themselves; or, where the labels are as many whole numbers, what these stand for in ascending order.
    ///
    /// # Errors
    /// A single class.
    pub(in crate::data) fn new<'a>(
        found: impl Iterator<Item = &'a str>,
        given: &[String],
    ) -> Result<Self> {
        let found = sorted(found);
        let numbered = found.iter().all(|label| label.parse::<i64>().is_ok());
        let named = found.iter().any(|label| given.iter().any(|g| g == label));
        let written: Vec<&str> = match given {
            [] => found.clone(),
            given if numbered && !named && given.len() == found.len() => found.clone(),
            given => given.iter().map(String::as_str).collect(),
        };
        let names: Vec<String> = match given {
            [] => found.iter().map(|label| (*label).to_owned()).collect(),
            given => given.to_vec(),
        };
        if names.len() < 2 {
            let label = names.first().map_or("", String::as_str);
            if label.is_empty() {
                return Err(Error::usage(
                    "[data] no training row has a label (is `label`, or `labels`, the right column?)",
                ));
            }
            return Err(Error::usage(format!(
                "[data] `{label}` is the only label of the training rows; there is nothing to tell apart (is `label` the right \
                 column?)"
            )));
        }
        let written = written.into_iter().map(str::to_owned).collect();
        Ok(Self::numbered(names, written))
    }

    /// Those of a run, whatever the files hold today. A run of an earlier version does not say how they were written;
    /// then it is by their names, or as [`Labels::new`] takes it for the names that were `given`.
    ///
    /// # Errors
    /// Those of [`Labels::new`].
    pub(in crate::data) fn of_run<'a>(
        run: &Shape,
        found: impl Iterator<Item = &'a str>,
        given: &[String],
    ) -> Result<Self> {
        let names = run.classes.clone();
        let labels = match (run.labels.as_slice(), given) {
            ([], []) => Self::numbered(names.clone(), names),
            ([], _) => {
                let found: Vec<&str> = found.collect();
                let counted = sorted(found.iter().copied());
                let numbers = counted.iter().all(|label| label.parse::<i64>().is_ok());
                match numbers && counted.len() == names.len() {
                    true => Self::new(found.into_iter(), &names)?,
                    // Not every class stands in each file: an imported run's are numbered from 0.
                    false => Self::numbered(names.clone(), names).with_numbers(),
                }
            }
            (written, _) => Self::numbered(names, written.to_vec()),
        };
        Ok(Self {
            of_run: true,
            ..labels
        })
    }

    fn numbered(names: Vec<String>, written: Vec<String>) -> Self {
        let numbers = written.iter().cloned().zip(0..).collect();
        Self {
            names,
            written,
            numbers,
            of_run: false,
        }
    }

    /// The same where labels may also be the classes' numbers from 0, as tables of Hugging Face's have them, unless a class is
    /// called by a number.
    fn with_numbers(mut self) -> Self {
        if self.names.iter().all(|name| name.parse::<i64>().is_err()) {
            let count = self.names.len() as i32;
            self.numbers
                .extend((0..count).map(|number| (number.to_string(), number)));
        }
        self
    }

    /// How they are written, where it is not by their names.
    pub(in crate::data) fn written(&self) -> Vec<String> {
        match self.written == self.names {
            true => Vec::new(),
            false => self.written.clone(),
        }
    }

    /// The class of a label.
    ///
    /// # Errors
    /// It stands for none.
    pub(in crate::data) fn class(&self, label: &str) -> Result<i32> {
        self.numbers.get(label).copied().ok_or_else(|| {
            let mut known: Vec<&str> = self.numbers.keys().map(String::as_str).collect();
            known.sort_unstable();
            let hint = suggestion(label, known);
            let by = match self.of_run {
                true => "the run was not trained on the label",
                false => "unknown label",
            };
            Error::run(format!("{by} `{label}`{hint}"))
        })
    }
}
