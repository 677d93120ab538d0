//! The gradient of the mean loss over some examples, by parameter and by block, without dropout: where a model of this
//! depth and norm placement learns, and where it does not (Xiong et al. 2020, section 3.3 and figure 3).

use crate::data::batch::Batch;
use crate::task::Objective;
use crate::train::diagnostics::part_of;
use crate::train::{parameters, summed_gradients};
use burn::tensor::TensorData;
use std::collections::BTreeMap;

/// The gradient of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterGradient {
    /// Path of the parameter in checkpoints.
    pub path: String,
    /// The block that it is in, or the module outside the blocks.
    pub part: String,
    /// Number of its values.
    pub count: usize,
    /// L2 norm of its gradient.
    pub norm: f64,
    /// L2 norm of its values.
    pub weight_norm: f64,
}

/// The gradient of all parameters of one part of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct PartGradient {
    /// The block, or the module outside the blocks.
    pub part: String,
    /// Number of its parameters' values.
    pub count: usize,
    /// L2 norm of their gradient.
    pub norm: f64,
    /// L2 norm of their values.
    pub weight_norm: f64,
}

/// Computes the mean loss over some batches, and its gradient by parameter, in the order of the model's fields. The
/// parameters must be tracked.
pub fn parameter_gradients(
    model: &Objective,
    batches: Vec<Batch>,
) -> (f64, Vec<ParameterGradient>) {
    let mut sums = BTreeMap::new();
    let mut loss = 0.0;
    for batch in &as_one_step(batches) {
        let (share, gradients) = model.loss_and_gradients(batch);
        loss += share;
        summed_gradients::add(model, gradients, &mut sums);
    }
    let mut values = BTreeMap::new();
    summed_gradients::add(model, parameters::values(model), &mut values);
    let each = parameters::list(model).into_iter().map(|parameter| {
        let norm = |all: &BTreeMap<String, TensorData>| all.get(&parameter.path).map_or(0.0, norm);
        ParameterGradient {
            part: part_of(&parameter.path),
            count: parameter.shape.iter().product(),
            norm: norm(&sums),
            weight_norm: norm(&values),
            path: parameter.path,
        }
    });
    (loss, each.collect())
}

/// Combines the parameters by part, in the order in which parts first occur.
pub fn part_gradients(all: &[ParameterGradient]) -> Vec<PartGradient> {
    let mut parts: Vec<PartGradient> = Vec::new();
    for one in all {
        match parts.iter_mut().find(|part| part.part == one.part) {
            Some(part) => {
                part.count += one.count;
                part.norm = part.norm.hypot(one.norm);
                part.weight_norm = part.weight_norm.hypot(one.weight_norm);
            }
            None => parts.push(PartGradient {
                part: one.part.clone(),
                count: one.count,
                norm: one.norm,
                weight_norm: one.weight_norm,
            }),
        }
    }
    parts
}

/// Sets up batches as the micro-batches of one step.
fn as_one_step(mut batches: Vec<Batch>) -> Vec<Batch> {
    let sum = |of: fn(&Batch) -> usize| batches.iter().map(of).sum::<usize>();
    let (scored, second) = (sum(|b| b.scored), sum(|b| b.second));
    let (tokens, rows) = (sum(|b| b.tokens), sum(|b| b.rows));
    let weight = batches.iter().map(|b| b.weight).sum();
    for batch in &mut batches {
        batch.step_scored = scored;
        batch.step_weight = weight;
        batch.step_second = second;
        batch.step_tokens = tokens;
        batch.step_rows = rows;
    }
    batches
}

fn norm(data: &TensorData) -> f64 {
    let squares = data.iter::<f64>().map(|x| x * x);
    squares.sum::<f64>().sqrt()
}
