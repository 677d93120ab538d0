//! The scores and hidden states of one pass, from which a task's own loss and those against a teacher are made.

use crate::data::batch::{Batch, Content};
use crate::data::images::normalise::Renormalise;
use crate::nn::pass::Pass;
use crate::task::{Over, Scored};
use burn::tensor::{Device, Tensor, TensorData};

/// A task that can be a teacher, and a student.
pub trait Distils {
    /// The outputs of a batch. Teacher and student of one batch have rows of scores at the same positions.
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs;

    /// The outputs of a batch whose pixels are turned into another normalisation first. What reads no pixels has none to turn.
    fn outputs_of(&self, batch: &Batch, _pixels: &Renormalise, pass: &Pass) -> Outputs {
        self.outputs(batch, pass)
    }

    /// The task's own loss in training, from outputs of the same batch.
    fn own(&self, outputs: &Outputs, batch: &Batch, pass: &Pass) -> Scored;
}

/// The outputs of a pass.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// Scores `[n, vocab]` at the scored positions, row by row, or `[rows, classes]`. Where no position is scored, one row
    /// that counts nothing.
    pub scores: Tensor<2>,
    /// Scores `[rows, classes]` of the head that a teacher teaches, when it is not the one of [`Self::scores`].
    pub taught: Option<Tensor<2>>,
    /// Scores of pairs of segments `[rows, 2]`.
    pub pairs: Option<Tensor<2>>,
    /// Last hidden states `[rows, cols, d_model]`; of images the one vector that stands for each, `[rows, 1, d_model]`.
    pub hidden: Tensor<3>,
}

impl Outputs {
    /// The scores of a trained network: the mean of both heads where there are two.
    pub(super) fn together(self) -> Tensor<2> {
        match self.taught {
            Some(taught) => (self.scores + taught) / 2.0,
            None => self.scores,
        }
    }
}

/// The positions of [`Outputs::hidden`] that count: 1 for each that does, `[rows·cols]`, none when all do; and what a sum
/// over them is divided by. Of texts these are all tokens that are read, of pairs the target's.
pub(super) fn counted(batch: &Batch, cols: usize) -> (Option<Vec<f32>>, Over) {
    let flag = |counts: bool| if counts { 1.0 } else { 0.0 };
    match &batch.content {
        Content::Text(texts) => {
            let flags = texts.lengths.as_ref().map(|lengths| {
                let rows = lengths
                    .iter()
                    .map(|n| (0..cols).map(move |col| flag(col < *n)));
                rows.flatten().collect()
            });
            (flags, Over::Tokens)
        }
        Content::Pairs(pairs) => {
            let flags = pairs.targets.iter().map(|target| flag(*target >= 0));
            (Some(flags.collect()), Over::Scored)
        }
        Content::Images(_) | Content::Captioned(_) | Content::Spoken(_) => (None, Over::Rows),
    }
}

/// Flags or weights as a tensor `[n]`.
pub(super) fn tensor(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let shape = [values.len()];
    Tensor::from_data(TensorData::new(values, shape), device)
}
