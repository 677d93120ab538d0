//! Attention in tiles: [`TILE`] queries against at most [`CHUNK`] keys at a time, with the running maximum and sum of
//! Milakov and Gimelshein (2018, arXiv:1805.02867) over the chunks.
//!
//! A piece of work is one head of one batch row, or one tile of its queries in the forward pass. Pieces write
//! disjoint parts, so nothing depends on the number of threads. Outputs and gradients are stored as `[B, S, H, D]`
//! and returned as `[B, H, S, D]` views.

use std::ops::Range;

use burn::backend::ops::FloatTensorOps;
use burn_flex::{Flex, FlexTensor};

use super::attention_bias::Bias;
use super::attention_heads::Heads;
use super::attention_packed::PackedHead;
use super::attention_rows::{SoftmaxRow, soft_cap};
use super::attention_single_query;
use super::buffer::{UninitBuffer, scratch_buffer, tensor};
use super::dropout::Factors;
use super::product::{Matrix, Packed, WriteMode, product};
use super::relative::{Relative, Tile};
use super::simd::run;
use super::threads;
use crate::kernel::Query;
use crate::kernel::extension::{AttentionSettings, Maybe};

/// Number of queries of a tile.
pub const TILE: usize = 64;

/// Maximum number of keys of a chunk: the scores of a tile fill 80 KiB. Products of the backward pass read scores by
/// columns; with rows of 256, the elements of a column would fall into few sets of a core's L1 cache.
pub const CHUNK: usize = 320;

/// Chunks of keys begin at a multiple of this, where a panel of the packed keys does.
const PANEL: usize = 64;

/// Number of multiply-adds of the scores up to which a single thread does all the work.
pub const SINGLE_THREAD_WORK: usize = 48 * 48 * 48;

/// The inputs of both passes.
pub struct Problem {
    /// Queries.
    pub q: Heads,
    /// Keys.
    pub k: Heads,
    /// Values.
    pub v: Heads,
    /// Bias added to the scores.
    pub bias: Bias,
    /// Vectors by distance that contribute to scores and values.
    pub relative: Option<Relative>,
    /// The remaining settings.
    pub settings: AttentionSettings,
}

/// A tile of queries of one head against a chunk of keys.
#[derive(Clone, Copy)]
pub struct Place {
    /// Index of the batch row.
    pub batch: usize,
    /// Query head.
    pub head: usize,
    /// First query and number of queries.
    pub queries: [usize; 2],
    /// First key and number of keys.
    pub keys: [usize; 2],
}

impl Problem {
    /// Collects the inputs.
    pub fn new([q, k, v]: [FlexTensor; 3], bias: Maybe<Flex>, settings: AttentionSettings) -> Self {
        Self {
            q: Heads::new(q),
            k: Heads::new(k),
            v: Heads::new(v),
            bias: Bias::new(bias),
            relative: None,
            settings,
        }
    }

    /// Returns the key-value head that a query head reads.
    pub fn kv_head(&self, head: usize) -> usize {
        head / (self.q.dims[1] / self.k.dims[1])
    }

    /// Returns the keys of a place.
    pub fn keys(&self, place: Place) -> Matrix<'_> {
        let [from, n] = place.keys;
        self.k.rows(place.batch, self.kv_head(place.head), from, n)
    }

    /// Returns ranges that contain all keys seen by a tile of queries of a row and head; they begin where a panel
    /// does.
    pub fn visible_ranges(&self, place: [usize; 2], [first, len]: [usize; 2]) -> Vec<Range<usize>> {
        let AttentionSettings {
            visible, offset, ..
        } = &self.settings;
        let positions = offset + first..offset + first + len;
        let mut aligned: Vec<Range<usize>> = Vec::new();
        for range in visible.ranges(place, positions, self.k.dims[2]) {
            let start = range.start / PANEL * PANEL;
            match aligned.last_mut() {
                Some(last) if start <= last.end => last.end = range.end,
                _ => aligned.push(start..range.end),
            }
        }
        aligned
    }

    /// Returns these keys in chunks of first key and number of keys.
    pub fn chunks(
        &self,
        place: [usize; 2],
        queries: [usize; 2],
    ) -> impl Iterator<Item = [usize; 2]> + use<> {
        let seen = self.visible_ranges(place, queries).into_iter();
        seen.flat_map(|range| {
            let starts = range.clone().step_by(CHUNK);
            starts.map(move |from| [from, CHUNK.min(range.end - from)])
        })
    }

    /// Computes the scores of a place: raw, then soft-capped, biased and masked. `keys` are all packed keys of its
    /// head if several tiles share them; `relative` is the tile's distance vectors. `slope` receives the soft cap's
    /// derivative, if wanted.
    pub fn scores(
        &self,
        place: Place,
        keys: Option<&Packed>,
        relative: Option<&mut Tile>,
        scores: &mut [f32],
        mut slope: Option<&mut [f32]>,
    ) {
        let Place {
            batch,
            head,
            queries: [first, len],
            keys: [from, n],
        } = place;
        let q = match &relative {
            Some(tile) => tile.content(),
            None => self.q.rows(batch, head, first, len),
        };
        let into = WriteMode::TILE.times(self.settings.scale as f32);
        match keys {
            Some(keys) => keys.product(scores, q, from..from + n, into),
            None => product(scores, q, self.keys(place).transposed(), into),
        }
        if let Some(tile) = relative {
            tile.add_scores(self, place, scores);
        }
        for (i, row) in scores.chunks_exact_mut(n).enumerate() {
            let slope = slope.as_deref_mut().map(|s| &mut s[i * n..(i + 1) * n]);
            self.finish_scores([batch, head, first + i], from, row, slope);
        }
    }

    /// Soft-caps, biases and masks the scores of one query against keys from `from` on.
    pub fn finish_scores(
        &self,
        [batch, head, query]: [usize; 3],
        from: usize,
        row: &mut [f32],
        slope: Option<&mut [f32]>,
    ) {
        if let Some(cap) = self.settings.softcap {
            soft_cap(row, cap as f32, slope);
        }
        let sizes = [self.q.dims[2], self.k.dims[2]];
        self.bias.add([batch, head, query], sizes, from, row);
        let query = Query {
            row: batch,
            head,
            position: self.settings.offset + query,
        };
        let visible = &self.settings.visible;
        visible.mask_scores(query, sizes[1], from, row, f32::NEG_INFINITY);
    }

    /// Writes the dropout factors of a place.
    pub fn factors(&self, place: Place, out: &mut [f32]) {
        let Some(key) = &self.settings.dropout else {
            return;
        };
        let [_, _, n_q, _] = self.q.dims;
        let [from, n] = place.keys;
        for (i, out) in out.chunks_exact_mut(n).enumerate() {
            let query = place.head * n_q + place.queries[0] + i;
            run(Factors {
                key,
                row: place.batch,
                first: query * self.k.dims[2] + from,
                out,
            });
        }
    }

    /// Returns whether weights are dropped.
    pub fn drops(&self) -> bool {
        self.settings.dropout.is_some()
    }
}

/// Returns the output, and the log-sum-exp of every query, `[B, H, Q]`.
pub fn forward(problem: &Problem) -> [FlexTensor; 2] {
    let [batch, heads, n_q, d_head] = problem.q.dims;
    let out = UninitBuffer::new(batch * n_q * heads * d_head);
    let lse = UninitBuffer::new(batch * heads * n_q);
    let patterned = problem.settings.visible.pattern.is_some();
    if n_q == 1 && !problem.drops() && problem.relative.is_none() && !patterned {
        attention_single_query::forward(problem, &out, &lse);
    } else {
        run_in_tiles(problem, &out, &lse);
    }
    let (out, lse) = (out.into_vec(), lse.into_vec());
    let out = tensor(out, [batch, n_q, heads, d_head]);
    [
        Flex::float_swap_dims(out, 1, 2),
        tensor(lse, [batch, heads, n_q]),
    ]
}

/// Returns the factor of a query's weighted sum of values and its log-sum-exp, given its maximum and sum. A query
/// that sees no key gets factor zero and an infinite log-sum-exp, so its probabilities are zero in the backward pass.
pub fn finish_softmax((largest, total): (f32, f32)) -> (f32, f32) {
    match total == 0.0 {
        true => (0.0, f32::INFINITY),
        false => (1.0 / total, largest + total.ln()),
    }
}

/// Computes [`forward`] for any number of queries.
fn run_in_tiles(problem: &Problem, out: &UninitBuffer, lse: &UninitBuffer) {
    let [batch, heads, n_q, d_head] = problem.q.dims;
    let tiles = n_q.div_ceil(TILE);
    let copies = PackedHead::pack_all(problem, tiles);
    let work = |piece: usize| {
        let (tile, head) = (piece % tiles, piece / tiles % heads);
        let row = piece / tiles / heads;
        let copies = copies.get(row * problem.k.dims[1] + problem.kv_head(head));
        let first = tile * TILE;
        let queries = [first, TILE.min(n_q - first)];
        let (sum, statistics) = forward_tile(problem, [row, head], copies, queries);
        let (mut out, mut lse) = (out.rows(), lse.rows());
        for (i, (values, state)) in sum.chunks_exact(d_head).zip(statistics).enumerate() {
            let query = first + i;
            let at = ((row * n_q + query) * heads + head) * d_head;
            // SAFETY: (row, head, query) belongs to this piece only, which visits each of its queries once.
            let (to, lse) = unsafe {
                (
                    out.row(at, d_head),
                    lse.row((row * heads + head) * n_q + query, 1),
                )
            };
            let factor;
            (factor, lse[0]) = finish_softmax(state);
            to.iter_mut().zip(values).for_each(|(y, x)| *y = x * factor);
        }
    };
    let pieces = batch * heads * tiles;
    if batch * heads * n_q * problem.k.dims[2] * d_head <= SINGLE_THREAD_WORK {
        (0..pieces).for_each(work);
    } else {
        threads::for_each(0..pieces, work);
    }
}

/// Returns the weighted sums of values of a tile, not yet divided, with each row's maximum and sum.
fn forward_tile(
    problem: &Problem,
    [batch, head]: [usize; 2],
    copies: Option<&PackedHead>,
    queries: [usize; 2],
) -> (Vec<f32>, Vec<(f32, f32)>) {
    let [_, len] = queries;
    let d_head = problem.q.dims[3];
    let mut sum = vec![0.0; len * d_head];
    let mut statistics = vec![(f32::NEG_INFINITY, 0.0); len];
    let widest = CHUNK.min(problem.k.dims[2]);
    let mut scores = scratch_buffer(len * widest);
    let mut factors = scratch_buffer(if problem.drops() { len * widest } else { 0 });
    let relative = problem.relative.as_ref();
    let mut relative = relative.map(|relative| relative.tile(head, [len, widest]));
    if let Some(tile) = &mut relative {
        tile.begin(problem.q.rows(batch, head, queries[0], len));
    }
    for keys in problem.chunks([batch, head], queries) {
        let place = Place {
            batch,
            head,
            queries,
            keys,
        };
        let n = keys[1];
        let scores = &mut scores[..len * n];
        let all_keys = copies.map(|copies| &copies.keys);
        problem.scores(place, all_keys, relative.as_mut(), scores, None);
        for ((row, state), sum) in scores
            .chunks_exact_mut(n)
            .zip(&mut statistics)
            .zip(sum.chunks_exact_mut(d_head))
        {
            let shrink = run(SoftmaxRow { row, state });
            if shrink != 1.0 {
                sum.iter_mut().for_each(|x| *x *= shrink);
            }
        }
        if problem.drops() {
            let factors = &mut factors[..len * n];
            problem.factors(place, factors);
            scores.iter_mut().zip(factors).for_each(|(s, f)| *s *= *f);
        }
        let weights = Matrix::rows(scores, [len, n]);
        match copies {
            Some(copies) => {
                let rows = keys[0]..keys[0] + n;
                copies
                    .values
                    .product(&mut sum, weights, rows, WriteMode::ADD_TILE);
            }
            None => {
                let v = problem.v.rows(batch, problem.kv_head(head), keys[0], n);
                product(&mut sum, weights, v, WriteMode::ADD_TILE);
            }
        }
        if let Some(tile) = &mut relative {
            tile.add_values(problem.q.dims[2], place, scores, &mut sum);
        }
    }
    (sum, statistics)
}
