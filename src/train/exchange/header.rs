//! The outputs of a rank's part of a step, or of an evaluation batch, as bytes that keep every bit.

use crate::device;
use crate::error::{Error, Result};
use crate::evaluate::predictions::Predictions;
use crate::kernel;
use crate::task::StepOutput;
use crate::task::output::{KeptVectors, Sum};
use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What a rank reports about its part of a step.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Header {
    /// Whether the rank abandoned the step because it was asked to stop.
    pub left: bool,
    /// One character per parameter: `1` if it has a gradient.
    pub present: String,
    /// Outputs; `None` if the rank has no micro-batch.
    sums: Option<Sums>,
}

/// A [`StepOutput`] without the fields that stay with its rank. Doubles are sent as bits, which JSON's decimals may not
/// preserve.
#[derive(Debug, Serialize, Deserialize)]
struct Sums {
    loss: [u64; 2],
    items: u64,
    metrics: Vec<(String, [u64; 2])>,
    added: Vec<String>,
    joint: Vec<(String, u64)>,
    no_perplexity: bool,
    predictions: Option<Predictions>,
    /// Bits of the sums that a task keeps of a step, and of their count.
    kept: Option<(Vec<u32>, u64)>,
}

impl Header {
    pub fn new(output: Option<&StepOutput>, present: String) -> Self {
        Self {
            left: false,
            present,
            sums: output.map(Sums::of),
        }
    }

    pub fn left() -> Self {
        Self {
            left: true,
            ..Self::default()
        }
    }

    pub fn sums(self) -> Option<StepOutput> {
        self.sums.map(Sums::output)
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        bytes(self)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        read(bytes)
    }
}

/// Serializes outputs for the other ranks.
///
/// # Errors
/// If they cannot be serialized.
pub fn to_bytes(outputs: &[StepOutput]) -> Result<Vec<u8>> {
    bytes(&outputs.iter().map(Sums::of).collect::<Vec<_>>())
}

/// Reads the outputs that another rank sent.
///
/// # Errors
/// If the bytes are not from [`to_bytes`].
pub fn from_bytes(bytes: &[u8]) -> Result<Vec<StepOutput>> {
    let sums: Vec<Sums> = read(bytes)?;
    Ok(sums.into_iter().map(Sums::output).collect())
}

fn bytes<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| {
        Error::run(format!(
            "cannot serialize the data that ranks exchange: {e}"
        ))
    })
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|e| Error::run(format!("cannot read the data that another rank sent: {e}")))
}

impl Sums {
    fn of(output: &StepOutput) -> Self {
        let bits = |sum: Sum| [sum.sum.to_bits(), sum.weight.to_bits()];
        let metrics = output.metrics.iter();
        let names = output.added.iter();
        let joint = output.joint.iter();
        Self {
            loss: bits(output.loss),
            items: output.items,
            metrics: metrics.map(|(k, v)| ((*k).into(), bits(*v))).collect(),
            added: names.map(|name| (*name).into()).collect(),
            joint: joint.map(|(k, v)| ((*k).into(), v.to_bits())).collect(),
            no_perplexity: output.no_perplexity,
            predictions: output.predictions.clone(),
            kept: output.kept.as_ref().map(|kept| {
                let sum = kernel::read(kept.sum.clone()).convert::<f32>();
                (
                    sum.iter::<f32>().map(f32::to_bits).collect(),
                    kept.count.to_bits(),
                )
            }),
        }
    }

    fn output(self) -> StepOutput {
        let sum = |[sum, weight]: [u64; 2]| Sum::new(f64::from_bits(sum), f64::from_bits(weight));
        let metrics = self.metrics.into_iter();
        let names = self.added.iter();
        let joint = self.joint.iter();
        StepOutput {
            loss: sum(self.loss),
            items: self.items,
            metrics: metrics.map(|(name, v)| (intern(&name), sum(v))).collect(),
            added: names.map(|name| intern(name)).collect(),
            joint: joint
                .map(|(name, v)| (intern(name), f64::from_bits(*v)))
                .collect(),
            no_perplexity: self.no_perplexity,
            predictions: self.predictions,
            kept: self.kept.map(|(sum, count)| {
                let sum: Vec<f32> = sum.into_iter().map(f32::from_bits).collect();
                let data = TensorData::new(sum.clone(), [sum.len()]);
                KeptVectors {
                    sum: Tensor::from_data(data, &device::host()),
                    count: f64::from_bits(count),
                }
            }),
            ..StepOutput::default()
        }
    }
}

/// Returns a metric's name as a static string. Each name is leaked once; a task has only a few.
fn intern(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = Box::leak(name.into());
    names.insert(kept);
    kept
}
