//! Conversions shared by all tasks: from host batches to tensors, and from tensors to numbers.

use super::Scored;
use super::scored::Count;
use crate::data::NOT_SCORED;
use crate::data::batch::{
    Batch, CaptionedBatch, Content, ImageBatch, PairBatch, SpeechBatch, SpokenBatch, TextBatch,
};
use crate::evaluate::classification::Confusion;
use crate::evaluate::metric::ACCURACY;
use crate::kernel::{self, HeadLoss, replay};
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use std::cmp::Reverse;

/// Returns ids `[rows, cols]` as host data, ready for a device.
pub(super) fn matrix_data(values: &[i32], cols: usize) -> TensorData {
    TensorData::new(values.to_vec(), [values.len() / cols.max(1), cols])
}

/// Returns targets or labels `[n]` as host data, ready for a device.
pub(super) fn vector_data(values: &[i32]) -> TensorData {
    TensorData::new(values.to_vec(), [values.len()])
}

/// Returns ids `[rows, cols]`.
pub(super) fn matrix(values: &[i32], cols: usize, device: &Device) -> Tensor<2, Int> {
    replay::integers(matrix_data(values, cols), device)
}

/// Returns targets or labels `[n]`.
pub(super) fn vector(values: &[i32], device: &Device) -> Tensor<1, Int> {
    replay::integers(vector_data(values), device)
}

/// Returns the samples of recordings, `[rows, width]`.
pub(super) fn samples(speech: &SpeechBatch, device: &Device) -> Tensor<2> {
    let samples = TensorData::new(speech.features.clone(), [speech.rows, speech.width]);
    replay::floats(samples, device)
}

/// Returns the scored positions, counted through all rows, and their targets. If no position is scored, returns one
/// that is marked as not scored, since tensors must not be empty.
pub(super) fn scored_targets(targets: &[i32]) -> (Vec<i32>, Vec<i32>) {
    let scored = targets.iter().enumerate();
    let scored: (Vec<i32>, Vec<i32>) = scored
        .filter(|(_, target)| **target >= 0)
        .map(|(place, target)| (place as i32, *target))
        .unzip();
    match scored.0.is_empty() {
        true => (vec![0], vec![NOT_SCORED]),
        false => scored,
    }
}

/// Gathers hidden states `[1, n, d_model]` at some positions of `[rows, cols, d_model]`; positions are counted through
/// all rows.
pub(super) fn gather_at(hidden: Tensor<3>, positions: &[i32], device: &Device) -> Tensor<3> {
    let [rows, cols, d] = hidden.dims();
    let places = matrix(positions, positions.len(), device);
    kernel::embedding(hidden.reshape([rows * cols, d]), places)
}

/// Returns the label smoothing of a pass: labels are only smoothed in training, since an evaluation measures the
/// likelihood of the actual text.
pub(super) fn smoothing(training: f64, pass: &Pass) -> f64 {
    match pass.is_training() {
        true => training,
        false => 0.0,
    }
}

/// Counts the scored positions that a head predicts right; positions with a target below 0 are not scored.
pub(super) fn count_right(loss: &HeadLoss, targets: &[i32]) -> Count {
    Count {
        sum: loss.is_correct.clone().sum(),
        of: targets.iter().filter(|t| **t >= 0).count() as f64,
    }
}

/// Scores texts that are written after a source; an evaluation adds the share of tokens that are predicted right.
pub(super) fn score_written(loss: HeadLoss, targets: &[i32], batch: &Batch, pass: &Pass) -> Scored {
    let accuracy = (!pass.is_training()).then(|| count_right(&loss, targets));
    let scored = Scored::new(loss.sum, batch.tokens as u64);
    match accuracy {
        Some(accuracy) => scored.with_count(ACCURACY, accuracy),
        None => scored,
    }
}

/// Counts the scored rows `[n, classes]` whose highest logit is at the target; rows with a target below 0 are not
/// scored.
pub(super) fn count_hits(scores: &Tensor<2>, targets: &[i32]) -> Count {
    let best = kernel::untracked(scores.clone()).argmax(1);
    // No class has an index below 0.
    let targets_there = matrix(targets, 1, &best.device());
    let hits = best.equal(targets_there).int().sum();
    Count {
        sum: hits.cast(FloatDType::F32),
        of: targets.iter().filter(|t| **t >= 0).count() as f64,
    }
}

/// Returns the confusion matrix of the predicted class of each row `[rows, classes]`.
pub(super) fn confusion(scores: &Tensor<2>, labels: &[i32]) -> Confusion {
    let [_, classes] = scores.dims();
    let mut confusion = Confusion::new((0..classes).map(|n| n.to_string()).collect());
    let best = kernel::read(kernel::untracked(scores.clone()).argmax(1));
    for (best, label) in best.iter::<i64>().zip(labels) {
        confusion.add(*label as usize, best as usize);
    }
    confusion
}

/// Selects the longest row, up to its length, for diagnostics of attention: causal masks do not tell text from padding.
pub(super) fn longest_row(lengths: impl Iterator<Item = usize>) -> ProbeSample {
    let longest = lengths
        .enumerate()
        .max_by_key(|(row, length)| (*length, Reverse(*row)));
    longest.map_or_else(ProbeSample::default, |(row, length)| ProbeSample {
        row,
        length: Some(length),
        within: "",
    })
}

const CHECKED: &str = "tasks and data are matched before a run begins";

/// Returns the texts of a batch.
pub(super) fn texts(batch: &Batch) -> &TextBatch {
    match &batch.content {
        Content::Text(content) => content,
        Content::Pairs(_) | Content::Images(_) | Content::Captioned(_) | Content::Spoken(_) => {
            unreachable!("{CHECKED}")
        }
    }
}

/// Returns the pairs of a batch.
pub(super) fn pairs(batch: &Batch) -> &PairBatch {
    match &batch.content {
        Content::Pairs(content) => content,
        Content::Text(_) | Content::Images(_) | Content::Captioned(_) | Content::Spoken(_) => {
            unreachable!("{CHECKED}")
        }
    }
}

/// Returns the images of a batch.
pub(super) fn images(batch: &Batch) -> &ImageBatch {
    match &batch.content {
        Content::Images(content) => content,
        Content::Text(_) | Content::Pairs(_) | Content::Captioned(_) | Content::Spoken(_) => {
            unreachable!("{CHECKED}")
        }
    }
}

/// Returns the images of a batch with their captions.
pub(super) fn captioned(batch: &Batch) -> &CaptionedBatch {
    match &batch.content {
        Content::Captioned(content) => content,
        Content::Text(_) | Content::Pairs(_) | Content::Images(_) | Content::Spoken(_) => {
            unreachable!("{CHECKED}")
        }
    }
}

/// Returns the recordings of a batch with their transcripts.
pub(super) fn spoken(batch: &Batch) -> &SpokenBatch {
    match &batch.content {
        Content::Spoken(content) => content,
        Content::Text(_) | Content::Pairs(_) | Content::Images(_) | Content::Captioned(_) => {
            unreachable!("{CHECKED}")
        }
    }
}
