//! One pass of `infer`: the arrays, and the mean loss against labels with its gradients.

use super::{Infers, InputArrays, arrays};
use crate::kernel;
use crate::nn::pass::Pass;
use crate::nn::record::Keep;
use burn::tensor::{Gradients, TensorData};
use std::collections::BTreeMap;

/// Number of scored labels in each array of labels, over all rows of the inference.
pub type Scored = BTreeMap<&'static str, usize>;

/// The results of one pass.
pub struct Passed {
    /// The arrays by name, batch first.
    pub arrays: Vec<(String, TensorData)>,
    /// These rows' share of the mean loss, summed over the arrays of labels.
    pub loss: f64,
    /// Gradients of that share, if they are asked for and labels are given.
    pub gradients: Option<Gradients>,
}

/// Runs some rows without dropout. If `differentiate` is set, the model's parameters must be tracked.
pub fn passed(
    task: &dyn Infers,
    given: &InputArrays,
    keep: Keep,
    scored: &Scored,
    differentiate: bool,
) -> Passed {
    let pass = Pass::evaluation().recorded(keep);
    let inferred = task.infer(given, &pass);
    let losses = inferred.scores.iter().filter_map(|scores| {
        let loss = task.loss(scores, given)?;
        let count = scored.get(scores.labels).copied().unwrap_or(0).max(1);
        Some(loss / count as f64)
    });
    let loss = losses.reduce(|sum, loss| sum + loss);
    let value = loss.as_ref().map_or(0.0, |loss| {
        kernel::numbers(vec![loss.clone()])
            .into_iter()
            .map(f64::from)
            .sum()
    });
    Passed {
        gradients: loss.filter(|_| differentiate).map(|loss| loss.backward()),
        loss: value,
        arrays: arrays(inferred, pass.take_recorded(), task.ends_normed()),
    }
}
