//! One array of an input file: its format and shape, access to its values by rows, and the check for values that a model cannot
//! read.

use crate::data::{NOT_SCORED, SpeechShape};
use crate::task::infer::{ArrayContent, Input};
use safetensors::Dtype;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

/// An array of the file, and the content it is expected to have.
#[derive(Clone, Debug)]
pub(super) struct Array {
    /// The expected content.
    pub input: Input,
    /// Element type of the array.
    pub dtype: Dtype,
    /// Shape of the array; the first dimension is the rows.
    pub shape: Vec<usize>,
    /// Byte offset of its data in the file.
    pub begin: u64,
}

impl Array {
    /// Number of values in a row.
    pub fn cols(&self) -> usize {
        self.shape[1..].iter().product()
    }

    /// Returns what is wrong with its type or, regardless of other arrays, with its shape.
    pub fn layout_fault(&self) -> Option<String> {
        let (name, dtype, shape) = (self.input.name, self.dtype, &self.shape);
        let (formats, fits, wanted) = match self.input.content {
            ArrayContent::Pixels {
                channels: c,
                size: Some([h, w]),
            } => (
                &[Dtype::F32][..],
                shape.len() == 4 && shape[1..] == [c, h, w],
                format!("[rows, {c}, {h}, {w}]"),
            ),
            ArrayContent::Pixels {
                channels: c,
                size: None,
            } => (
                &[Dtype::F32][..],
                shape.len() == 4 && shape[1] == c,
                format!("[rows, {c}, height, width]"),
            ),
            ArrayContent::Features(SpeechShape {
                n_mels, n_frames, ..
            }) => (
                &[Dtype::F32][..],
                shape.len() == 3 && shape[1..] == [n_mels, n_frames],
                format!("[rows, {n_mels}, {n_frames}]"),
            ),
            ArrayContent::Samples => (
                &[Dtype::F32][..],
                shape.len() == 2,
                "[rows, samples]".to_string(),
            ),
            ArrayContent::Numbers => (&[Dtype::F32][..], shape.len() == 1, "[rows]".to_string()),
            ArrayContent::Indicators { classes } => (
                &[Dtype::F32][..],
                shape.len() == 2 && shape[1] == classes,
                format!("[rows, {classes}]"),
            ),
            ArrayContent::Classes { .. } | ArrayContent::Position { .. } => (
                &[Dtype::I32, Dtype::I64][..],
                shape.len() == 1,
                "[rows]".to_string(),
            ),
            ArrayContent::Tokens { .. }
            | ArrayContent::Mask { .. }
            | ArrayContent::Marks { .. }
            | ArrayContent::Segments { .. }
            | ArrayContent::Targets { .. } => (
                &[Dtype::I32, Dtype::I64][..],
                shape.len() == 2,
                "[rows, tokens]".to_string(),
            ),
        };
        if !formats.contains(&dtype) {
            let formats: Vec<String> = formats.iter().map(Dtype::to_string).collect();
            return Some(format!(
                "`{name}` has the format {dtype}; it must be {}",
                formats.join(" or ")
            ));
        }
        if !fits {
            return Some(format!(
                "`{name}` has the shape {shape:?}; it must be {wanted}"
            ));
        }
        shape
            .contains(&0)
            .then(|| format!("`{name}` has the shape {shape:?}: it is empty"))
    }

    /// Reads the bytes of some rows.
    pub fn read(&self, file: &mut File, rows: &Range<usize>) -> std::io::Result<Vec<u8>> {
        let row = self.cols() * (self.dtype.bitsize() / 8);
        let mut bytes = vec![0; rows.len() * row];
        file.seek(SeekFrom::Start(self.begin + (rows.start * row) as u64))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub fn floats(&self, bytes: &[u8]) -> Vec<f32> {
        let values = bytes.as_chunks().0.iter();
        values.map(|b| f32::from_le_bytes(*b)).collect()
    }

    pub fn integers(&self, bytes: &[u8]) -> Vec<i64> {
        match self.dtype {
            Dtype::I32 => {
                let values = bytes.as_chunks().0.iter();
                values.map(|b| i64::from(i32::from_le_bytes(*b))).collect()
            }
            _ => {
                let values = bytes.as_chunks().0.iter();
                values.map(|b| i64::from_le_bytes(*b)).collect()
            }
        }
    }

    /// Describes the first value that is not a valid target; `first` is the number of the first row.
    pub fn invalid_target(&self, values: &[f32], first: usize) -> Option<String> {
        let indicators = matches!(self.input.content, ArrayContent::Indicators { .. });
        let fine = |x: f32| match indicators {
            true => x == 0.0 || x == 1.0,
            false => x.is_finite(),
        };
        let at = values.iter().position(|x| !fine(*x))?;
        let (name, value, cols) = (self.input.name, values[at], self.cols());
        let row = first + at / cols;
        Some(match indicators {
            true => format!(
                "`{name}`[{row}, {}] is {value}; it must be 0 or 1",
                at % cols
            ),
            false => format!("`{name}`[{row}] is {value}; it must be a finite number"),
        })
    }

    /// Describes the first value that the model cannot read; `first` is the number of the first row, and each row has `tokens`
    /// tokens.
    pub fn invalid_value(
        &self,
        values: &[i64],
        cols: usize,
        first: usize,
        tokens: usize,
    ) -> Option<String> {
        let name = self.input.name;
        let (below, rule) = match self.input.content {
            ArrayContent::Mask { .. } => (2, "it must be 1 at tokens and 0 after them".to_string()),
            ArrayContent::Marks { .. } => (
                2,
                "it must be 1 at global tokens and 0 at other tokens".to_string(),
            ),
            ArrayContent::Tokens { below, .. } => (below, ids(below)),
            ArrayContent::Segments { below, .. } => (
                below,
                format!("segments are from 0 to {}", below.saturating_sub(1)),
            ),
            ArrayContent::Targets { below, .. } => (below, format!("{}, or -100", ids(below))),
            ArrayContent::Classes { below } => (
                below,
                format!("classes are from 0 to {}, or -100", below.saturating_sub(1)),
            ),
            ArrayContent::Position { .. } => (
                tokens,
                format!(
                    "positions are from 0 to {}, or -100",
                    tokens.saturating_sub(1)
                ),
            ),
            ArrayContent::Numbers
            | ArrayContent::Indicators { .. }
            | ArrayContent::Pixels { .. }
            | ArrayContent::Features(_)
            | ArrayContent::Samples => return None,
        };
        let scored = self.input.content.is_labels();
        let fine = |x: i64| {
            usize::try_from(x).is_ok_and(|x| x < below) || scored && x == i64::from(NOT_SCORED)
        };
        if let Some(at) = values.iter().position(|x| !fine(*x)) {
            let row = first + at / cols;
            let place = match self.shape.len() {
                1 => format!("[{row}]"),
                _ => format!("[{row}, {}]", at % cols),
            };
            return Some(format!("`{name}`{place} is {}; {rule}", values[at]));
        }
        match self.input.content {
            ArrayContent::Mask { .. } => invalid_mask(name, values, cols, first),
            _ => None,
        }
    }
}

fn ids(below: usize) -> String {
    format!(
        "ids of the vocabulary are from 0 to {}",
        below.saturating_sub(1)
    )
}

/// Describes the first row of a mask that is not padded on the right only, or that has no token.
fn invalid_mask(name: &str, values: &[i64], cols: usize, first: usize) -> Option<String> {
    const RULE: &str =
        "padding is allowed on the right only: 1 at each token, then 0 (padding_side = \"right\")";
    let mut rows = values.chunks(cols).zip(first..);
    rows.find_map(|(row, number)| {
        let zero = row.iter().position(|x| *x == 0)?;
        match row[zero..].iter().position(|x| *x == 1) {
            None if zero == 0 => Some(format!("row {number} of `{name}` has no token")),
            None => None,
            Some(after) => Some(format!(
                "row {number} of `{name}` is 0 at position {zero} and 1 at position {}; {RULE}",
                zero + after
            )),
        }
    })
}
