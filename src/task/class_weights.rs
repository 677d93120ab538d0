//! Weights of classes in classification losses: rare classes count as much as others, or each class by a given weight
//! (King and Zeng 2001, section 4.2).
//!
//! The loss of a row with label y is multiplied by w(y), and the batch loss is Σ w(y)·loss / Σ w(y), in training and in
//! evaluations. With label smoothing ε, the share ε/C of each class is weighted by that class's own weight, as in
//! PyTorch's cross-entropy: w(y)·(1−ε)·(−log p(y)) + Σ_c w(c)·ε/C·(−log p(c)). The divisor is counted when batches are
//! made (`data::weighed`).

use super::host;
use super::scored::{Divisor, Term};
use crate::data::batch::Batch;
use crate::data::{Source, weighted_source};
use crate::error::{Error, Result};
use crate::faults::TableFaults;
use crate::kernel::{self, replay};
use burn::tensor::{Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Weights of the classes in the loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ClassWeights {
    /// Each class by the inverse of its share of the training examples, n / (classes · n of the class), so that all
    /// count alike.
    Balanced(BalancedConfig),
    /// The given numbers.
    Given(GivenConfig),
}

/// Weights computed from the training examples; there are no further keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BalancedConfig {}

/// Weights given as numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GivenConfig {
    /// A number from 1e-6 to 1e6 for each class, in the order of the data's classes. Only their ratios have an effect.
    pub weights: Vec<f64>,
}

/// Range of given weights. With ratios beyond 10^12, one class would determine the loss of a step.
const BOUNDS: RangeInclusive<f64> = 1e-6..=1e6;

/// Number of class names that a message lists before it only counts the rest.
const LISTED: usize = 20;

/// Lists names for a message.
fn list_names(mut names: Vec<&str>) -> String {
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    match more {
        0 => names.join(", "),
        _ => format!("{} and {more} more", names.join(", ")),
    }
}

/// Describes the first weight that is out of range, if any; `key` is the name of the key in the message.
pub(super) fn fault(key: &str, weights: &[f64]) -> Option<String> {
    let mut numbered = weights.iter().zip(1..);
    let (wrong, number) = numbered.find(|(weight, _)| !BOUNDS.contains(*weight))?;
    Some(format!(
        "{key}: weight {number} is {wrong:?}; it must be between {:e} and {:e} (to ignore a class, remove it from the data)",
        BOUNDS.start(),
        BOUNDS.end()
    ))
}

/// Converts the weights to 32 bits, one for each class. `key` is the name of the key in the message, with its table.
///
/// # Errors
/// If the number of weights differs from the number of classes.
pub(super) fn per_class(key: &str, weights: &[f64], classes: &[String]) -> Result<Vec<f32>> {
    if weights.len() != classes.len() {
        return Err(Error::usage(format!(
            "{key} has {} numbers, but the data has {} classes: {}; give one number for each, in this order",
            weights.len(),
            classes.len(),
            list_names(classes.iter().map(String::as_str).collect())
        )));
    }
    Ok(weights.iter().map(|weight| *weight as f32).collect())
}

impl ClassWeights {
    /// Checks the keys and reports faults.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        match self {
            Self::Balanced(_) => {}
            Self::Given(c) => {
                if let Some(rule) = fault("weights", &c.weights) {
                    at.nested("class_weights", |at| at.fault(&["weights"], rule));
                }
            }
        }
    }

    /// Returns whether the weights are computed from the training examples.
    pub fn is_balanced(&self) -> bool {
        matches!(self, Self::Balanced(_))
    }

    /// Returns the weight of each class for these training examples; `table` is the table that holds the key.
    ///
    /// # Errors
    /// If the number of weights differs from the number of classes, or if the examples cannot be counted or lack a
    /// class.
    pub fn resolve(&self, table: &str, classes: &[String], train: &dyn Source) -> Result<Vec<f32>> {
        let key = format!("[{table}] class_weights");
        match self {
            Self::Given(c) => per_class(&key, &c.weights, classes),
            Self::Balanced(_) => balanced(&key, classes, train),
        }
    }
}

/// Computes n / (classes · n of the class), like scikit-learn's `class_weight="balanced"`.
fn balanced(key: &str, classes: &[String], train: &dyn Source) -> Result<Vec<f32>> {
    let given = "give them as class_weights = { kind = \"given\", weights = [...] }";
    let counts = weighted_source::class_counts(train, classes.len())?.map_err(|why| {
        Error::usage(format!(
            "{key} = \"balanced\" counts the classes of the training examples, {}; {given}",
            why.reason()
        ))
    })?;
    let lacking = counts.iter().zip(classes).filter(|(count, _)| **count == 0);
    let lacking: Vec<&str> = lacking.map(|(_, class)| class.as_str()).collect();
    if !lacking.is_empty() {
        return Err(Error::usage(format!(
            "{key} = \"balanced\" needs training examples of each class, but these classes have none: {}; {given}",
            list_names(lacking)
        )));
    }
    let all: u64 = counts.iter().sum();
    let share = |count: u64| (all as f64 / (classes.len() as f64 * count as f64)) as f32;
    Ok(counts.into_iter().map(share).collect())
}

/// Returns the loss of the logits `[n, classes]` for these labels, weighted by class if the batch has class weights.
/// Rows with a label below 0 are not scored.
pub(super) fn weighted_loss(
    scores: Tensor<2>,
    labels: &[i32],
    smoothing: f64,
    batch: &Batch,
) -> Term {
    let device = scores.device();
    let Some(weights) = &batch.class_weights else {
        let labels = host::vector(labels, &device);
        let sum = kernel::cross_entropy_sum(scores, labels, smoothing);
        return Term::new(sum, Divisor::Scored);
    };
    let classes = scores.dims()[1];
    let mut shares = vec![0.0; labels.len() * classes];
    let (spread, kept) = ((smoothing / classes as f64) as f32, 1.0 - smoothing as f32);
    for (row, label) in shares.chunks_mut(classes.max(1)).zip(labels) {
        if let Ok(label) = usize::try_from(*label) {
            row.fill(spread);
            row[label] += kept;
        }
    }
    apply_weights(&mut shares, weights);
    let shares = TensorData::new(shares, [labels.len(), classes]);
    let sum = kernel::soft_cross_entropy_sum(scores, replay::floats(shares, &device));
    Term::new(sum, Divisor::Weighed)
}

/// Multiplies the share of each class in each row of `[rows, classes]` by the class's weight.
pub(super) fn apply_weights(shares: &mut [f32], weights: &[f32]) {
    for row in shares.chunks_mut(weights.len().max(1)) {
        for (share, weight) in row.iter_mut().zip(weights) {
            *share *= weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::loader::{BatchSize, Order, step_batches};
    use crate::data::weighted_source::WeightedSource;
    use crate::data::{Item, TextItem};
    use burn::tensor::Device;
    use std::sync::Arc;

    /// A source of examples with these classes.
    struct Of(Vec<i32>);

    impl Source for Of {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn get(&self, sample: u64, _: u64) -> Result<Item> {
            Ok(Item::Text(TextItem {
                inputs: vec![1],
                label: Some(self.0[sample as usize]),
                ..TextItem::default()
            }))
        }
    }

    #[test]
    fn balanced_weights_are_scikit_learn_s() {
        let classes = ["a", "b", "c"].map(String::from);
        let weights = ClassWeights::Balanced(BalancedConfig {});
        let of = |labels: &[i32]| weights.resolve("task", &classes, &Of(labels.to_vec()));
        // compute_class_weight("balanced", classes=[0, 1, 2], y=[0, 0, 0, 0, 1, 1, 2, 0])
        let found = of(&[0, 0, 0, 0, 1, 1, 2, 0]).unwrap();
        assert_eq!(found, [8.0 / 15.0, 8.0 / 6.0, 8.0 / 3.0]);
        let lacking = of(&[0, 0, 2]).unwrap_err().to_string();
        assert!(lacking.contains("these classes have none: b"), "{lacking}");
    }

    /// Expected values from torch.nn.CrossEntropyLoss(weight=[0.5, 3, 1.25], label_smoothing=…) of torch 2.15 with its
    /// gradient; the third row has its `ignore_index`.
    #[test]
    fn losses_and_gradients_are_torch_s() {
        let scores = [
            0.5f32, -1.0, 2.0, 1.5, 0.25, -0.75, -0.5, 0.0, 1.0, 2.0, -2.0, 0.5,
        ];
        let labels = [2, 0, -100, 1];
        let source = WeightedSource::of(Arc::new(Of(vec![2, 0, 1])), [0.5f32, 3.0, 1.25].into());
        let mut order = Order::new(1, BatchSize::Items(3));
        let batch = step_batches(source.as_ref(), &mut order, 3, 0)
            .unwrap()
            .remove(0);
        assert_eq!((batch.weight, batch.step_weight), (4.75, 4.75));
        let plain = [
            2.761222, 0.046129, 0.010293, -0.056422, -0.029638, 0.021667, 0.007971, 0.0, 0.0, 0.0,
            0.508745, -0.622261, 0.113516,
        ];
        let smoothed = [
            2.685213, 0.041572, -0.031264, -0.010308, 0.017168, -0.011049, -0.006119, 0.0, 0.0,
            0.0, 0.453679, -0.538931, 0.085251,
        ];
        for (smoothing, wanted) in [(0.0, plain), (0.2, smoothed)] {
            let data = TensorData::new(scores.to_vec(), [4, 3]);
            let scores: Tensor<2> = Tensor::from_data(data, &Device::flex().autodiff());
            let scores = scores.require_grad();
            let term = weighted_loss(scores.clone(), &labels, smoothing, &batch);
            let mean = term.sum / term.over.of_step(&batch);
            let gradients = mean.backward();
            let gradient = scores.grad(&gradients).unwrap().into_data();
            let loss = mean.into_data();
            let found = loss.iter::<f64>().chain(gradient.iter::<f64>());
            for (x, y) in found.zip(wanted) {
                assert!((x - y).abs() < 2e-6, "smoothing {smoothing}: {x}, not {y}");
            }
        }
    }
}
