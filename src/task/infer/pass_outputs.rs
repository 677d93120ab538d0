//! One pass of `infer`: the arrays, and the mean loss against labels with its gradients.

use super::{InferenceTask, InputArrays, arrays};
use crate::kernel;
use crate::nn::pass::Pass;
use crate::nn::record::RecordSelection;
use burn::tensor::{Gradients, TensorData};
use std::collections::BTreeMap;

/// Number of scored labels in each array of labels, over all rows of the inference.
pub type LabelCounts = BTreeMap<&'static str, usize>;

/// The results of one pass.
pub struct PassOutputs {
    /// The arrays by name, batch first.
    pub arrays: Vec<(String, TensorData)>,
    /// These rows' share of the mean loss, summed over the arrays of labels.
    pub loss: f64,
    /// Gradients of that share, if they are asked for and labels are given.
    pub gradients: Option<Gradients>,
}

/// Runs some rows without dropout. If `differentiate` is set, the model's parameters must be tracked.
pub fn run_pass(
    task: &dyn InferenceTask,
    given: &InputArrays,
    keep: RecordSelection,
    scored: &LabelCounts,
    differentiate: bool,
) -> PassOutputs {
    let pass = Pass::evaluation().with_record(keep);
    let inferred = task.infer(given, &pass);
    let losses = inferred.scores.iter().filter_map(|scores| {
        let loss = task.loss(scores, given)?;
        let count = scored.get(scores.labels).copied().unwrap_or(0).max(1);
        Some(loss / count as f64)
    });
    let loss = losses.reduce(|sum, loss| sum + loss);
    let value = loss.as_ref().map_or(0.0, |loss| {
        kernel::read_scalars(vec![loss.clone()])
            .into_iter()
            .map(f64::from)
            .sum()
    });
    PassOutputs {
        gradients: loss.filter(|_| differentiate).map(|loss| loss.backward()),
        loss: value,
        arrays: arrays(inferred, pass.take_recorded(), task.last_hidden_is_normed()),
    }
}
