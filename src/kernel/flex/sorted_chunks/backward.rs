//! The gradients of attention in sorted chunks, tile by tile from each query's saved maximum m and sum z:
//! `p = exp(s − m)/z`, `dv = pᵀ·dy`, `dp = dy·vᵀ`, `ds = p·(dp − Σ dy·y)`, `dq = ds·k`, `dk = dsᵀ·q`.
//!
//! The gradients of a block's keys and values are summed by place in the block, then added to those of their
//! positions, block after block.

use burn::backend::ops::FloatTensorOps;
use burn_flex::{Flex, FlexTensor};

use super::block::Block;
use super::{Problem, Queries, SELF_SCORE, TILE, gather};
use crate::kernel::flex::attention_heads::Heads;
use crate::kernel::flex::attention_rows::{GradientRow, dot, probabilities};
use crate::kernel::flex::buffer::{ScratchBuffer, UninitBuffer, scratch_buffer, tensor};
use crate::kernel::flex::product::{Matrix, WriteMode, product};
use crate::kernel::flex::simd::run;
use crate::kernel::flex::threads;

/// The arguments that all pieces of work share.
struct BackwardArgs<'a> {
    problem: &'a Problem<'a>,
    out: Heads,
    grad: Heads,
    statistics: &'a [f32],
}

/// The state of one piece of work.
struct State {
    scores: ScratchBuffer,
    d_scores: ScratchBuffer,
    factors: ScratchBuffer,
    q: ScratchBuffer,
    grad: ScratchBuffer,
    d_q: ScratchBuffer,
    /// Gradients of keys and values, by place in the block.
    d_k: Vec<f32>,
    d_v: Vec<f32>,
    /// Gradients of queries, keys and values, by position.
    sums: [Vec<f32>; 3],
    delta: Vec<f32>,
}

/// Returns the gradients of queries, keys and values.
pub(super) fn backward(
    problem: &Problem,
    out: FlexTensor,
    statistics: &[f32],
    grad: FlexTensor,
) -> [FlexTensor; 3] {
    let [rows, heads, tokens, d_head] = problem.q.dims;
    let gradients = [0; 3].map(|_| UninitBuffer::new(rows * tokens * heads * d_head));
    let pass = BackwardArgs {
        problem,
        out: Heads::new(out),
        grad: Heads::new(grad),
        statistics,
    };
    let work = |piece: usize| {
        let (row, head) = (piece / heads, piece % heads);
        let sums = pass.piece([row, head]);
        for (gradient, sums) in gradients.iter().zip(&sums) {
            let mut to = gradient.rows();
            for (position, sum) in sums.chunks_exact(d_head).enumerate() {
                let at = ((row * tokens + position) * heads + head) * d_head;
                // SAFETY: (row, head, position) belongs to this piece only, which visits each position once.
                unsafe { to.copy(at, sum) };
            }
        }
    };
    if problem.is_small() {
        (0..problem.pieces()).for_each(work);
    } else {
        threads::for_each(0..problem.pieces(), work);
    }
    gradients.map(|x| {
        let x = tensor(x.into_vec(), [rows, tokens, heads, d_head]);
        Flex::float_swap_dims(x, 1, 2)
    })
}

impl BackwardArgs<'_> {
    /// Computes the gradients that one row and head contributes.
    fn piece(&self, place: [usize; 2]) -> [Vec<f32>; 3] {
        let problem = self.problem;
        let [_, _, tokens, d_head] = problem.q.dims;
        let places = Block::places(&problem.sizes) * d_head;
        let mut state = State {
            scores: problem.tile(),
            d_scores: problem.tile(),
            factors: problem.dropped(),
            q: scratch_buffer(TILE * d_head),
            grad: scratch_buffer(TILE * d_head),
            d_q: scratch_buffer(TILE * d_head),
            d_k: vec![0.0; places],
            d_v: vec![0.0; places],
            sums: [0; 3].map(|_| vec![0.0; tokens * d_head]),
            delta: self.delta(place),
        };
        let tile = |state: &mut State, queries: &Queries, block: &Block, from: usize| {
            self.tile(place, state, queries, block, from);
        };
        let settle = |state: &mut State, block: &Block| {
            let [_, of_k, of_v] = &mut state.sums;
            for (sums, at_places) in [(of_k, &mut state.d_k), (of_v, &mut state.d_v)] {
                let each = block.all().iter().zip(at_places.chunks_exact_mut(d_head));
                for (position, part) in each {
                    let position = *position as usize;
                    if position < tokens {
                        add(&mut sums[position * d_head..][..d_head], part);
                    }
                    part.fill(0.0);
                }
            }
        };
        problem.each_tile(place, &mut state, tile, settle);
        state.sums
    }

    /// Returns the dot products of each wanted query's gradient and output.
    fn delta(&self, [row, head]: [usize; 2]) -> Vec<f32> {
        let [_, _, wanted, d_head] = self.grad.dims;
        let (grad, out) = (
            self.grad.rows(row, head, 0, wanted),
            self.out.rows(row, head, 0, wanted),
        );
        let product = |i: usize| {
            let g = &grad.data[i * grad.strides[0]..][..d_head];
            dot(g, &out.data[i * out.strides[0]..][..d_head])
        };
        (0..wanted).map(product).collect()
    }

    /// Processes one tile.
    fn tile(
        &self,
        place: [usize; 2],
        state: &mut State,
        queries: &Queries,
        block: &Block,
        from: usize,
    ) {
        let problem = self.problem;
        let [_, heads, tokens, d_head] = problem.q.dims;
        let (len, window) = (queries.len(), problem.sizes.window());
        let first = problem.settings.first;
        let positions = || queries.iter().map(|[_, position]| *position);
        gather(&problem.q, place, positions(), &mut state.q);
        gather(
            &self.grad,
            place,
            positions().map(|position| position - first),
            &mut state.grad,
        );
        let scores = &mut state.scores[..len * window];
        problem.scores(place[0], queries, &state.q, block, from, scores);
        let factors = &mut state.factors[..];
        let drops = problem.settings.dropout.is_some();
        if drops {
            problem.factors(place, queries, &mut factors[..len * window]);
        }
        let q = Matrix::rows(&state.q[..len * d_head], [len, d_head]);
        let grad = Matrix::rows(&state.grad[..len * d_head], [len, d_head]);
        let d_scores = &mut state.d_scores[..len * window];
        let values = block.values(from, window);
        product(d_scores, grad, values.transposed(), WriteMode::TILE);
        let rows = scores.chunks_exact_mut(window);
        let rows = rows.zip(d_scores.chunks_exact_mut(window)).enumerate();
        for ((i, (p, d)), [_, query]) in rows.zip(queries) {
            let piece = place[0] * heads + place[1];
            let at = (piece * tokens + query) * 2;
            let (largest, total) = (self.statistics[at], self.statistics[at + 1]);
            probabilities(p, largest);
            let share = 1.0 / total;
            p.iter_mut().for_each(|p| *p *= share);
            run(GradientRow {
                d,
                p,
                factors: drops.then(|| &factors[i * window..(i + 1) * window]),
                delta: state.delta[query - first],
            });
            if largest == SELF_SCORE {
                // A query's score with itself is a constant.
                d.fill(0.0);
            }
        }
        let p = Matrix::rows(scores, [len, window]);
        let d = Matrix::rows(d_scores, [len, window]);
        let scale = problem.settings.scale as f32;
        let range = from * d_head..(from + window) * d_head;
        let d_v = &mut state.d_v[range.clone()];
        product(d_v, p.transposed(), grad, WriteMode::ADD_TILE);
        let d_k = &mut state.d_k[range];
        product(d_k, d.transposed(), q, WriteMode::ADD_TILE.times(scale));
        let d_q = &mut state.d_q[..len * d_head];
        product(
            d_q,
            d,
            block.keys(from, window),
            WriteMode::TILE.times(scale),
        );
        for (position, part) in positions().zip(d_q.chunks_exact(d_head)) {
            add(&mut state.sums[0][position * d_head..][..d_head], part);
        }
    }
}

/// Adds a vector.
fn add(sum: &mut [f32], part: &[f32]) {
    sum.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
}
