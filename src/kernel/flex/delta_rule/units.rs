//! Queries and keys of a chunk, normalised to length 1.

use pulp::Simd;

use super::Problem;
use crate::kernel::delta_rule::EPS;
use crate::kernel::flex::attention_rows::dot;
use crate::kernel::flex::buffer::{ScratchBuffer, scratch_buffer};
use crate::kernel::flex::chunk_scan::Task;
use crate::kernel::flex::chunks::{Chunk, scale_into};
use crate::kernel::flex::product::Matrix;
use crate::kernel::flex::simd::{Elementwise, Vector, map_in_place};
use crate::kernel::ssd::CHUNK;

/// The normalised queries or keys of a chunk, each multiplied by `factor`.
pub struct Units {
    /// The vectors, `[len, n]`.
    rows: ScratchBuffer,
    len: usize,
    n: usize,
    factor: f32,
    /// Inverse of each vector's original length.
    inverse: [f32; CHUNK],
}

impl Units {
    /// Normalises the queries, or with `part` 1 the keys; queries also include the factor 1/√n of scores.
    pub fn new(problem: &Problem, task: &Task, chunk: &Chunk, part: usize) -> Self {
        let (n, len) = (problem.layout.sizes.n, chunk.positions.len());
        let factor = match part {
            0 => (n as f32).sqrt().recip(),
            _ => 1.0,
        };
        let mut units = Self {
            rows: scratch_buffer(len * n),
            len,
            n,
            factor,
            inverse: [0.0; CHUNK],
        };
        let rows = units.rows.chunks_exact_mut(n).zip(&mut units.inverse);
        for ((row, inverse), at) in rows.zip(chunk.positions.clone()) {
            let x = &problem.inputs.mixed[problem.direction(task, at, part)];
            *inverse = (dot(x, x) + EPS as f32).sqrt().recip();
            scale_into(factor * *inverse, x, row);
        }
        units
    }

    /// Returns the vectors as a matrix `[len, n]`.
    pub fn matrix(&self) -> Matrix<'_> {
        Matrix::rows(&self.rows, [self.len, self.n])
    }

    /// Turns the gradients of the normalised vectors into those of the originals, in place.
    pub fn gradients(&self, of_rows: &mut [f32]) {
        let rows = of_rows.chunks_exact_mut(self.n);
        for ((of_row, row), inverse) in rows.zip(self.rows.chunks_exact(self.n)).zip(self.inverse) {
            let along = dot(of_row, row) / (self.factor * self.factor);
            let factor = self.factor * inverse;
            map_in_place(Mix([factor, -factor * along]), of_row, [row]);
        }
    }
}

/// The sum of two inputs, each times its factor.
#[derive(Clone, Copy)]
pub struct Mix(pub [f32; 2]);

impl Elementwise<2> for Mix {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x, y]: [Vector<S>; 2]) -> Vector<S> {
        let [own, other] = self.0;
        y.mul_add(y.splat_like(other), x * own)
    }
}
