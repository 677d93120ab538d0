//! The input file of `infer`: safetensors, whose arrays are checked against those that the task expects, and read by rows.

use super::array::Array;
use crate::data::SpeechShape;
use crate::error::{Error, Fault, Result, suggestion};
use crate::interop::weights::header;
use crate::task::infer::{
    ATTENTION_MASK, ArrayContent, DecoderStart, Input, InputArrays, IntMatrix, Requirement,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Maximum number of unknown names that an error lists.
const LISTED: usize = 8;

/// The arrays of an input file.
#[derive(Debug)]
pub struct Inputs {
    path: PathBuf,
    arrays: BTreeMap<&'static str, Array>,
    rows: usize,
    start: Option<DecoderStart>,
}

impl Inputs {
    /// Opens a file with the arrays that a task asks for; names with the prefix `apart` are ignored.
    ///
    /// # Errors
    /// If the file is missing or damaged; if arrays are unknown to the task, missing, or of a wrong type or shape. All of these
    /// are reported together.
    pub fn open(path: &Path, asked: &[Input], apart: Option<&str>) -> Result<Self> {
        // Errors of the file are usage errors here, since nothing has run yet.
        let (begin, header) = header(path).map_err(|error| match error {
            Error::Io { source, doing, .. } => {
                Error::usage(format!("cannot {doing} {}: {source}", path.display()))
            }
            other => other,
        })?;
        let (mut arrays, mut unknown) = (BTreeMap::new(), Vec::new());
        for (name, info) in header.tensors() {
            if apart.is_some_and(|apart| name.starts_with(apart)) {
                continue;
            }
            let Some(input) = asked.iter().find(|input| input.name == name) else {
                unknown.push(name);
                continue;
            };
            let array = Array {
                input: *input,
                dtype: info.dtype,
                shape: info.shape.clone(),
                begin: begin + info.data_offsets.0 as u64,
            };
            arrays.insert(input.name, array);
        }
        unknown.sort();
        let known = || asked.iter().map(|input| input.name);
        let mut faults: Vec<String> = unknown
            .iter()
            .take(LISTED)
            .map(|name| {
                let hint = suggestion(name, known().collect::<Vec<_>>());
                format!("the model has no input `{name}`{hint}")
            })
            .collect();
        if unknown.len() > LISTED {
            faults.push(format!(
                "and {} more unknown inputs",
                unknown.len() - LISTED
            ));
        }
        let mut inputs = Self {
            path: path.to_path_buf(),
            arrays,
            rows: 0,
            start: None,
        };
        faults.extend(inputs.layout_faults(asked));
        match faults.is_empty() {
            true => Ok(inputs),
            false => Err(inputs.faults(faults)),
        }
    }

    /// Returns the number of rows, which is equal in all arrays.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the file has an array.
    pub fn has(&self, name: &str) -> bool {
        self.arrays.contains_key(name)
    }

    /// Returns the width of the widest array of token ids.
    pub fn tokens(&self) -> usize {
        let ids = self.arrays.values();
        let ids = ids.filter(|array| matches!(array.input.content, ArrayContent::Tokens { .. }));
        ids.map(|array| array.shape[1]).max().unwrap_or(0)
    }

    /// Returns the names of the arrays of labels in the file.
    pub fn labels(&self) -> impl Iterator<Item = &'static str> {
        let labels = self.arrays.values();
        let labels = labels.filter(|array| array.input.content.is_labels());
        labels.map(|array| array.input.name)
    }

    /// Sets the special tokens with which decoder inputs are derived from labels.
    pub(super) fn set_start(&mut self, start: DecoderStart) {
        self.start = Some(start);
    }

    /// Returns a single error about the file.
    pub fn fault(&self, message: String) -> Error {
        self.faults(vec![message])
    }

    fn faults(&self, messages: Vec<String>) -> Error {
        let fault = |message| Fault {
            file: Some(self.path.clone()),
            line: None,
            message,
        };
        Error::Invalid(messages.into_iter().map(fault).collect())
    }

    /// Checks names, types and shapes, and determines the number of rows.
    fn layout_faults(&mut self, asked: &[Input]) -> Vec<String> {
        let mut faults = Vec::new();
        for input in asked {
            let wanted = match input.requirement {
                Requirement::Never => continue,
                Requirement::IfGiven(other) if !self.has(other) => continue,
                Requirement::IfGiven(other) => {
                    format!("`{}` is missing; it is required with `{other}`", input.name)
                }
                Requirement::Always => format!("`{}` is missing", input.name),
                Requirement::UnlessGiven(other) if self.has(other) => continue,
                Requirement::UnlessGiven(other) => format!(
                    "`{}` is missing, and `{other}`, from which it could be derived, is missing too",
                    input.name
                ),
            };
            if !self.has(input.name) {
                faults.push(wanted);
            }
        }
        for array in self.arrays.values() {
            faults.extend(array.layout_fault());
        }
        if !faults.is_empty() {
            return faults;
        }
        let first = asked.iter().find_map(|input| self.arrays.get(input.name));
        self.rows = first.map_or(0, |array| array.shape[0]);
        for input in asked {
            faults.extend(self.shape_conflict(input, asked));
        }
        faults
    }

    /// The shape of an array, or of the array that it is derived from.
    fn shape_of(&self, name: &str, asked: &[Input]) -> Option<&[usize]> {
        if let Some(array) = self.arrays.get(name) {
            return Some(&array.shape);
        }
        let input = asked.iter().find(|input| input.name == name)?;
        match input.requirement {
            Requirement::UnlessGiven(other) => {
                self.arrays.get(other).map(|array| array.shape.as_slice())
            }
            Requirement::Always | Requirement::Never | Requirement::IfGiven(_) => None,
        }
    }

    /// Describes how the shape of an input contradicts the shapes of others or the model.
    fn shape_conflict(&self, input: &Input, asked: &[Input]) -> Option<String> {
        let name = input.name;
        let shape = self.shape_of(name, asked)?;
        if let Some(array) = self.arrays.get(name)
            && array.shape[0] != self.rows
        {
            let rows = self.rows;
            return Some(format!(
                "`{name}` has {} rows; others have {rows}",
                array.shape[0]
            ));
        }
        match input.content {
            ArrayContent::Mask { of }
            | ArrayContent::Marks { of }
            | ArrayContent::Segments { of, .. }
            | ArrayContent::Targets { of, .. } => {
                let other = self.shape_of(of, asked)?;
                (self.has(name) && other != shape)
                    .then(|| format!("`{name}` has the shape {shape:?}; `{of}` has {other:?}"))
            }
            ArrayContent::Tokens {
                longest: Some(longest),
                beside,
                ..
            } => {
                let more = beside.and_then(|other| self.shape_of(other, asked));
                let tokens = shape[1].saturating_add(more.map_or(0, |shape| shape[1]));
                let with = beside.map(|other| format!(", including those of `{other}`"));
                (tokens > longest).then(|| {
                    format!(
                        "`{name}` has rows of {tokens} tokens{}; the model has positions for {longest}",
                        with.unwrap_or_default()
                    )
                })
            }
            ArrayContent::Tokens { longest: None, .. }
            | ArrayContent::Classes { .. }
            | ArrayContent::Position { .. }
            | ArrayContent::Numbers
            | ArrayContent::Indicators { .. }
            | ArrayContent::Pixels { .. }
            | ArrayContent::Features(_)
            | ArrayContent::Samples => None,
        }
    }

    /// Reads a range of rows.
    ///
    /// # Errors
    /// If a value cannot be read by the model, or the file cannot be read.
    pub fn read_rows(&self, rows: Range<usize>) -> Result<InputArrays> {
        let mut given = InputArrays {
            rows: rows.len(),
            start: self.start,
            ..InputArrays::default()
        };
        let mut file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        for (name, array) in &self.arrays {
            let bytes = array
                .read(&mut file, &rows)
                .map_err(Error::io("read", &self.path))?;
            if let (ArrayContent::Pixels { .. }, &[_, channels, height, width]) =
                (array.input.content, array.shape.as_slice())
            {
                given.pixels = array.floats(&bytes);
                given.image = [channels, height, width];
                continue;
            }
            if let (ArrayContent::Features(_), &[_, n_mels, n_frames]) =
                (array.input.content, array.shape.as_slice())
            {
                given.features = array.floats(&bytes);
                given.speech = SpeechShape {
                    n_mels,
                    n_frames,
                    normalized: false,
                };
                continue;
            }
            if let ArrayContent::Samples = array.input.content {
                given.features = array.floats(&bytes);
                continue;
            }
            if let ArrayContent::Numbers | ArrayContent::Indicators { .. } = array.input.content {
                let values = array.floats(&bytes);
                if let Some(fault) = array.invalid_target(&values, rows.start) {
                    return Err(self.fault(fault));
                }
                given.numbers.insert(name, values);
                continue;
            }
            let values = array.integers(&bytes);
            let cols = array.cols();
            let fault = array.invalid_value(&values, cols, rows.start, self.tokens());
            if let Some(fault) = fault {
                return Err(self.fault(fault));
            }
            let values = values.into_iter().map(|x| x as i32).collect();
            given.integers.insert(name, IntMatrix { values, cols });
        }
        self.within_rows(&given, rows.start)?;
        Ok(given)
    }

    /// Checks that positions are within the tokens of their rows.
    fn within_rows(&self, given: &InputArrays, first: usize) -> Result<()> {
        let Some(lengths) = given.lengths(ATTENTION_MASK) else {
            return Ok(());
        };
        for (name, array) in &self.arrays {
            let (ArrayContent::Position { .. }, Some(values)) =
                (array.input.content, given.values(name))
            else {
                continue;
            };
            let beyond =
                |(at, length): (&i32, &usize)| usize::try_from(*at).is_ok_and(|at| at >= *length);
            if let Some(row) = values.iter().zip(&lengths).position(beyond) {
                return Err(self.fault(format!(
                    "`{name}`[{}] is {}, but the row has {} tokens",
                    first + row,
                    values[row],
                    lengths[row]
                )));
            }
        }
        Ok(())
    }
}
