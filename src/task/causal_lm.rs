//! Next-token prediction: −log p(x_{t+1} | x_{≤t}), summed over scored positions.
//!
//! A micro-batch divides its sum by the scored positions of the whole optimizer step, so that accumulated
//! gradients equal those of one big batch however the positions are spread.

use super::Task;
use super::output::{StepOutput, Sum};
use crate::data::loader::Batch;
use crate::kernel;
use crate::model::Decoder;
use crate::model::decoder::DecoderInput;
use crate::nn::Kind;
use crate::nn::pass::{Draws, Pass};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::{InferenceStep, TrainOutput, TrainStep};
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "causal_lm",
    summary: "next-token prediction with a decoder",
    source: "Bengio et al. 2003; Radford et al. 2018",
    example: "{ kind = \"causal_lm\" }",
};

/// The knobs of next-token prediction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CausalLmConfig {
    /// Share of the probability that is spread over the whole vocabulary (Szegedy et al. 2016); reported
    /// validation losses are without it.
    pub label_smoothing: f64,
}

/// A decoder with its objective.
#[derive(Module, Debug)]
pub struct CausalLm {
    /// The network.
    pub model: Decoder,
    seed: u64,
    label_smoothing: f64,
    exact_match: bool,
}

impl CausalLm {
    /// `seed` draws dropout; `exact_match` counts the rows whose scored positions are all right.
    pub fn new(model: Decoder, config: &CausalLmConfig, seed: u64, exact_match: bool) -> Self {
        Self {
            model,
            seed,
            label_smoothing: config.label_smoothing,
            exact_match,
        }
    }

    /// Logits `[rows·cols, vocab]` of a batch.
    fn logits(&self, batch: &Batch, device: &Device, pass: &Pass) -> Tensor<2> {
        let hidden = self.model.forward(input(batch, device), None, pass);
        let [rows, cols, _] = hidden.dims();
        let logits = self.model.logits(hidden);
        let vocab = logits.dims()[2];
        logits.reshape([rows * cols, vocab])
    }

    fn device(&self) -> Device {
        self.model.embedding.weight.val().device()
    }
}

/// The decoder's input from a batch of the host.
fn input(batch: &Batch, device: &Device) -> DecoderInput {
    let matrix = |values: Vec<i32>| -> Tensor<2, Int> {
        Tensor::from_data(TensorData::new(values, [batch.rows, batch.cols]), device)
    };
    DecoderInput {
        ids: matrix(batch.inputs.clone()),
        positions: batch
            .documents
            .as_ref()
            .map(|d| matrix(positions(d, batch.cols))),
        documents: batch.documents.clone().map(matrix),
    }
}

/// Positions counted from the start of each document of a row.
fn positions(documents: &[i32], cols: usize) -> Vec<i32> {
    let mut positions = Vec::with_capacity(documents.len());
    for row in documents.chunks(cols) {
        let mut start = 0;
        for (i, document) in row.iter().enumerate() {
            if i > 0 && row[i - 1] != *document {
                start = i;
            }
            positions.push((i - start) as i32);
        }
    }
    positions
}

fn targets(batch: &Batch, device: &Device) -> Tensor<1, Int> {
    let data = TensorData::new(batch.targets.clone(), [batch.rows * batch.cols]);
    Tensor::from_data(data, device)
}

fn scalar(x: Tensor<1>) -> f64 {
    f64::from(x.into_scalar::<f32>())
}

impl TrainStep for CausalLm {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> TrainOutput<StepOutput> {
        let device = self.device();
        let pass = Pass::training(Draws {
            seed: self.seed,
            step: batch.step,
            first_row: batch.first_row as u64,
        });
        let logits = self.logits(&batch, &device, &pass);
        let sum = kernel::cross_entropy_sum(logits, targets(&batch, &device), self.label_smoothing);
        let output = StepOutput {
            loss: Sum::new(scalar(sum.clone().detach()), batch.scored as f64),
            items: (batch.rows * batch.cols) as u64,
            ..StepOutput::default()
        };
        let loss = sum / batch.step_scored.max(1) as f64;
        TrainOutput::new(self, loss.backward(), output)
    }
}

impl InferenceStep for CausalLm {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> StepOutput {
        let device = self.device();
        let logits = self.logits(&batch, &device, &Pass::evaluation());
        let mut output = StepOutput {
            items: (batch.rows * batch.cols) as u64,
            ..StepOutput::default()
        };
        if self.exact_match {
            let best: Vec<i64> = logits.clone().argmax(1).into_data().iter::<i64>().collect();
            let (tokens, rows) = right(&best, &batch);
            output.metrics.insert("accuracy", tokens);
            output.metrics.insert("exact_match", rows);
        }
        let sum = kernel::cross_entropy_sum(logits, targets(&batch, &device), 0.0);
        output.loss = Sum::new(scalar(sum), batch.scored as f64);
        output
    }
}

/// Scored tokens that are the likeliest ones, and rows in which all are: a row is then what greedy
/// decoding gives.
fn right(best: &[i64], batch: &Batch) -> (Sum, Sum) {
    let (mut tokens, mut rows) = (Sum::default(), Sum::default());
    for (best, targets) in best
        .chunks(batch.cols)
        .zip(batch.targets.chunks(batch.cols))
    {
        let scored = || best.iter().zip(targets).filter(|(_, t)| **t >= 0);
        let hits = scored().filter(|(b, t)| **b == i64::from(**t)).count();
        let all = scored().count();
        tokens += Sum::new(hits as f64, all as f64);
        if all > 0 {
            rows += Sum::new(f64::from(u8::from(hits == all)), 1.0);
        }
    }
    (tokens, rows)
}

impl Task for CausalLm {}
