//! The delta rule from plain tensor operations, one chunk of positions after the other, for devices without kernels
//! and as the reference for the kernels.

use burn::tensor::{Device, Tensor, TensorData};

use super::{DeltaRule, EPS, Sizes};
use crate::kernel::recurrent::Sequences;
use crate::kernel::replay;
use crate::kernel::ssd::composed::{SequenceStarts, length_mask, scan_chunks, segment_sums};

/// Same as the public function, but always returns the state.
pub fn delta_rule(rule: DeltaRule, sequences: &Sequences) -> (Tensor<3>, Tensor<2>) {
    let sizes = rule.sizes();
    let Sizes { batch, seq, .. } = sizes;
    let (device, dtype) = (rule.mixed.device(), rule.mixed.dtype());
    let live = sequences
        .lengths
        .is_some()
        .then(|| length_mask(sequences, [batch, seq], &device).cast(dtype));
    // Past a row's length nothing is written and nothing decays.
    let held = |x: Tensor<3>| match &live {
        Some(live) => x * live.clone(),
        None => x,
    };
    let beta = held(rule.beta.clone());
    let decay = rule.decay.clone();
    let decay = held(decay.unwrap_or_else(|| rule.beta.zeros_like()));
    let advance = |[first, len]: [usize; 2], state| {
        let marks = SequenceStarts::of(sequences, [batch, seq], [first, len]);
        let by_heads = |x: &Tensor<3>| x.clone().narrow(1, first, len).swap_dims(1, 2);
        let chunk = Chunk {
            sizes,
            mixed: rule.mixed.clone().narrow(1, first, len),
            beta: by_heads(&beta),
            decay: by_heads(&decay),
            pairs: marks.pair_mask(&device).cast(dtype),
            old: marks.carried_mask(&device).cast(dtype),
        };
        chunk.advance(state)
    };
    let (y, state) = scan_chunks(sizes, &rule.mixed, rule.state.clone(), advance);
    (held(y), state)
}

/// Scales vectors to length `factor`.
fn units(x: Tensor<4>, factor: f64) -> Tensor<4> {
    let squares = x.clone().square().sum_dim(3) + EPS;
    x * (squares.sqrt().recip() * factor)
}

/// A chunk of positions, with H heads, G key heads and states of K × V elements per head.
struct Chunk {
    sizes: Sizes,
    /// Queries, keys and values, `[batch, len, 2·G·K + H·V]`.
    mixed: Tensor<3>,
    /// β, `[batch, H, len]`.
    beta: Tensor<3>,
    /// Logarithms of the decays, `[batch, H, len]`.
    decay: Tensor<3>,
    /// Which positions see each other, `[batch, 1, len, len]`.
    pairs: Tensor<4>,
    /// Which positions see the state before the chunk, `[batch, 1, len]`.
    old: Tensor<3>,
}

impl Chunk {
    /// Returns the queries, or with `part` 1 the keys, `[batch, G, len, K]`.
    fn directions(&self, part: usize, factor: f64) -> Tensor<4> {
        let Sizes { groups, n, .. } = self.sizes;
        let [batch, len, _] = self.mixed.dims();
        let x = self.mixed.clone().narrow(2, part * groups * n, groups * n);
        units(x.reshape([batch, len, groups, n]).swap_dims(1, 2), factor)
    }

    /// Repeats the elements of each key head for each of its heads: `[batch, G, len, x]` to `[batch, H, len, x]`.
    fn for_heads(&self, x: Tensor<4>) -> Tensor<4> {
        let Sizes { heads, groups, .. } = self.sizes;
        let [batch, _, len, width] = x.dims();
        let x = x.unsqueeze_dim::<5>(2);
        let x = x.expand([batch, groups, heads / groups, len, width]);
        x.reshape([batch, heads, len, width])
    }

    /// Splits the channels of each key head by head: `[batch, G, len, H/G·V]` to `[batch, H, len, V]`.
    fn by_heads(&self, x: Tensor<4>) -> Tensor<4> {
        let Sizes {
            heads,
            d_head,
            groups,
            ..
        } = self.sizes;
        let [batch, _, len, _] = x.dims();
        let x = x.reshape([batch, groups, len, heads / groups, d_head]);
        x.swap_dims(2, 3).reshape([batch, heads, len, d_head])
    }

    /// Returns o `[batch, len, H·V]` and the state `[batch, G, K, H/G·V]` after the chunk, given the state before it.
    fn advance(self, state: Tensor<4>) -> (Tensor<3>, Tensor<4>) {
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
        let q = self.directions(0, (n as f64).sqrt().recip());
        let k = self.directions(1, 1.0);
        let values = self.mixed.clone().narrow(2, 2 * groups * n, channels);
        let values = values.reshape([batch, len, heads, d_head]).swap_dims(1, 2);
        let decays = segment_sums(self.decay.clone()).exp() * self.pairs.clone();
        let since = self.decay.clone().cumsum(2).exp() * self.old.clone();
        // For each position, the fraction that remains at the chunk's end.
        let left = decays.clone().narrow(2, len - 1, 1).swap_dims(2, 3);
        let beta = self.beta.clone().unsqueeze_dim::<4>(3);
        let column = since.clone().unsqueeze_dim::<4>(3);
        let weighed = |x: Tensor<4>| {
            let scores = x.matmul(k.clone().swap_dims(2, 3));
            self.for_heads(scores) * decays.clone()
        };
        let found = |x: Tensor<4>| self.by_heads(x.matmul(state.clone())) * column.clone();
        let inverse = inverse(weighed(k.clone()) * beta.clone());
        let corrections = inverse.matmul((values - found(k.clone())) * beta);
        let y = found(q.clone()) + weighed(q).matmul(corrections.clone());
        let written = (corrections * left).reshape([batch, groups, per, len, d_head]);
        let written = written.swap_dims(2, 3).reshape([batch, groups, len, wide]);
        let kept = since
            .narrow(2, len - 1, 1)
            .reshape([batch, groups, 1, per, 1]);
        let kept = kept.expand([batch, groups, 1, per, d_head]);
        let kept = kept.reshape([batch, groups, 1, wide]);
        let state = state * kept + k.swap_dims(2, 3).matmul(written);
        (y.swap_dims(1, 2).reshape([batch, len, channels]), state)
    }
}

/// Returns (I + A)⁻¹, where A is the part of `[batch, heads, len, len]` below the diagonals. Each block is computed
/// from blocks half as large, [[X, 0], [−Y A X, Y]]. The equivalent series in powers of A would suffer from
/// cancellation.
fn inverse(a: Tensor<4>) -> Tensor<4> {
    let ([_, _, len, _], device, dtype) = (a.dims(), a.device(), a.dtype());
    let mask = |holds: &dyn Fn(usize, usize) -> bool, device: &Device| {
        let places = (0..len).flat_map(|t| (0..len).map(move |s| (t, s)));
        let numbers = places.map(|(t, s)| f32::from(u8::from(holds(t, s))));
        let numbers = TensorData::new(numbers.collect::<Vec<f32>>(), [1, 1, len, len]);
        replay::floats::<4>(numbers, device).cast(dtype)
    };
    let identity = mask(&|t, s| t == s, &device);
    let mut inverse = identity.expand(a.dims());
    let mut block = 1;
    while block < len {
        let joins = |t: usize, s: usize| {
            let (t, s) = (t / block, s / block);
            t % 2 == 1 && s + 1 == t
        };
        let joined = a.clone() * mask(&joins, &device);
        let below = match block {
            1 => joined,
            _ => inverse.clone().matmul(joined).matmul(inverse.clone()),
        };
        inverse = inverse - below;
        block *= 2;
    }
    inverse
}
