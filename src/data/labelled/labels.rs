//! Labels as they are written, and the classes that they stand for.

use std::collections::HashMap;

use crate::data::Shape;
use crate::error::{Error, Result, suggestion};

/// The classes of a data set.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    /// Their names, in order.
    pub(super) names: Vec<String>,
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

impl Labels {
    /// From the labels of the training rows and the names that were given, if any. Names are the labels
    /// themselves; or, where the labels are as many whole numbers, what these stand for in ascending order.
    ///
    /// # Errors
    /// A single class.
    pub(super) fn new<'a>(found: impl Iterator<Item = &'a str>, given: &[String]) -> Result<Self> {
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
            return Err(Error::usage(format!(
                "[data] every training row has the label `{}`; there is nothing to tell apart (is `label` the right \
                 column?)",
                names.first().map_or("", String::as_str)
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
    pub(super) fn of_run<'a>(
        run: &Shape,
        found: impl Iterator<Item = &'a str>,
        given: &[String],
    ) -> Result<Self> {
        let names = run.classes.clone();
        let labels = match (run.labels.as_slice(), given) {
            ([], []) => Self::numbered(names.clone(), names),
            ([], _) => Self::new(found, &names)?,
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

    /// How they are written, where it is not by their names.
    pub(super) fn written(&self) -> Vec<String> {
        match self.written == self.names {
            true => Vec::new(),
            false => self.written.clone(),
        }
    }

    /// The class of a label.
    ///
    /// # Errors
    /// It stands for none.
    pub(super) fn class(&self, label: &str) -> Result<i32> {
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
