//! Labels as the files write them, and the classes that they stand for.

use std::collections::HashMap;

use super::multi_label;
use crate::data::{Shape, TextItem};
use crate::error::{Error, Result, suggestion};

/// The kind of answer that a model is to give for each text.
#[derive(Clone, Debug)]
pub(super) enum AnswerKind {
    /// One class.
    Classes(Labels),
    /// Any number of these classes.
    Several(Labels),
    /// A number.
    Numbers,
}

impl AnswerKind {
    /// Adds to an encoded text the answer that a table has for it.
    ///
    /// # Errors
    /// If a label stands for no class, or a score is not a number.
    pub(super) fn with_answer(&self, item: TextItem, written: &str) -> Result<TextItem> {
        Ok(match self {
            Self::Classes(labels) => TextItem {
                label: Some(labels.class(written)?),
                ..item
            },
            Self::Several(labels) => {
                let classes = multi_label::parts(written).map(|label| labels.class(label));
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

/// Parses a finite number.
fn number(written: &str) -> Result<f32> {
    let number = written.parse::<f32>().ok().filter(|x| x.is_finite());
    number.ok_or_else(|| {
        Error::run(format!(
            "the score `{written}` is not a number; use for example 3.8"
        ))
    })
}

/// The classes of a data set.
#[derive(Clone, Debug)]
pub(in crate::data) struct Labels {
    /// Names of the classes, in order.
    pub(in crate::data) names: Vec<String>,
    /// Labels of the classes in the files, in the same order.
    written: Vec<String>,
    /// Class numbers by label.
    numbers: HashMap<String, i32>,
    source: LabelSource,
}

/// Where the classes are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelSource {
    /// An existing run.
    Run,
    /// The labels of the training rows.
    Rows,
    /// Names given in the experiment.
    Names,
}

/// Sorts labels: integers by value, then other words.
fn sorted<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut labels: Vec<&str> = labels.collect();
    labels.sort_unstable_by_key(|label| (label.parse::<i64>().unwrap_or(i64::MAX), *label));
    labels.dedup();
    labels
}

/// Maximum number of classes that a message lists.
const FEW_CLASSES: usize = 12;
/// The fault of a row without a label.
pub(super) const EMPTY: &str =
    "the label is empty; remove the row, or name all classes, including \"\", in [data] classes";

impl Labels {
    /// Builds the classes from the labels of the training rows and the given names, if any. Given names are
    /// the labels themselves; if instead the labels are integers, as many as the names, the names stand for
    /// them in ascending order.
    ///
    /// # Errors
    /// If there is only a single class.
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
                "[data] `{label}` is the only label of the training rows; at least two are needed (is `label` the right \
                 column?)"
            )));
        }
        let written = written.into_iter().map(str::to_owned).collect();
        let source = match given {
            [] => LabelSource::Rows,
            _ => LabelSource::Names,
        };
        Ok(Self {
            source,
            ..Self::numbered(names, written)
        })
    }

    /// Returns the classes of a run, independent of what the files hold today. A run of an earlier version
    /// does not store the labels; they are then the names, or as in [`Labels::new`] if names were `given`.
    ///
    /// # Errors
    /// As for [`Labels::new`].
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
                    // A file need not contain every class: an imported run's are numbered from 0.
                    false => Self::numbered(names.clone(), names).with_numbers(),
                }
            }
            (written, _) => Self::numbered(names, written.to_vec()),
        };
        Ok(Self {
            source: LabelSource::Run,
            ..labels
        })
    }

    fn numbered(names: Vec<String>, written: Vec<String>) -> Self {
        let numbers = written.iter().cloned().zip(0..).collect();
        Self {
            names,
            written,
            numbers,
            source: LabelSource::Names,
        }
    }

    /// Also accepts the classes' numbers from 0 as labels, as in Hugging Face's tables, unless a class is
    /// named by a number.
    fn with_numbers(mut self) -> Self {
        if self.names.iter().all(|name| name.parse::<i64>().is_err()) {
            let count = self.names.len() as i32;
            self.numbers
                .extend((0..count).map(|number| (number.to_string(), number)));
        }
        self
    }

    /// Returns the labels in the files, or nothing if they equal the names.
    pub(in crate::data) fn written(&self) -> Vec<String> {
        match self.written == self.names {
            true => Vec::new(),
            false => self.written.clone(),
        }
    }

    /// Returns the class of a label.
    ///
    /// # Errors
    /// If it stands for no class.
    pub(in crate::data) fn class(&self, label: &str) -> Result<i32> {
        self.numbers.get(label).copied().ok_or_else(|| {
            if label.is_empty() {
                return Error::run(EMPTY);
            }
            let mut known: Vec<&str> = self.numbers.keys().map(String::as_str).collect();
            known.sort_unstable();
            let hint = suggestion(label, known);
            let (by, remedy) = match self.source {
                LabelSource::Run => ("the run was not trained on the label", String::new()),
                LabelSource::Names => ("unknown label", String::new()),
                LabelSource::Rows => ("unknown label", self.class_names_remedy(label)),
            };
            Error::run(format!("{by} `{label}`{hint}{remedy}"))
        })
    }

    /// Returns the remedy for a label that no training row has: the names of all classes, if they are few.
    fn class_names_remedy(&self, label: &str) -> String {
        let names = self.names.iter().map(String::as_str);
        let names: Vec<String> = sorted(names.chain([label]))
            .iter()
            .map(|name| format!("{name:?}"))
            .collect();
        let classes = match names.len() {
            0..=FEW_CLASSES => format!("[{}]", names.join(", ")),
            _ => "[…]".into(),
        };
        format!(
            "; classes are the labels of the training rows, and no training row has this one; name all classes: [data] classes = \
             {classes}"
        )
    }
}
