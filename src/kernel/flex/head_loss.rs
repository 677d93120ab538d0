//! The loss over a vocabulary straight from hidden states. The logits of some rows are computed at a time, then their
//! loss and, while they are in cache, their contribution to the gradients. The whole `[positions, vocab]` never
//! exists, forward or backward.

use std::borrow::Cow;

use burn_flex::{Flex, FlexTensor};

use super::buffer::{contiguous, dims, slice, tensor, zeros};
use super::cross_entropy::{Scored, integers, score_rows};
use super::linear::sum_of_rows;
use super::product::{Matrix, WriteMode, product, product_new, product_plus_row};
use super::simd::map_in_place;
use crate::kernel::IGNORE_INDEX;
use crate::kernel::extension::HeadLossSaved;

/// Number of logits that exist at a time, 8 MiB, if that gives enough rows for a product.
const MAX_LOGITS: usize = 1 << 21;
/// Minimum number of rows of a product: the head is copied for each tile, in both directions.
const MIN_ROWS: usize = 256;

/// Hidden states, the head and the targets of one call.
pub struct Problem {
    hidden: FlexTensor,
    weight: FlexTensor,
    bias: Option<FlexTensor>,
    targets: Vec<i64>,
    smoothing: f64,
}

/// The scored positions: their indices, their hidden states row after row, and their targets.
struct Rows<'a> {
    places: Vec<usize>,
    hidden: Cow<'a, [f32]>,
    targets: Cow<'a, [i64]>,
}

/// Gradients of the summed loss by the scored positions' hidden states and by the head.
struct Gradients {
    hidden: Vec<f32>,
    /// Created by the first tile.
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl Problem {
    /// Wraps hidden `[positions, d]`, weight `[vocab, d]`, bias `[vocab]` and targets `[positions]`.
    pub fn new(
        hidden: FlexTensor,
        weight: FlexTensor,
        bias: Option<FlexTensor>,
        targets: FlexTensor,
        smoothing: f64,
    ) -> Self {
        Self {
            hidden: contiguous(hidden),
            weight: contiguous(weight),
            bias: bias.map(contiguous),
            targets: integers(targets),
            smoothing,
        }
    }

    /// Returns the numbers of positions, width and vocabulary.
    fn sizes(&self) -> [usize; 3] {
        let [positions, d] = dims(&self.hidden);
        let [vocab, inner] = dims(&self.weight);
        assert_eq!(inner, d, "the head's width is that of the hidden states");
        assert_eq!(self.targets.len(), positions, "one target per position");
        [positions, d, vocab]
    }

    /// Returns the head as `[d, vocab]`.
    fn head(&self) -> Matrix<'_> {
        Matrix::rows(slice(&self.weight), dims(&self.weight)).transposed()
    }

    fn scored(&self, d: usize) -> Rows<'_> {
        let all = self.targets.iter().enumerate();
        let places: Vec<usize> = all
            .filter(|(_, t)| **t != IGNORE_INDEX)
            .map(|(i, _)| i)
            .collect();
        if places.len() == self.targets.len() {
            return Rows {
                places,
                hidden: slice(&self.hidden).into(),
                targets: self.targets.as_slice().into(),
            };
        }
        let row = |i: &usize| &slice(&self.hidden)[i * d..(i + 1) * d];
        let mut hidden = Vec::with_capacity(places.len() * d);
        places.iter().for_each(|i| hidden.extend_from_slice(row(i)));
        Rows {
            hidden: hidden.into(),
            targets: places.iter().map(|i| self.targets[*i]).collect(),
            places,
        }
    }

    /// Returns loss and hits of the scored rows; adds to `gradients` if they are given.
    fn run(&self, rows: &Rows, mut gradients: Option<&mut Gradients>) -> Vec<Scored> {
        let [_, d, vocab] = self.sizes();
        let (count, head) = (rows.places.len(), self.head());
        let tile = (MAX_LOGITS / vocab.max(1) / MIN_ROWS * MIN_ROWS).max(MIN_ROWS);
        let mut buffer = zeros(tile.min(count) * vocab);
        let mut all = Vec::with_capacity(count);
        for first in (0..count).step_by(tile) {
            let n = tile.min(count - first);
            let hidden = Matrix::rows(&rows.hidden[first * d..(first + n) * d], [n, d]);
            let scores = &mut buffer[..n * vocab];
            match &self.bias {
                None => product(scores, hidden, head, WriteMode::REPLACE),
                Some(bias) => product_plus_row(scores, hidden, head, slice(bias)),
            }
            let targets = &rows.targets[first..first + n];
            all.extend(score_rows(scores, vocab, targets, self.smoothing));
            if let Some(gradients) = &mut gradients {
                self.add(gradients, (first, hidden), scores);
            }
        }
        all
    }

    /// Adds a tile's contribution; `scores` has already been overwritten by the gradients of the logits.
    fn add(&self, to: &mut Gradients, (first, hidden): (usize, Matrix), scores: &[f32]) {
        let [n, d] = hidden.shape;
        let vocab = scores.len() / n;
        let scores = Matrix::rows(scores, [n, vocab]);
        let rows = &mut to.hidden[first * d..(first + n) * d];
        product(rows, scores, self.head().transposed(), WriteMode::REPLACE);
        match first {
            0 => to.weight = product_new(scores.transposed(), hidden, None),
            _ => product(&mut to.weight, scores.transposed(), hidden, WriteMode::ADD),
        }
        if let Some(bias) = &mut to.bias {
            map_in_place(super::linear::Sum, bias, [&sum_of_rows(scores.data, vocab)]);
        }
    }

    /// Returns the sum of the losses, followed by 1 for every position whose target has the highest logit and 0 for
    /// others.
    fn result(&self, rows: &Rows, scored: &[Scored]) -> FlexTensor {
        let sum: f64 = scored.iter().map(|s| f64::from(s.loss)).sum();
        let mut out = vec![0.0; self.targets.len() + 1];
        out[0] = sum as f32;
        for (place, scored) in rows.places.iter().zip(scored) {
            out[place + 1] = f32::from(u8::from(scored.hit));
        }
        let len = out.len();
        tensor(out, [len])
    }
}

/// Returns the loss and hits, `[1 + positions]`.
pub fn forward(problem: &Problem) -> FlexTensor {
    let [_, d, _] = problem.sizes();
    let rows = problem.scored(d);
    let scored = problem.run(&rows, None);
    problem.result(&rows, &scored)
}

/// Returns the same with the gradients of the sum.
pub fn saving(problem: &Problem) -> HeadLossSaved<Flex> {
    let [positions, d, vocab] = problem.sizes();
    let rows = problem.scored(d);
    let mut gradients = Gradients {
        hidden: zeros(rows.hidden.len()),
        weight: if rows.places.is_empty() {
            vec![0.0; d * vocab]
        } else {
            Vec::new()
        },
        bias: problem.bias.as_ref().map(|_| vec![0.0; vocab]),
    };
    let scored = problem.run(&rows, Some(&mut gradients));
    let out = problem.result(&rows, &scored);
    let hidden = if rows.places.len() == positions {
        gradients.hidden
    } else {
        let mut hidden = vec![0.0; positions * d];
        for (place, row) in rows
            .places
            .iter()
            .zip(gradients.hidden.chunks_exact(d.max(1)))
        {
            hidden[place * d..(place + 1) * d].copy_from_slice(row);
        }
        hidden
    };
    HeadLossSaved {
        out,
        hidden: tensor(hidden, [positions, d]),
        weight: tensor(gradients.weight, dims::<2>(&problem.weight)),
        bias: gradients.bias.map(|bias| tensor(bias, [vocab])),
    }
}
