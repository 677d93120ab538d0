//! Queries of a chunk with their output gradients.

use std::ops::Range;

use super::backward::BackwardArgs;
use super::features::row_of;
use super::forward::numbers_of;
use super::sums::{Affine, Keys, PlusTimes, Sums};
use super::{CHUNK, Problem};
use crate::kernel::flex::attention_rows::dot;
use crate::kernel::flex::product::{Matrix, WriteMode, product};
use crate::kernel::flex::simd::map_in_place;

/// Queries of a chunk and one head, with their output gradients.
pub struct ChunkQueries {
    /// Number of queries.
    pub len: usize,
    features: Vec<f32>,
    /// u of each query.
    pub shares: [f32; CHUNK],
    /// g' of each query, `[len, E + 1]`.
    grads: Vec<f32>,
    /// γ of each query, `[len, E + 1]`.
    scaled: Vec<f32>,
    width: [usize; 2],
}

impl ChunkQueries {
    /// Allocates memory for a chunk.
    pub fn new(problem: &Problem) -> Self {
        let width = [problem.map.width, problem.width()];
        Self {
            len: 0,
            features: vec![0.0; CHUNK * width[0]],
            shares: [0.0; CHUNK],
            grads: vec![0.0; CHUNK * width[1]],
            scaled: vec![0.0; CHUNK * width[1]],
            width,
        }
    }

    /// Reads the queries of a row and head.
    pub fn read(&mut self, work: &BackwardArgs, [row, head]: [usize; 2], queries: Range<usize>) {
        let problem = work.problem;
        let [_, heads, positions, _] = problem.q.dims;
        let (first, [wide, width]) = (queries.start, self.width);
        self.len = queries.len();
        let q = problem.q.rows(row, head, first, self.len);
        let features = &mut self.features[..self.len * wide];
        let shares = &mut self.shares[..self.len];
        problem.map.of_queries(q, features, shares);
        let kv_heads = problem.kv_heads();
        let kv_head = head / (heads / kv_heads);
        let totals = numbers_of(work.totals, [row, head], [heads, positions]);
        let bounds = numbers_of(work.bounds, [row, kv_head], [kv_heads, positions]);
        let grad = work.grad.rows(row, head, first, self.len);
        let out = work.out.rows(row, head, first, self.len);
        let exponential = problem.map.exponential().is_some();
        let rows = self.grads.chunks_exact_mut(width);
        let rows = rows.zip(self.scaled.chunks_exact_mut(width));
        for (i, (to, scaled)) in rows.enumerate().take(self.len) {
            let (grad, out) = (row_of(grad, i), row_of(out, i));
            let total = totals[first + i];
            let share = if total == 0.0 { 0.0 } else { 1.0 / total };
            to[..width - 1].copy_from_slice(grad);
            to[width - 1] = -dot(grad, out);
            map_in_place(Affine(share, 0.0), to, []);
            scaled.copy_from_slice(to);
            if exponential {
                let factor = (-bounds[first + i]).exp();
                map_in_place(Affine(factor, 0.0), scaled, []);
            }
        }
    }

    /// Returns the features, `[len, features]`.
    pub fn features(&self) -> Matrix<'_> {
        let [wide, _] = self.width;
        Matrix::rows(&self.features[..self.len * wide], [self.len, wide])
    }

    /// Returns γ, `[len, E + 1]`.
    pub fn scaled(&self) -> Matrix<'_> {
        let [_, width] = self.width;
        Matrix::rows(&self.scaled[..self.len * width], [self.len, width])
    }

    /// Returns g' of a query.
    pub fn grad(&self, query: usize) -> &[f32] {
        let [_, width] = self.width;
        &self.grads[query * width..][..width]
    }

    /// Computes the gradients γ·v' of weights, `[len, keys]`; 0 for a key later than the query.
    pub fn of_weights(&self, keys: &Keys, out: &mut [f32]) {
        product(
            out,
            self.scaled(),
            keys.values().transposed(),
            WriteMode::TILE,
        );
        mask_later_keys(out, keys.len);
    }

    /// Adds all queries to sums.
    pub fn add_to(&self, sums: &mut Sums, exponential: bool) {
        sums.add_rows(self.scaled().data, self.features().data, self.len);
        if exponential {
            for query in 0..self.len {
                let share = PlusTimes(self.shares[query]);
                map_in_place(share, &mut sums.plain, [self.grad(query)]);
            }
        }
    }
}

/// Sets the weights of keys that are later than their query to zero.
pub fn mask_later_keys(weights: &mut [f32], keys: usize) {
    for (query, row) in weights.chunks_exact_mut(keys).enumerate() {
        row[(query + 1).min(keys)..].fill(0.0);
    }
}
