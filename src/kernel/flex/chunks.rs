//! Chunks of positions of a row whose states decay by one factor per head and position: how far they decay, and the
//! weights that positions have for each other. State spaces by heads and the delta rule share this.
//!
//! A chunk ends before a position where a sequence begins, so within it only later positions are masked.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::math::exp_below;
use super::simd::{Elementwise, Vector, map_in_place, run};
use super::strips::{Row, load, store};
use crate::kernel::ssd::CHUNK;

/// Consecutive positions of a row; at most the first one begins a sequence.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Range of the positions.
    pub positions: Range<usize>,
    /// Index of the state before the chunk among those that are kept; `None` if that state is zero.
    pub state_index: Option<usize>,
}

/// Divides a row into chunks; `kept` counts the states before them.
pub fn chunks(row: &Row, carried: bool, kept: &mut usize) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    for at in 0..row.end {
        let begins = row.begins(at);
        if let Some(last) = chunks.last_mut()
            && !begins
            && last.positions.len() < CHUNK
        {
            last.positions.end = at + 1;
            continue;
        }
        let has_state = !begins && (at > 0 || carried);
        chunks.push(Chunk {
            positions: at..at + 1,
            state_index: has_state.then_some(*kept),
        });
        *kept += usize::from(has_state);
    }
    chunks
}

/// The decays of a chunk of one head; only the first `len` elements of each array are used.
pub struct Decays {
    /// Number of positions.
    len: usize,
    /// Factor with which a position is written: Δ of a state space, β of the delta rule.
    pub steps: [f32; CHUNK],
    /// Sums of the logarithms up to a position, each as a float32 and the float32 remainder.
    sums: [[f32; CHUNK]; 2],
    /// Fraction of the state before the chunk that remains at a position.
    pub since: [f32; CHUNK],
    /// Fraction of what a position writes that remains at the chunk's end.
    pub left: [f32; CHUNK],
}

/// `eˣ` of numbers of at most 0.
#[derive(Clone, Copy)]
struct Exp;

impl Elementwise<1> for Exp {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
        exp_below(x)
    }
}

impl Decays {
    /// Computes the decays of up to [`CHUNK`] successive positions, each given as its step and the logarithm of its
    /// decay.
    pub fn new(positions: impl Iterator<Item = (f32, f64)>) -> Self {
        let mut own = Self {
            len: 0,
            steps: [0.0; CHUNK],
            sums: [[0.0; CHUNK]; 2],
            since: [0.0; CHUNK],
            left: [0.0; CHUNK],
        };
        let mut exact = [0.0_f64; CHUNK];
        let mut sum = 0.0;
        for (i, (step, logarithm)) in positions.take(CHUNK).enumerate() {
            sum += logarithm;
            own.steps[i] = step;
            exact[i] = sum;
            let near = sum as f32;
            own.sums[0][i] = near;
            own.sums[1][i] = (sum - f64::from(near)) as f32;
            own.since[i] = near;
            own.len = i + 1;
        }
        let len = own.len;
        for (left, before) in own.left[..len].iter_mut().zip(exact) {
            *left = (sum - before) as f32;
        }
        map_in_place(Exp, &mut own.since[..len], []);
        map_in_place(Exp, &mut own.left[..len], []);
        own
    }

    /// Returns the fraction of the state before the chunk that remains at its end.
    pub fn end(&self) -> f32 {
        self.since[self.len - 1]
    }

    /// Returns the fraction that position `t` sees of what the positions from `lane` on wrote; meaningless for
    /// positions after `t`.
    #[inline(always)]
    fn between<S: Simd>(&self, simd: S, t: usize, lane: usize) -> Vector<S> {
        let zero = Vector::splat(simd, 0.0);
        let [near, rest] = &self.sums;
        let difference = zero.splat_like(near[t]) - load(simd, near, lane);
        let rest = zero.splat_like(rest[t]) - load(simd, rest, lane);
        exp_below((difference + rest).min(zero))
    }
}

/// Multiplies scores `[len, len]` by the decays; weights of later positions are zero.
pub fn weights(decays: &Decays, scores: &[f32], to: &mut [f32]) {
    run(Weights {
        decays,
        scores,
        products: None,
        to,
    });
}

/// Computes [`weights`], and the gradients of scores: `products` are those of the weights, whose decayed values are
/// added to `of_scores`.
pub fn weights_and_gradients(
    decays: &Decays,
    scores: &[f32],
    to: &mut [f32],
    products: &[f32],
    of_scores: &mut [f32],
) {
    run(Weights {
        decays,
        scores,
        products: Some((products, of_scores)),
        to,
    });
}

struct Weights<'a> {
    decays: &'a Decays,
    scores: &'a [f32],
    products: Option<(&'a [f32], &'a mut [f32])>,
    to: &'a mut [f32],
}

impl WithSimd for Weights<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            decays,
            scores,
            mut products,
            to,
        } = self;
        let len = decays.len;
        for t in 0..len {
            let row = t * len..t * len + t + 1;
            let scores = &scores[row.clone()];
            for lane in (0..=t).step_by(S::F32_LANES) {
                let seen = decays.between(simd, t, lane);
                let weight = load(simd, scores, lane) * seen;
                store(simd, weight, &mut to[row.clone()], lane);
                if let Some((products, of_scores)) = &mut products {
                    let product = load(simd, &products[row.clone()], lane);
                    let of_scores = &mut of_scores[row.clone()];
                    let sum = load(simd, of_scores, lane);
                    store(simd, product.mul_add(seen, sum), of_scores, lane);
                }
            }
            to[row.end..(t + 1) * len].fill(0.0);
        }
    }
}

/// Computes `to = factor·x`, for rows of one length.
pub fn scale_into(factor: f32, x: &[f32], to: &mut [f32]) {
    to.copy_from_slice(x);
    map_in_place(Times(factor), to, []);
}

/// `x·factor`.
#[derive(Clone, Copy)]
pub struct Times(pub f32);

impl Elementwise<1> for Times {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
        x * self.0
    }
}
