//! Logits and hidden states of one pass, from which a task's own loss and the losses against a teacher are computed.

use crate::data::batch::{Batch, Content};
use crate::data::images::normalise::Renormalise;
use crate::nn::pass::Pass;
use crate::task::{Divisor, Scored};
use burn::tensor::{Device, Tensor, TensorData};

/// A task that can be a teacher and a student.
pub trait Distillable {
    /// Computes the outputs of a batch. Teacher and student return logits at the same positions of the batch.
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs;

    /// Computes the outputs of a batch after converting its pixels to another normalisation. A task that reads no
    /// pixels ignores the conversion.
    fn outputs_renormalised(&self, batch: &Batch, _pixels: &Renormalise, pass: &Pass) -> Outputs {
        self.outputs(batch, pass)
    }

    /// Computes the task's own training loss from outputs of the same batch.
    fn own_loss(&self, outputs: &Outputs, batch: &Batch, pass: &Pass) -> Scored;
}

/// The outputs of a pass.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// Logits `[n, vocab]` at the scored positions, row by row, or `[rows, classes]`. If no position is scored, one
    /// placeholder row that must not count.
    pub scores: Tensor<2>,
    /// Logits `[rows, classes]` of the distillation head, if it differs from the head of [`Self::scores`].
    pub distilled_scores: Option<Tensor<2>>,
    /// Logits of segment pairs `[rows, 2]`.
    pub pairs: Option<Tensor<2>>,
    /// Last hidden states `[rows, cols, d_model]`; for images the pooled features, `[rows, 1, d_model]`.
    pub hidden: Tensor<3>,
}

impl Outputs {
    /// Returns the logits of a trained network: the mean of both heads if there are two.
    pub(super) fn mean_logits(self) -> Tensor<2> {
        match self.distilled_scores {
            Some(taught) => (self.scores + taught) / 2.0,
            None => self.scores,
        }
    }
}

/// Returns flags `[rows·cols]` of the positions of [`Outputs::hidden`] that count, `None` if all do, and the divisor of
/// a sum over them. For texts all tokens that are read count; for pairs, those of the target.
pub(super) fn counted_positions(batch: &Batch, cols: usize) -> (Option<Vec<f32>>, Divisor) {
    let flag = |counts: bool| if counts { 1.0 } else { 0.0 };
    match &batch.content {
        Content::Text(texts) => {
            let flags = texts.lengths.as_ref().map(|lengths| {
                let rows = lengths
                    .iter()
                    .map(|n| (0..cols).map(move |col| flag(col < *n)));
                rows.flatten().collect()
            });
            (flags, Divisor::Tokens)
        }
        Content::Pairs(pairs) => {
            let flags = pairs.targets.iter().map(|target| flag(*target >= 0));
            (Some(flags.collect()), Divisor::Scored)
        }
        Content::Images(_) | Content::Captioned(_) | Content::Spoken(_) => (None, Divisor::Rows),
    }
}

/// Returns flags or weights as a tensor `[n]`.
pub(super) fn tensor(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let shape = [values.len()];
    Tensor::from_data(TensorData::new(values, shape), device)
}
