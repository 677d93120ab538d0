//! The state space by heads from plain tensor operations, one chunk of positions after the other, for devices without
//! kernels and as the reference for the kernels.

use burn::tensor::{Device, Tensor, TensorData};

use super::{CHUNK, Sizes, Ssd};
use crate::kernel::composed::softplus;
use crate::kernel::recurrent::{Sequences, Step};
use crate::kernel::replay;

/// Goes through all chunks of positions. Given the states `[batch, groups, n, channels/groups]` before the `len`
/// positions from `first` on, `advance` returns their outputs `[batch, len, channels]` and the states after them.
/// Returns the outputs of all positions and the last states `[batch, n·channels]`.
pub fn scan_chunks(
    sizes: Sizes,
    like: &Tensor<3>,
    state: Option<Tensor<2>>,
    mut advance: impl FnMut([usize; 2], Tensor<4>) -> (Tensor<3>, Tensor<4>),
) -> (Tensor<3>, Tensor<2>) {
    let Sizes {
        batch,
        seq,
        groups,
        n,
        ..
    } = sizes;
    let wide = sizes.channels() / groups;
    let mut state = match state {
        Some(state) => state.reshape([batch, n, groups, wide]).swap_dims(1, 2),
        None => Tensor::zeros([batch, groups, n, wide], (&like.device(), like.dtype())),
    };
    let mut outputs = Vec::with_capacity(seq.div_ceil(CHUNK));
    for first in (0..seq).step_by(CHUNK) {
        let (y, after) = advance([first, CHUNK.min(seq - first)], state);
        outputs.push(y);
        state = after;
    }
    let state = state.swap_dims(1, 2).reshape([batch, n * groups * wide]);
    (Tensor::cat(outputs, 1), state)
}

/// Same as the public function, but always returns the state.
pub fn ssd(ssd: Ssd, sequences: &Sequences) -> (Tensor<3>, Tensor<2>) {
    let sizes = ssd.sizes();
    let Sizes {
        batch, seq, heads, ..
    } = sizes;
    let (device, dtype) = (ssd.mixed.device(), ssd.mixed.dtype());
    let mut steps = softplus(ssd.raw);
    if let Some([least, most]) = ssd.limits {
        steps = steps.clamp_min(least);
        if most.is_finite() {
            steps = steps.clamp_max(most);
        }
    }
    if sequences.lengths.is_some() {
        // Past a row's length no step is taken.
        steps = steps * length_mask(sequences, [batch, seq], &device).cast(dtype);
    }
    let advance = |[first, len]: [usize; 2], state| {
        let marks = SequenceStarts::of(sequences, [batch, seq], [first, len]);
        let chunk = Chunk {
            sizes,
            mixed: ssd.mixed.clone().narrow(1, first, len),
            steps: steps.clone().narrow(1, first, len).swap_dims(1, 2),
            decay: ssd.decay.clone().reshape([1, heads, 1]),
            pairs: marks.pair_mask(&device).cast(dtype),
            old: marks.carried_mask(&device).cast(dtype),
        };
        chunk.advance(state, ssd.skip.clone())
    };
    let (mut y, state) = scan_chunks(sizes, &ssd.mixed, ssd.state.clone(), advance);
    if sequences.lengths.is_some() {
        y = y * length_mask(sequences, [batch, seq], &device).cast(dtype);
    }
    (y, state)
}

/// Returns 1 up to a row's length, 0 past it, `[batch, seq, 1]`.
pub fn length_mask(sequences: &Sequences, [batch, seq]: [usize; 2], device: &Device) -> Tensor<3> {
    let rows = (0..batch).flat_map(|row| {
        let step = move |at| sequences.step(row, seq, at) != Step::Hold;
        (0..seq).map(move |at| f32::from(u8::from(step(at))))
    });
    let rows = TensorData::new(rows.collect::<Vec<f32>>(), [batch, seq, 1]);
    replay::floats(rows, device)
}

/// For each position of a chunk, the number of sequences that have begun in its row since the chunk's beginning.
pub struct SequenceStarts {
    begun: Vec<usize>,
    shape: [usize; 2],
}

impl SequenceStarts {
    /// Counts for `len` positions from `first` on.
    pub fn of(sequences: &Sequences, [batch, seq]: [usize; 2], [first, len]: [usize; 2]) -> Self {
        let rows = (0..batch).flat_map(|row| {
            (first..first + len).scan(0, move |begun, at| {
                *begun += usize::from(sequences.step(row, seq, at) == Step::Begin);
                Some(*begun)
            })
        });
        Self {
            begun: rows.collect(),
            shape: [batch, len],
        }
    }

    /// Returns 1 where a position sees another one, that is, neither a later one nor one of another sequence,
    /// `[batch, 1, len, len]`.
    pub fn pair_mask(&self, device: &Device) -> Tensor<4> {
        let [batch, len] = self.shape;
        let mut pairs = Vec::with_capacity(batch * len * len);
        for row in self.begun.chunks(len) {
            for (t, own) in row.iter().enumerate() {
                let seen = row
                    .iter()
                    .enumerate()
                    .map(|(s, other)| s <= t && other == own);
                pairs.extend(seen.map(|seen| f32::from(u8::from(seen))));
            }
        }
        replay::floats(TensorData::new(pairs, [batch, 1, len, len]), device)
    }

    /// Returns 1 where the sequence is that of the state before the chunk, `[batch, 1, len]`.
    pub fn carried_mask(&self, device: &Device) -> Tensor<3> {
        let [batch, len] = self.shape;
        let old = self
            .begun
            .iter()
            .map(|begun| f32::from(u8::from(*begun == 0)));
        let old = TensorData::new(old.collect::<Vec<f32>>(), [batch, 1, len]);
        replay::floats(old, device)
    }
}

/// A chunk of positions, with H heads, G groups and states of N × P elements per head.
struct Chunk {
    sizes: Sizes,
    /// x, b and c, `[batch, len, H·P + 2·G·N]`.
    mixed: Tensor<3>,
    /// Steps Δ, `[batch, H, len]`.
    steps: Tensor<3>,
    /// a, `[1, H, 1]`.
    decay: Tensor<3>,
    /// Which positions see each other, `[batch, 1, len, len]`.
    pairs: Tensor<4>,
    /// Which positions see the state before the chunk, `[batch, 1, len]`.
    old: Tensor<3>,
}

impl Chunk {
    /// Returns y `[batch, len, H·P]` and the state `[batch, G, N, H/G·P]` after the chunk, given the state before it.
    fn advance(self, state: Tensor<4>, skip: Tensor<1>) -> (Tensor<3>, Tensor<4>) {
        let Sizes {
            batch,
            heads,
            d_head,
            groups,
            n,
            ..
        } = self.sizes;
        let (len, channels) = (self.mixed.dims()[1], self.sizes.channels());
        let (per, wide) = (heads / groups, channels / groups);
        let x = self.mixed.clone().narrow(2, 0, channels);
        let x = x.reshape([batch, len, heads, d_head]);
        let [b, c] = [0, 1].map(|part| {
            let part = channels + part * groups * n;
            let part = self.mixed.clone().narrow(2, part, groups * n);
            part.reshape([batch, len, groups, n]).swap_dims(1, 2)
        });
        let logarithms = self.steps.clone() * self.decay.clone();
        let decays = segment_sums(logarithms.clone()).exp() * self.pairs.clone();
        let since = logarithms.cumsum(2).exp() * self.old.clone();
        // For each step, the fraction that remains at the chunk's end.
        let left = decays.clone().narrow(2, len - 1, 1).squeeze_dim::<3>(2) * self.steps.clone();
        let scores = c.clone().matmul(b.clone().swap_dims(2, 3));
        let scores = scores
            .unsqueeze_dim::<5>(2)
            .expand([batch, groups, per, len, len]);
        let weights = scores.reshape([batch, heads, len, len]) * decays;
        let weights = weights * self.steps.clone().unsqueeze_dim::<4>(2);
        let inside = weights.matmul(x.clone().swap_dims(1, 2)).swap_dims(1, 2);
        let by_channel = |x: Tensor<3>| x.swap_dims(1, 2).unsqueeze_dim::<4>(3);
        let before = c.matmul(state.clone()).swap_dims(1, 2);
        let before = before.reshape([batch, len, heads, d_head]) * by_channel(since.clone());
        let y = inside + before + x.clone() * skip.reshape([1, 1, heads, 1]);
        let written = (x * by_channel(left)).reshape([batch, len, groups, wide]);
        let written = b.swap_dims(2, 3).matmul(written.swap_dims(1, 2));
        let kept = since
            .narrow(2, len - 1, 1)
            .reshape([batch, groups, 1, per, 1]);
        let kept = kept.expand([batch, groups, 1, per, d_head]);
        let kept = kept.reshape([batch, groups, 1, wide]);
        (y.reshape([batch, len, channels]), state * kept + written)
    }
}

/// Returns the sums over the positions after s up to t, `[batch, heads, t, s]`, of `[batch, heads, len]`; zeros
/// unless s is before t. It never takes differences of long sums.
pub fn segment_sums(x: Tensor<3>) -> Tensor<4> {
    let ([_, _, len], device, dtype) = (x.dims(), x.device(), x.dtype());
    let later = (0..len).flat_map(|r| (0..len).map(move |s| f32::from(u8::from(r > s))));
    let later = TensorData::new(later.collect::<Vec<f32>>(), [1, 1, len, len]);
    let later = replay::floats::<4>(later, &device).cast(dtype);
    (x.unsqueeze_dim::<4>(3) * later).cumsum(2)
}
