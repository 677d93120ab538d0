//! Attention in sorted chunks, tile by tile: a part of a chunk's queries against the keys of the chunk's window, with
//! each query's running maximum and sum over its tiles of all rounds (Milakov and Gimelshein 2018, arXiv:1805.02867).
//!
//! A piece of work is one head of one batch row, so nothing depends on the number of threads. Keys and values of
//! several consecutive chunks are gathered together ([`Block`]); outputs are stored as `[B, T, H, D]`.

mod backward;
mod block;

use burn::backend::ops::FloatTensorOps;
use burn_flex::{Flex, FlexTensor};

use super::attention::{SINGLE_THREAD_WORK, finish_softmax};
use super::attention_heads::Heads;
use super::attention_rows::SoftmaxRow;
use super::buffer::{ScratchBuffer, UninitBuffer, scratch_buffer, slice, tensor};
use super::dropout::Factors;
use super::product::{Matrix, WriteMode, product};
use super::simd::run;
use super::threads;
use crate::kernel::profile::timed;
use crate::kernel::sorted_chunks::extension::{SortedBackwardOps, SortedOps, SortedSaved};
use crate::kernel::sorted_chunks::{ChunkSizes, SELF_SCORE, SortedSettings};
use block::{Block, MaskRow};

/// Number of queries of a tile.
const TILE: usize = 64;

impl SortedOps for Flex {
    fn sorted_attention(
        q: FlexTensor,
        k: FlexTensor,
        v: FlexTensor,
        settings: SortedSettings,
    ) -> FlexTensor {
        timed("sorted chunks", || {
            let [out, _] = forward(&Problem::new([q, k, v], &settings));
            out
        })
    }
}

impl SortedBackwardOps for Flex {
    fn sorted_attention_saving(
        inputs: [FlexTensor; 3],
        settings: &SortedSettings,
    ) -> SortedSaved<Self> {
        timed("sorted chunks", || {
            let problem = Problem::new(inputs.clone(), settings);
            assert_eq!(problem.q.dims, problem.k.dims, "gradients of all queries");
            let [out, statistics] = forward(&problem);
            SortedSaved {
                inputs,
                out,
                statistics,
            }
        })
    }

    fn sorted_attention_backward(
        saved: SortedSaved<Self>,
        grad: FlexTensor,
        settings: &SortedSettings,
    ) -> [FlexTensor; 3] {
        timed("sorted chunks, backward", || {
            let problem = Problem::new(saved.inputs, settings);
            backward::backward(&problem, saved.out, slice(&saved.statistics), grad)
        })
    }
}

/// The inputs of both passes.
struct Problem<'a> {
    q: Heads,
    k: Heads,
    v: Heads,
    settings: &'a SortedSettings,
    sizes: ChunkSizes,
}

/// Queries of one tile, each given by its place in the ring of chunks and its position.
type Queries = Vec<[usize; 2]>;

impl<'a> Problem<'a> {
    fn new([q, k, v]: [FlexTensor; 3], settings: &'a SortedSettings) -> Self {
        Self {
            q: Heads::new(q),
            k: Heads::new(k),
            v: Heads::new(v),
            settings,
            sizes: settings.plan.sizes(),
        }
    }

    /// Returns the index of a position's query in `q`, which holds either all queries or only the wanted ones.
    fn place(&self, position: usize) -> usize {
        let [_, _, queries, _] = self.q.dims;
        position - (self.sizes.tokens - queries)
    }

    /// Returns the number of rows times heads.
    fn pieces(&self) -> usize {
        self.sizes.rows * self.sizes.heads
    }

    /// Returns whether a single thread is faster.
    fn is_small(&self) -> bool {
        let [.., d_head] = self.q.dims;
        let scores = self.sizes.chunks() * self.sizes.chunk * self.sizes.window();
        self.pieces() * scores * d_head <= SINGLE_THREAD_WORK
    }

    /// Calls `work` for every tile of a row and head, with its queries, the block in which its keys were gathered,
    /// and their first place in the block. Calls `settle` for each block after its last tile.
    fn each_tile<S>(
        &self,
        [row, head]: [usize; 2],
        state: &mut S,
        mut work: impl FnMut(&mut S, &Queries, &Block, usize),
        mut settle: impl FnMut(&mut S, &Block),
    ) {
        let (sizes, wanted) = (self.sizes, self.settings.wanted_queries());
        let order = self.settings.plan.order(row, head);
        let mut block = Block::new(self);
        let mut queries = Queries::with_capacity(TILE);
        // The keys of a few queries are in a few chunks, which are gathered separately.
        let together = match wanted.len() < sizes.chunk {
            true => 1,
            false => Block::chunks(&sizes),
        };
        for first in (0..sizes.chunks()).step_by(together) {
            let chunks = first..(first + together).min(sizes.chunks());
            let places = chunks.start * sizes.chunk..chunks.end * sizes.chunk;
            let is_wanted = |place: usize| wanted.contains(&(order[place] as usize));
            if !places.clone().any(is_wanted) {
                continue;
            }
            block.gather(self, [row, head], chunks.clone());
            for chunk in chunks {
                let from = (chunk - first) * sizes.chunk;
                let places = chunk * sizes.chunk..(chunk + 1) * sizes.chunk;
                for place in places.filter(|place| is_wanted(*place)) {
                    queries.push([place, order[place] as usize]);
                    if queries.len() == TILE {
                        work(state, &queries, &block, from);
                        queries.clear();
                    }
                }
                if !queries.is_empty() {
                    work(state, &queries, &block, from);
                    queries.clear();
                }
            }
            settle(state, &block);
        }
    }

    /// Computes the scores of a tile, masked where a query does not see a key.
    fn scores(
        &self,
        row: usize,
        queries: &Queries,
        q: &[f32],
        block: &Block,
        from: usize,
        scores: &mut [f32],
    ) {
        let (window, [.., d_head]) = (self.sizes.window(), self.q.dims);
        let left = Matrix::rows(&q[..queries.len() * d_head], [queries.len(), d_head]);
        let into = WriteMode::TILE.times(self.settings.scale as f32);
        product(scores, left, block.keys(from, window).transposed(), into);
        let documents = self.settings.documents(row);
        let positions = block.positions(from, window);
        for ([_, query], row_of) in queries.iter().zip(scores.chunks_exact_mut(window)) {
            run(MaskRow {
                query: *query as u32,
                limit: self.settings.limit(row, *query) as u32,
                positions,
                row: row_of,
            });
            if let Some(numbers) = documents {
                for (score, position) in row_of.iter_mut().zip(positions) {
                    let number = numbers.get(*position as usize);
                    if number.is_some_and(|number| *number != numbers[*query]) {
                        *score = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }

    /// Writes the dropout factors of a tile.
    fn factors(&self, [row, head]: [usize; 2], queries: &Queries, out: &mut [f32]) {
        let Some(key) = &self.settings.dropout else {
            return;
        };
        let window = self.sizes.window();
        let places = self.sizes.chunks() * self.sizes.chunk;
        for ([place, _], out) in queries.iter().zip(out.chunks_exact_mut(window)) {
            run(Factors {
                key,
                row,
                first: (head * places + place) * window,
                out,
            });
        }
    }

    /// Allocates scratch memory for the scores of a tile.
    fn tile(&self) -> ScratchBuffer {
        scratch_buffer(TILE.min(self.sizes.chunk) * self.sizes.window())
    }

    /// Allocates scratch memory for the dropout factors of a tile; empty without dropout.
    fn dropped(&self) -> ScratchBuffer {
        match self.settings.dropout {
            Some(_) => self.tile(),
            None => scratch_buffer(0),
        }
    }
}

/// Copies the vectors of queries.
fn gather(x: &Heads, [row, head]: [usize; 2], at: impl Iterator<Item = usize>, out: &mut [f32]) {
    let [_, _, len, width] = x.dims;
    let rows = x.rows(row, head, 0, len);
    for (position, out) in at.zip(out.chunks_exact_mut(width)) {
        out.copy_from_slice(&rows.data[position * rows.strides[0]..][..width]);
    }
}

/// The state of a piece of work in the forward pass.
struct Forward {
    scores: ScratchBuffer,
    factors: ScratchBuffer,
    q: ScratchBuffer,
    values: ScratchBuffer,
    /// Sums of weighted values, by position.
    sums: Vec<f32>,
    /// Running maximum and sum, by position.
    statistics: Vec<(f32, f32)>,
}

/// Returns the output, and each query's maximum and sum.
fn forward(problem: &Problem) -> [FlexTensor; 2] {
    let ([rows, heads, tokens, d_head], wanted) =
        (problem.k.dims, problem.settings.wanted_queries());
    let out = UninitBuffer::new(rows * wanted.len() * heads * d_head);
    let statistics = UninitBuffer::new(rows * heads * tokens * 2);
    let work = |piece: usize| {
        let (row, head) = (piece / heads, piece % heads);
        let done = forward_piece(problem, [row, head]);
        let (mut to, mut to_statistics) = (out.rows(), statistics.rows());
        for (i, query) in wanted.clone().enumerate() {
            let at = ((row * wanted.len() + i) * heads + head) * d_head;
            // SAFETY: (row, head, query) belongs to this piece only, which visits each of its queries once.
            let to = unsafe { to.row(at, d_head) };
            let (factor, _) = finish_softmax(done.statistics[query]);
            let sum = &done.sums[i * d_head..][..d_head];
            to.iter_mut().zip(sum).for_each(|(y, x)| *y = x * factor);
        }
        for (query, (largest, total)) in done.statistics.iter().enumerate() {
            // SAFETY: as above.
            let to = unsafe { to_statistics.row((piece * tokens + query) * 2, 2) };
            to.copy_from_slice(&[*largest, *total]);
        }
    };
    if problem.is_small() {
        (0..problem.pieces()).for_each(work);
    } else {
        threads::for_each(0..problem.pieces(), work);
    }
    let out = tensor(out.into_vec(), [rows, wanted.len(), heads, d_head]);
    [
        Flex::float_swap_dims(out, 1, 2),
        tensor(statistics.into_vec(), [rows, heads, tokens, 2]),
    ]
}

/// Computes the sums of one row and head, not yet divided.
fn forward_piece(problem: &Problem, place: [usize; 2]) -> Forward {
    let ([_, _, tokens, d_head], wanted) = (problem.k.dims, problem.settings.wanted_queries());
    let window = problem.sizes.window();
    let mut state = Forward {
        scores: problem.tile(),
        factors: problem.dropped(),
        q: scratch_buffer(TILE * d_head),
        values: scratch_buffer(TILE * d_head),
        sums: vec![0.0; wanted.len() * d_head],
        statistics: vec![(f32::NEG_INFINITY, 0.0); tokens],
    };
    let tile = |state: &mut Forward, queries: &Queries, block: &Block, from: usize| {
        let len = queries.len();
        let places = queries.iter().map(|[_, position]| problem.place(*position));
        gather(&problem.q, place, places, &mut state.q);
        let scores = &mut state.scores[..len * window];
        problem.scores(place[0], queries, &state.q, block, from, scores);
        for ([_, query], row) in queries.iter().zip(scores.chunks_exact_mut(window)) {
            let shrink = run(SoftmaxRow {
                row,
                state: &mut state.statistics[*query],
            });
            if shrink != 1.0 {
                let sum = &mut state.sums[(query - wanted.start) * d_head..][..d_head];
                sum.iter_mut().for_each(|x| *x *= shrink);
            }
        }
        if problem.settings.dropout.is_some() {
            let factors = &mut state.factors[..len * window];
            problem.factors(place, queries, factors);
            scores.iter_mut().zip(factors).for_each(|(s, f)| *s *= *f);
        }
        let values = &mut state.values[..len * d_head];
        let weights = Matrix::rows(scores, [len, window]);
        product(values, weights, block.values(from, window), WriteMode::TILE);
        for ([_, query], values) in queries.iter().zip(values.chunks_exact(d_head)) {
            let sum = &mut state.sums[(query - wanted.start) * d_head..][..d_head];
            sum.iter_mut().zip(values).for_each(|(y, x)| *y += x);
        }
    };
    problem.each_tile(place, &mut state, tile, |_, _| ());
    state
}
