//! Labels as they are written, and the classes that they stand for.

use std::collections::HashMap;

use super::several;
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
    source: Known,
}

/// What classes are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// A run that has begun.
    Run,
    /// The labels of the training rows.
    Rows,
    /// Names that were given.
    Names,
}

/// Numbers by value, then other words.
fn sorted<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut labels: Vec<&str> = labels.collect();
    labels.sort_unstable_by_key(|label| (label.parse::<i64>().unwrap_or(i64::MAX), *label));
    labels.dedup();
    labels
}

/// Classes that a message lists.
const FEW_CLASSES: usize = 12;
/// The fault of a row that says no class.
pub(super) const EMPTY: &str = "the label is empty; leave the row out, or name all classes, \"\" among them, with [data] classes";

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
        let source = match given {
            [] => Known::Rows,
            _ => Known::Names,
        };
        Ok(Self {
            source,
            ..Self::numbered(names, written)
        })
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
            source: Known::Run,
            ..labels
        })
    }

    fn numbered(names: Vec<String>, written: Vec<String>) -> Self {
        let numbers = written.iter().cloned().zip(0..).collect();
        Self {
            names,
            written,
            numbers,
            source: Known::Names,
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
            if label.is_empty() {
                return Error::run(EMPTY);
            }
            let mut known: Vec<&str> = self.numbers.keys().map(String::as_str).collect();
            known.sort_unstable();
            let hint = suggestion(label, known);
            let (by, remedy) = match self.source {
                Known::Run => ("the run was not trained on the label", String::new()),
                Known::Names => ("unknown label", String::new()),
                Known::Rows => ("unknown label", self.named_with(label)),
            };
            Error::run(format!("{by} `{label}`{hint}{remedy}"))
        })
    }

    /// The remedy for a label that no training row has: the names of all classes, where they are few.
    fn named_with(&self, label: &str) -> String {
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
            "; classes are the labels of the training rows, and none of these has it: name all classes with [data] classes = \
             {classes}"
        )
    }
}
