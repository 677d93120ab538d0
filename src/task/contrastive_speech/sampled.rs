//! The random choices of a pass, and their layout as tensors.

use super::ContrastiveSpeechConfig;
use crate::kernel::{self, replay};
use crate::model::speech_encoder::FeatureMasks;
use crate::nn::pass::Pass;
use crate::rng::Purpose;
use crate::task::host;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Fewest masked frames of a recording whose codes can be told apart.
const FEWEST_MASKED: usize = 2;

/// The random choices of a pass.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// The masks.
    pub masks: FeatureMasks,
    /// For each row and each of its masked frames, the compared masked frames, as numbers among the row's masked frames. Rows
    /// without comparisons do not count.
    pub negatives: Vec<Vec<Vec<usize>>>,
    /// For each row, standard Gumbel noise for each of its masked frames and each entry; `None` in evaluations.
    pub noise: Option<Vec<Vec<f32>>>,
}

impl Sampled {
    /// Draws the comparisons of masked frames, and noise in training.
    pub(super) fn draw(masks: FeatureMasks, config: &ContrastiveSpeechConfig, pass: &Pass) -> Self {
        let masked = masks.masked_frames();
        let negatives = pass.in_part("negatives", || {
            let rows = masked.iter().enumerate();
            rows.map(|(row, frames)| {
                let mut stream = pass.stream(Purpose::Sampled, row);
                let others = frames.len().saturating_sub(1);
                let mut other = |own: usize| {
                    let drawn = stream.below(others as u64) as usize;
                    drawn + usize::from(drawn >= own)
                };
                match frames.len() < FEWEST_MASKED {
                    true => Vec::new(),
                    false => (0..frames.len())
                        .map(|own| (0..config.negatives).map(|_| other(own)).collect())
                        .collect(),
                }
            })
            .collect()
        });
        let entries = config.codebooks * config.entries;
        let noise = pass.is_training().then(|| {
            pass.in_part("codes", || {
                let rows = masked.iter().enumerate();
                rows.map(|(row, frames)| {
                    let mut stream = pass.stream(Purpose::Sampled, row);
                    let mut gumbel = || -(-(stream.uniform().max(f32::MIN_POSITIVE)).ln()).ln();
                    (0..frames.len() * entries).map(|_| gumbel()).collect()
                })
                .collect()
            })
        });
        Self {
            masks,
            negatives,
            noise,
        }
    }
}

/// The masked frames of a batch, row by row, filled up to the row with most.
pub(super) struct Layout {
    /// Index of each frame among all frames of the batch, `[rows, width]`.
    places: Vec<i32>,
    /// Whether each is compared, `[rows, width]`.
    weights: Vec<f32>,
    /// For each, itself and the frames that it is compared with, `[rows, width, 1 + negatives]`.
    compared: Vec<i32>,
    rows: usize,
    width: usize,
    columns: usize,
    /// Number of frames that are compared.
    pub(super) masked: usize,
}

impl Layout {
    /// Lays out the choices of a pass over rows of `frames` frames.
    pub(super) fn new(sampled: &Sampled, frames: usize, negatives: usize) -> Self {
        let of_rows = sampled.masks.masked_frames();
        let (rows, columns) = (of_rows.len(), negatives + 1);
        let width = of_rows.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let mut layout = Self {
            places: vec![0; rows * width],
            weights: vec![0.0; rows * width],
            compared: vec![0; rows * width * columns],
            rows,
            width,
            columns,
            masked: 0,
        };
        for (row, (masked, others)) in of_rows.iter().zip(&sampled.negatives).enumerate() {
            for (number, frame) in masked.iter().enumerate() {
                let at = row * width + number;
                layout.places[at] = (row * frames + frame) as i32;
                let Some(others) = others.get(number) else {
                    continue;
                };
                layout.weights[at] = 1.0;
                layout.masked += 1;
                let columns = &mut layout.compared[at * columns..(at + 1) * columns];
                for (column, other) in columns.iter_mut().zip([&number].into_iter().chain(others)) {
                    *column = *other as i32;
                }
            }
        }
        layout
    }

    /// Gathers the masked frames of vectors `[rows, frames, d]`: `[rows, width, d]`.
    pub(super) fn gather(&self, x: Tensor<3>, device: &Device) -> Tensor<3> {
        let [rows, frames, d] = x.dims();
        let places = host::matrix(&self.places, self.width, device);
        kernel::embedding(x.reshape([rows * frames, d]), places)
    }

    /// 1 for frames that are compared and 0 for others, `[rows, width, 1]`.
    pub(super) fn weights(&self, device: &Device) -> Tensor<3> {
        let weights = TensorData::new(self.weights.clone(), [self.rows, self.width, 1]);
        replay::floats(weights, device)
    }

    /// Each masked frame and those that it is compared with, `[rows, width, 1 + negatives]`.
    pub(super) fn compared(&self, device: &Device) -> Tensor<3, Int> {
        let shape = [self.rows, self.width, self.columns];
        replay::integers(TensorData::new(self.compared.clone(), shape), device)
    }

    /// 0 for the frame itself and 1 for the others, `[1, 1, 1 + negatives]`, not tracked.
    pub(super) fn negative_columns(&self, device: &Device) -> Tensor<3> {
        let columns = (0..self.columns).map(|column| f32::from(u8::from(column > 0)));
        let columns = TensorData::new(columns.collect::<Vec<_>>(), [1, 1, self.columns]);
        kernel::untracked(replay::floats(columns, device))
    }

    /// The noise of masked frames, 0 for filled ones, `[rows, width, entries]`.
    pub(super) fn noise(&self, noise: &[Vec<f32>], entries: usize, device: &Device) -> Tensor<3> {
        let mut values = vec![0.0; self.rows * self.width * entries];
        for (row, own) in noise.iter().enumerate() {
            let begin = row * self.width * entries;
            values[begin..begin + own.len()].copy_from_slice(own);
        }
        replay::floats(
            TensorData::new(values, [self.rows, self.width, entries]),
            device,
        )
    }
}
