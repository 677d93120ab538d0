//! Compares an imported model with another program: the distance of each output from a reference file.

use super::infer::{self, Request};
use super::open;
use super::run_contents::CheckpointChoice;
use crate::error::{Error, Result};
use crate::nn::record::RecordSelection;
use burn::tensor::TensorData;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prefix of the names of expected outputs.
const EXPECTED: &str = "expected.";
/// A distance that rounding does not explain, relative to the largest expected magnitude or 1, whichever is larger.
pub const TOLERANCE: f64 = 1e-3;
/// Script that makes a reference file with transformers.
const SCRIPT: &str = include_str!("../../benches/hf_reference.py");

/// The distance of an output from the expected one.
#[derive(Clone, Debug, PartialEq)]
pub struct Parity {
    /// Name of the output.
    pub name: String,
    /// Number of compared values: those at tokens, not at padding.
    pub compared: usize,
    /// Maximum absolute difference.
    pub max_difference: f64,
    /// Mean absolute difference.
    pub mean_difference: f64,
    /// Largest magnitude of the expected values.
    pub max_expected: f64,
}

impl Parity {
    /// Whether rounding explains the distance.
    pub fn is_near(&self) -> bool {
        self.max_difference <= TOLERANCE * self.max_expected.max(1.0)
    }
}

/// Runs the inputs of a reference file through a run and compares the outputs with the file's.
///
/// # Errors
/// If the file has no inputs or expected outputs; if the model lacks an expected output, or gives it in another shape.
pub fn parity(run: &Path, file: &Path) -> Result<Vec<Parity>> {
    let reference = Reference::open(file)?;
    let opened = open::open(run, CheckpointChoice::Latest, None)?;
    let inputs = infer::inputs(&opened, file, Some(EXPECTED))?;
    let has = |part: &str| reference.expected.keys().any(|name| name.contains(part));
    let request = Request {
        keep: RecordSelection {
            hidden_states: has("hidden_states."),
            attentions: has("attentions."),
            ..RecordSelection::default()
        },
        gradients: false,
        batch_size: opened.experiment.train.eval_batch_size(),
    };
    let mut sums: BTreeMap<String, DifferenceSums> = BTreeMap::new();
    infer::infer(&opened, &inputs, &request, &mut |rows, arrays| {
        for (name, data) in arrays {
            reference.add(&name, rows.clone(), &data, &mut sums)?;
        }
        Ok(())
    })?;
    let missing = reference
        .expected
        .keys()
        .find(|name| !sums.contains_key(*name));
    if let Some(missing) = missing {
        return Err(Error::usage(format!(
            "{}: `{EXPECTED}{missing}` is not an output of the model",
            file.display()
        )));
    }
    Ok(sums
        .into_iter()
        .map(|(name, sum)| sum.parity(name))
        .collect())
}

/// Runs the shipped script on an HF folder with a Python interpreter that has torch and transformers. Returns a temporary
/// folder, which the caller has to delete, and the reference file in it.
///
/// # Errors
/// If the interpreter cannot be started, or the script fails.
pub fn compute_reference(python: &Path, dir: &Path) -> Result<(PathBuf, PathBuf)> {
    let folder = std::env::temp_dir().join(format!("formwork-parity-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    let (script, file) = (
        folder.join("hf_reference.py"),
        folder.join("reference.safetensors"),
    );
    std::fs::write(&script, SCRIPT).map_err(Error::io("write", &script))?;
    let mut command = Command::new(python);
    command
        .arg(&script)
        .arg(dir)
        .arg(&file)
        .stdout(Stdio::null());
    let status = command.status().map_err(Error::io("start", python));
    if let Ok(status) = &status
        && status.success()
    {
        return Ok((folder, file));
    }
    // Frees the disk space after a failure; the original error is the one that matters.
    let _ = std::fs::remove_dir_all(&folder);
    let status = status.map_err(Error::into_usage_error)?;
    Err(Error::run(format!(
        "{} could not compute the reference ({status}); its message is above",
        python.display()
    )))
}

/// The expected outputs of a file, and its attention masks.
struct Reference {
    file: PathBuf,
    expected: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    masks: BTreeMap<String, (Vec<usize>, Vec<i64>)>,
    is_decoded: bool,
}

impl Reference {
    fn open(file: &Path) -> Result<Self> {
        let bytes = std::fs::read(file).map_err(Error::io("read", file))?;
        let wrong = |why: String| Error::usage(format!("{}: {why}", file.display()));
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|e| wrong(format!("not a safetensors file: {e}")))?;
        let (mut expected, mut masks) = (BTreeMap::new(), BTreeMap::new());
        for (name, tensor) in tensors.tensors() {
            let (shape, data) = (tensor.shape().to_vec(), tensor.data());
            if let Some(output) = name.strip_prefix(EXPECTED) {
                if tensor.dtype() != Dtype::F32 {
                    let dtype = tensor.dtype();
                    return Err(wrong(format!(
                        "`{name}` is {dtype:?}; expected outputs must be F32"
                    )));
                }
                let values = data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b));
                expected.insert(output.to_string(), (shape, values.collect()));
            } else if name.ends_with("attention_mask") {
                let values = match tensor.dtype() {
                    Dtype::I64 => data
                        .as_chunks()
                        .0
                        .iter()
                        .map(|b| i64::from_le_bytes(*b))
                        .collect(),
                    Dtype::I32 => {
                        let numbers = data.as_chunks().0.iter();
                        numbers.map(|b| i64::from(i32::from_le_bytes(*b))).collect()
                    }
                    _ => continue,
                };
                masks.insert(name, (shape, values));
            }
        }
        if expected.is_empty() {
            let reason = "no expected outputs; their names must begin with `expected.`";
            return Err(wrong(reason.into()));
        }
        Ok(Self {
            file: file.to_path_buf(),
            expected,
            masks,
            is_decoded: tensors.names().contains(&"decoder_input_ids"),
        })
    }

    /// Adds the differences in some rows of an output; outputs without expected values are skipped.
    fn add(
        &self,
        name: &str,
        rows: Range<usize>,
        data: &TensorData,
        sums: &mut BTreeMap<String, DifferenceSums>,
    ) -> Result<()> {
        let Some((shape, expected)) = self.expected.get(name) else {
            return Ok(());
        };
        let found = data.shape().to_vec();
        if found.get(1..) != shape.get(1..) || shape.first().is_none_or(|n| rows.end > *n) {
            return Err(Error::run(format!(
                "{}: `{EXPECTED}{name}` has the shape {shape:?}; rows of the model's output have {found:?}",
                self.file.display()
            )));
        }
        let row: usize = shape[1..].iter().product();
        let sum = sums.entry(name.to_string()).or_default();
        let ours = data.iter::<f32>();
        let theirs = &expected[rows.start * row..rows.end * row];
        let cells = shape
            .get(1)
            .map_or(1, |positions| row / (*positions).max(1))
            .max(1);
        for (at, (ours, theirs)) in ours.zip(theirs).enumerate() {
            let (r, position) = (rows.start + at / row.max(1), at % row.max(1) / cells);
            if self.is_token(name, shape, r, position) {
                sum.add(f64::from(ours), f64::from(*theirs));
            }
        }
        Ok(())
    }

    /// Whether a position of an output is a token: values at padding are meaningless.
    fn is_token(&self, name: &str, shape: &[usize], row: usize, position: usize) -> bool {
        let mask = match self.is_decoded && !name.starts_with("encoder_") {
            true => "decoder_attention_mask",
            false => "attention_mask",
        };
        let Some((of, values)) = self.masks.get(mask) else {
            return true;
        };
        if name.contains("attentions") || of.as_slice() != shape.get(..2).unwrap_or_default() {
            return true;
        }
        values[row * of[1] + position] != 0
    }
}

/// Running sums of differences.
#[derive(Default)]
struct DifferenceSums {
    compared: usize,
    most: f64,
    total: f64,
    largest: f64,
}

impl DifferenceSums {
    fn add(&mut self, ours: f64, theirs: f64) {
        let off = match (ours - theirs).abs() {
            off if off.is_nan() => f64::INFINITY,
            off => off,
        };
        self.compared += 1;
        self.most = self.most.max(off);
        self.total += off;
        self.largest = self.largest.max(theirs.abs());
    }

    fn parity(self, name: String) -> Parity {
        Parity {
            name,
            compared: self.compared,
            max_difference: self.most,
            mean_difference: self.total / self.compared.max(1) as f64,
            max_expected: self.largest,
        }
    }
}
