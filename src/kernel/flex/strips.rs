//! Helpers shared by the kernels that work on strips of channels: a strip is a range of adjacent channels, whose
//! positions one task processes in order.

use std::ops::Range;

use pulp::Simd;

use super::math::exp_below;
use super::simd::Vector;
use super::threads;
use crate::kernel::recurrent::{Sequences, Step};

/// Loads a register from `row[at..]`; lanes past the end are zero.
#[inline(always)]
pub fn load<S: Simd>(simd: S, row: &[f32], at: usize) -> Vector<S> {
    let rest = row.get(at..).unwrap_or_default();
    let lanes = match S::as_simd_f32s(rest).0.first() {
        Some(lanes) => *lanes,
        None => simd.partial_load_f32s(rest),
    };
    Vector::new(simd, lanes)
}

/// Stores a register to `row[at..]`, as far as the row goes.
#[inline(always)]
pub fn store<S: Simd>(simd: S, x: Vector<S>, row: &mut [f32], at: usize) {
    let rest = row.get_mut(at..).unwrap_or_default();
    if rest.len() < S::F32_LANES {
        simd.partial_store_f32s(rest, x.lanes());
    } else if let Some(place) = S::as_mut_simd_f32s(rest).0.first_mut() {
        *place = x.lanes();
    }
}

/// Returns a slice as whole registers.
#[inline(always)]
pub fn registers<S: Simd>(x: &[f32]) -> &[S::f32s] {
    S::as_simd_f32s(x).0
}

/// Returns a mutable slice as whole registers.
#[inline(always)]
pub fn registers_mut<S: Simd>(x: &mut [f32]) -> &mut [S::f32s] {
    S::as_mut_simd_f32s(x).0
}

/// ln(1 + eˣ), computed as max(x, 0) + 2·artanh(e/(2 + e)) with e = e^(−|x|), by eight terms of the series of artanh.
#[inline(always)]
pub fn softplus<S: Simd>(x: Vector<S>) -> Vector<S> {
    let e = exp_below(-x.abs());
    let s = e / (e + x.splat_like(2.0));
    let series = (s * s).polynomial([
        1.0 / 15.0,
        1.0 / 13.0,
        1.0 / 11.0,
        1.0 / 9.0,
        1.0 / 7.0,
        1.0 / 5.0,
        1.0 / 3.0,
        1.0,
    ]);
    let tail = (s + s) * series;
    (x.max(x.splat_like(0.0)) + tail).unless_nan(x)
}

/// The positions of one row of a batch.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    sequences: &'a Sequences,
    number: usize,
    seq: usize,
    /// Number of positions before the row's end.
    pub end: usize,
}

impl<'a> Row<'a> {
    /// Returns row `number` of a batch with `seq` positions per row.
    pub fn new(sequences: &'a Sequences, number: usize, seq: usize) -> Self {
        let lengths = sequences.lengths.as_ref();
        Self {
            sequences,
            number,
            seq,
            end: lengths.map_or(seq, |all| all[number].min(seq)),
        }
    }

    /// Returns whether a sequence begins at a position before the row's end.
    #[inline(always)]
    pub fn begins(&self, at: usize) -> bool {
        self.sequences.step(self.number, self.seq, at) == Step::Begin
    }

    /// Returns the row's chunks of `len` positions.
    pub fn chunks(
        &self,
        len: usize,
    ) -> impl DoubleEndedIterator<Item = Range<usize>> + ExactSizeIterator + use<> {
        let end = self.end;
        (0..end.div_ceil(len)).map(move |i| i * len..((i + 1) * len).min(end))
    }
}

/// Number of channels of a strip: several registers of each value are processed side by side.
pub const STRIP_WIDTH: usize = 64;

/// A range of channels of a row.
pub struct Strip {
    /// Index of the row.
    pub row: usize,
    /// Range of the channels.
    pub channels: Range<usize>,
}

impl Strip {
    /// Calls `work` for the strips of [`STRIP_WIDTH`] channels of each row of a `[batch, seq, channels]` tensor, on all
    /// threads if there are many elements.
    pub fn for_each_strip([batch, seq, channels]: [usize; 3], work: impl Fn(Self) + Sync) {
        let strips = channels.div_ceil(STRIP_WIDTH);
        let strip = |number: usize| {
            let first = number % strips * STRIP_WIDTH;
            Self {
                row: number / strips,
                channels: first..(first + STRIP_WIDTH).min(channels),
            }
        };
        let all = (0..batch * strips).map(strip);
        if batch * seq * channels <= SINGLE_THREAD_LEN {
            all.for_each(work);
        } else {
            threads::for_each(all, work);
        }
    }

    /// Returns the range of the strip's elements at a position in `[batch, seq, channels]`.
    #[inline(always)]
    pub fn place(&self, at: usize, [seq, channels]: [usize; 2]) -> Range<usize> {
        let first = (self.row * seq + at) * channels + self.channels.start;
        first..first + self.channels.len()
    }
}

/// Number of elements up to which a single thread does all the work.
const SINGLE_THREAD_LEN: usize = 8 * 1024;

/// Sums consecutive vectors of `len` elements, in their order.
pub fn sum_vectors(all: &[f32], len: usize) -> Vec<f32> {
    let mut sums = vec![0.0; len];
    for part in all.chunks_exact(len.max(1)) {
        sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    sums
}

/// Transposes a matrix `[rows, columns]`.
pub fn transpose(x: &[f32], [rows, columns]: [usize; 2]) -> Vec<f32> {
    let mut columns_first = Vec::with_capacity(rows * columns);
    for column in 0..columns {
        columns_first.extend((0..rows).map(|row| x[row * columns + column]));
    }
    columns_first
}

#[cfg(test)]
mod tests {
    use super::super::simd::{Elementwise, map};
    use super::*;

    #[derive(Clone, Copy)]
    struct Softplus;

    impl Elementwise<1> for Softplus {
        #[inline(always)]
        fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
            softplus(x)
        }
    }

    #[test]
    fn softplus_is_near_the_truth_on_both_sides() {
        let x: Vec<f32> = (-8000..=8000).map(|i| i as f32 * 0.01).collect();
        let mut y = vec![0.0; x.len()];
        map(Softplus, [&x], &mut y);
        for (x, y) in x.iter().zip(y) {
            let exact = f64::from(*x).exp().ln_1p();
            assert!(
                (f64::from(y) - exact).abs() <= 4e-7 * exact,
                "{x}: {y} for {exact}"
            );
        }
    }
}
