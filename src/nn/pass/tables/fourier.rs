//! Matrices of discrete Fourier transforms.

use super::{is_usable_with, lock};
use crate::kernel::replay;
use crate::nn::pass::Pass;
use burn::tensor::{Device, Tensor, TensorData};
use std::f64::consts::TAU;

/// The Fourier transforms of texts: over the channels of a position, and over the positions of each text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FourierTransforms {
    channels: usize,
    seq: usize,
    /// Number of positions of each row; a single number if no row has padding.
    lengths: Vec<usize>,
}

/// Transforms together with their matrices.
pub(super) type CachedTransforms = (FourierTransforms, [Tensor<3>; 2]);

impl FourierTransforms {
    /// Describes the transforms of rows of `seq` positions; `lengths` gives each row's text length if some rows are padded.
    pub fn new(channels: usize, seq: usize, lengths: Option<&[usize]>) -> Self {
        let whole = |lengths: &&[usize]| lengths.iter().any(|n| *n < seq);
        Self {
            channels,
            seq,
            lengths: lengths
                .filter(whole)
                .map_or_else(|| vec![seq], <[usize]>::to_vec),
        }
    }

    /// Returns two matrices: the cosines over channels stacked on the sines, `[1, 2·channels, channels]`, and the cosines over
    /// positions beside the negative sines, `[rows or 1, seq, 2·seq]`, which are 0 at padding.
    pub fn matrices(&self, device: &Device) -> [Tensor<3>; 2] {
        let d = self.channels;
        let turn = UnitCircle::of(d);
        let cells = |of: fn(&UnitCircle, usize) -> f32| {
            let turn = &turn;
            (0..d * d).map(move |cell| of(turn, cell / d * (cell % d)))
        };
        let channels: Vec<f32> = cells(UnitCircle::cos)
            .chain(cells(UnitCircle::sin))
            .collect();
        let channels = TensorData::new(channels, [1, 2 * d, d]);
        let rows = self.lengths.len();
        let mut positions = Vec::with_capacity(rows * 2 * self.seq * self.seq);
        for length in &self.lengths {
            self.add_row(*length, &mut positions);
        }
        let positions = TensorData::new(positions, [rows, self.seq, 2 * self.seq]);
        [channels, positions].map(|data| replay::floats(data, device))
    }

    fn add_row(&self, length: usize, positions: &mut Vec<f32>) {
        let (seq, length) = (self.seq, length.min(self.seq));
        let turn = UnitCircle::of(length);
        for row in 0..seq {
            let cells = |of: fn(&UnitCircle, usize) -> f32, sign: f32| {
                let turn = &turn;
                (0..seq).map(move |column| match row < length && column < length {
                    true => sign * of(turn, row * column),
                    false => 0.0,
                })
            };
            positions.extend(cells(UnitCircle::cos, 1.0));
            positions.extend(cells(UnitCircle::sin, -1.0));
        }
    }
}

/// The cosines and sines of the n-th parts of a full turn. The product of two positions is reduced modulo n first, so that phases
/// are as exact for long texts as for short ones.
struct UnitCircle {
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl UnitCircle {
    fn of(n: usize) -> Self {
        let angle = |part: usize| TAU * part as f64 / n as f64;
        Self {
            cosines: (0..n).map(|part| angle(part).cos() as f32).collect(),
            sines: (0..n).map(|part| angle(part).sin() as f32).collect(),
        }
    }

    fn cos(&self, part: usize) -> f32 {
        self.cosines[part % self.cosines.len()]
    }

    fn sin(&self, part: usize) -> f32 {
        self.sines[part % self.sines.len()]
    }
}

impl Pass {
    /// Returns the matrices of these transforms for vectors like `x`, from the cache if the previous request was the same.
    pub fn transforms(&self, waves: FourierTransforms, x: &Tensor<3>) -> [Tensor<3>; 2] {
        let mut kept = lock(&self.tables.waves);
        if let Some((known, matrices)) = &*kept
            && *known == waves
            && is_usable_with(&matrices[0], x)
        {
            return matrices.clone();
        }
        let matrices = waves.matrices(&x.device());
        let matrices = matrices.map(|matrix| matrix.cast(x.dtype()));
        *kept = Some((waves, matrices.clone()));
        matrices
    }
}
