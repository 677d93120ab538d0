//! The keys and values of several consecutive chunks and of the neighbours in their windows, gathered once for all of
//! their tiles.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::{ChunkSizes, Problem, SELF_SCORE};
use crate::kernel::flex::buffer::{ScratchBuffer, scratch_buffer};
use crate::kernel::flex::product::Matrix;

/// Number of queries whose keys are gathered together.
const BLOCK_QUERIES: usize = 512;

/// Gathered keys and values. The window of a chunk starts at the chunk's own first place, counted from the first
/// chunk of the block.
pub(super) struct Block {
    positions: Vec<u32>,
    k: ScratchBuffer,
    v: ScratchBuffer,
    width: usize,
}

impl Block {
    /// Returns the number of chunks of a block.
    pub(super) fn chunks(sizes: &ChunkSizes) -> usize {
        let most = sizes.chunks().max(1);
        (BLOCK_QUERIES / sizes.chunk.max(1)).clamp(1, most)
    }

    /// Returns the maximum number of places of a block.
    pub(super) fn places(sizes: &ChunkSizes) -> usize {
        (Self::chunks(sizes) + sizes.back + sizes.ahead) * sizes.chunk
    }

    pub(super) fn new(problem: &Problem) -> Self {
        let [.., width] = problem.k.dims;
        let places = Self::places(&problem.sizes);
        Self {
            positions: Vec::with_capacity(places),
            k: scratch_buffer(places * width),
            v: scratch_buffer(places * width),
            width,
        }
    }

    /// Gathers the keys and values of these chunks and of their windows.
    pub(super) fn gather(
        &mut self,
        problem: &Problem,
        [row, head]: [usize; 2],
        chunks: Range<usize>,
    ) {
        let (sizes, plan) = (problem.sizes, &problem.settings.plan);
        let order = plan.order(row, head);
        self.positions.clear();
        for i in 0..chunks.len() + sizes.back + sizes.ahead {
            let chunk = plan.neighbour(chunks.start, i as isize - sizes.back as isize);
            let positions = &order[chunk * sizes.chunk..][..sizes.chunk];
            self.positions.extend_from_slice(positions);
        }
        for (x, out) in [(&problem.k, &mut self.k), (&problem.v, &mut self.v)] {
            let rows = x.rows(row, head, 0, sizes.tokens);
            let each = self.positions.iter().zip(out.chunks_exact_mut(self.width));
            for (position, out) in each {
                let position = *position as usize;
                if position < sizes.tokens {
                    out.copy_from_slice(&rows.data[position * rows.strides[0]..][..self.width]);
                } else {
                    out.fill(0.0);
                }
            }
        }
    }

    /// Returns the positions at `len` places from `from` on.
    pub(super) fn positions(&self, from: usize, len: usize) -> &[u32] {
        &self.positions[from..from + len]
    }

    /// Returns all positions.
    pub(super) fn all(&self) -> &[u32] {
        &self.positions
    }

    /// Returns the keys at `len` places from `from` on.
    pub(super) fn keys(&self, from: usize, len: usize) -> Matrix<'_> {
        Matrix::rows(&self.k[from * self.width..], [len, self.width])
    }

    /// Returns the values at `len` places from `from` on.
    pub(super) fn values(&self, from: usize, len: usize) -> Matrix<'_> {
        Matrix::rows(&self.v[from * self.width..], [len, self.width])
    }
}

/// Masks one row of scores: a query's score with itself becomes [`ALONE`], and keys from the limit on are masked.
pub(super) struct MaskRow<'a> {
    /// Position of the query.
    pub query: u32,
    /// First masked position.
    pub limit: u32,
    /// Positions of the keys.
    pub positions: &'a [u32],
    /// Scores of the keys.
    pub row: &'a mut [f32],
}

impl WithSimd for MaskRow<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self {
            query,
            limit,
            positions,
            row,
        } = self;
        for (score, position) in row.iter_mut().zip(positions) {
            let seen = if *position < limit {
                *score
            } else {
                f32::NEG_INFINITY
            };
            *score = if *position == query { SELF_SCORE } else { seen };
        }
    }
}
