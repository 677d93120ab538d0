//! Attention's gradients, tile by tile from the saved log-sum-exps:
//! `p = exp(s − lse)`, `dv = pᵀ·dy`, `dp = dy·vᵀ`, `ds = p·(dp − Σ dy·y)`, `dq = ds·k`, `dk = dsᵀ·q`.
//!
//! A piece of work is one query head of one batch row, or of all batch rows if they share a bias, whose gradient is
//! then summed in their order. Query heads that share keys and values first get separate gradients of them.

use std::ops::Range;

use burn::backend::ops::FloatTensorOps;
use burn_flex::{Flex, FlexTensor};

use super::attention::{CHUNK, Place, Problem, TILE};
use super::attention_heads::{Heads, Rows, row};
use super::attention_rows::{GradientRow, dot, probabilities};
use super::buffer::{ScratchBuffer, SharedBuffer, UninitBuffer, scratch_buffer, slice, tensor};
use super::linear::Sum;
use super::product::{Matrix, Packed, PackedRows, WriteMode, product};
use super::relative::backward::{Piece, Pieces};
use super::simd::{map_in_place, run};
use super::threads;
use crate::kernel::extension::AttentionGradients;

/// The arguments that all pieces of work share.
struct BackwardArgs<'a> {
    problem: &'a Problem,
    out: Heads,
    grad: Heads,
    lse: &'a [f32],
    d_q: &'a UninitBuffer,
    d_k: &'a UninitBuffer,
    d_v: &'a UninitBuffer,
    d_bias: Option<SharedBuffer>,
    relative: Option<&'a Pieces>,
}

/// Buffers of one piece of work.
struct Scratch<'a> {
    scores: ScratchBuffer,
    d_scores: ScratchBuffer,
    slope: ScratchBuffer,
    factors: ScratchBuffer,
    d_k: Vec<f32>,
    d_v: Vec<f32>,
    diagonals: Vec<f32>,
    /// Packed keys and values of the head, which every tile is multiplied with.
    packed: [Packed; 2],
    /// The keys again, packed for the gradient of queries.
    keys: PackedRows,
    relative: Option<Piece<'a>>,
}

/// A tile of queries.
struct Queries<'a> {
    /// First query and number of queries.
    queries: [usize; 2],
    /// The queries, and the gradients of their outputs.
    rows: [Rows<'a>; 2],
    /// Dot product of each query's output and its gradient.
    delta: Vec<f32>,
    /// Gradient of the queries.
    d_q: ScratchBuffer,
}

/// Number of tiles of queries that go through the keys side by side, so that a chunk of keys with its gradients stays
/// in a core's L2 cache for all of them. With vectors by distance, tiles are handled one at a time.
const TOGETHER: usize = 8;

/// Returns the gradients of queries, keys, values and, if wanted, of the bias. The gradients of the vectors by
/// distance go to the pieces of `relative`.
pub fn backward(
    problem: &Problem,
    out: FlexTensor,
    lse: FlexTensor,
    grad: FlexTensor,
    wants_bias: bool,
    relative: Option<&Pieces>,
) -> AttentionGradients<Flex> {
    let ([batch, heads, n_q, d_head], n_k) = (problem.q.dims, problem.k.dims[2]);
    let d_q = UninitBuffer::new(batch * n_q * heads * d_head);
    let [d_k, d_v] = [0, 1].map(|_| UninitBuffer::new(batch * n_k * heads * d_head));
    let mut d_bias = wants_bias.then(|| problem.bias.sums(batch));
    let shared_bias = wants_bias && problem.bias.is_shared(batch);
    let pass = BackwardArgs {
        problem,
        out: Heads::new(out),
        grad: Heads::new(grad),
        lse: slice(&lse),
        d_q: &d_q,
        d_k: &d_k,
        d_v: &d_v,
        d_bias: d_bias.as_deref_mut().map(SharedBuffer::new),
        relative,
    };
    let small = n_q * n_k * d_head * heads * batch <= 32 * 32 * 32;
    let each = |piece: usize| {
        if shared_bias {
            (0..batch).for_each(|row| pass.head(row, piece));
        } else {
            pass.head(piece / heads, piece % heads);
        }
    };
    let pieces = if shared_bias { heads } else { batch * heads };
    if small {
        (0..pieces).for_each(each);
    } else {
        threads::for_each(0..pieces, each);
    }
    let [d_q, d_k, d_v] = [d_q, d_k, d_v].map(UninitBuffer::into_vec);
    let view = |x: Vec<f32>, seq| {
        let x = tensor(x, [batch, seq, heads, d_head]);
        Flex::float_swap_dims(x, 1, 2)
    };
    let kv_heads = problem.k.dims[1];
    let grouped = |x: Vec<f32>| {
        if kv_heads == heads {
            return view(x, n_k);
        }
        let x = sum_groups(&x, heads / kv_heads, d_head);
        Flex::float_swap_dims(tensor(x, [batch, n_k, kv_heads, d_head]), 1, 2)
    };
    AttentionGradients {
        q: view(d_q, n_q),
        k: grouped(d_k),
        v: grouped(d_v),
        bias: d_bias.and_then(|sums| problem.bias.gradient(sums)),
    }
}

/// Sums groups of `group` adjacent vectors of `width` elements.
fn sum_groups(x: &[f32], group: usize, width: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len() / group);
    for vectors in x.chunks_exact(group * width) {
        let at = out.len();
        out.extend_from_slice(&vectors[..width]);
        for vector in vectors[width..].chunks_exact(width) {
            map_in_place(Sum, &mut out[at..], [vector]);
        }
    }
    out
}

impl BackwardArgs<'_> {
    /// Computes all gradients that one query head of one batch row contributes.
    fn head(&self, batch: usize, head: usize) {
        let ([_, heads, n_q, d_head], n_k) = (self.problem.q.dims, self.problem.k.dims[2]);
        let tile = TILE.min(n_q) * CHUNK.min(n_k);
        let wanted = |on: bool| scratch_buffer(if on { tile } else { 0 });
        let kv_head = self.problem.kv_head(head);
        let [keys, values] =
            [&self.problem.k, &self.problem.v].map(|x| x.rows(batch, kv_head, 0, n_k));
        let packed = [keys, values].map(|x| Packed::new(x.transposed()));
        let relative = self.problem.relative.as_ref().zip(self.relative);
        let sizes = [TILE.min(n_q), CHUNK.min(n_k)];
        // SAFETY: this call is the only one of the batch row and head, and drops the piece.
        let relative = relative.map(|(x, pieces)| unsafe { pieces.piece(x, [batch, head], sizes) });
        let mut scratch = Scratch {
            relative,
            scores: scratch_buffer(tile),
            d_scores: scratch_buffer(tile),
            slope: wanted(self.problem.settings.softcap.is_some()),
            factors: wanted(self.problem.drops()),
            d_k: vec![0.0; n_k * d_head],
            d_v: vec![0.0; n_k * d_head],
            diagonals: Vec::new(),
            packed,
            keys: PackedRows::new(keys),
        };
        let together = TILE
            * if scratch.relative.is_some() {
                1
            } else {
                TOGETHER
            };
        for first in (0..n_q).step_by(together) {
            let queries = first..(first + together).min(n_q);
            self.tiles([batch, head], queries, &mut scratch);
        }
        let (mut to_k, mut to_v) = (self.d_k.rows(), self.d_v.rows());
        for (i, (d_k, d_v)) in scratch
            .d_k
            .chunks_exact(d_head)
            .zip(scratch.d_v.chunks_exact(d_head))
            .enumerate()
        {
            let at = ((batch * n_k + i) * heads + head) * d_head;
            // SAFETY: these rows belong to (batch, head), so only this call writes them, each once.
            unsafe {
                to_k.copy(at, d_k);
                to_v.copy(at, d_v);
            }
        }
    }

    /// Processes several tiles of queries against all keys that they see; all tiles of a chunk of keys come one after
    /// another.
    fn tiles<'b>(
        &'b self,
        [batch, head]: [usize; 2],
        queries: Range<usize>,
        scratch: &mut Scratch<'b>,
    ) {
        let [_, heads, n_q, d_head] = self.problem.q.dims;
        let lens = queries.clone().step_by(TILE);
        let lens = lens.map(|first| [first, TILE.min(queries.end - first)]);
        let mut tiles: Vec<Queries> = lens.map(|tile| self.queries([batch, head], tile)).collect();
        if let Some(piece) = &mut scratch.relative {
            let [first, len] = tiles[0].queries;
            piece.begin(self.problem.q.rows(batch, head, first, len));
        }
        let mut chunks = Vec::new();
        for (number, tile) in tiles.iter().enumerate() {
            let of_tile = self.problem.chunks([batch, head], tile.queries);
            chunks.extend(of_tile.map(|keys| (keys, number)));
        }
        chunks.sort_unstable_by_key(|([from, _], number)| (*from, *number));
        for (keys, number) in chunks {
            let place = Place {
                batch,
                head,
                queries: tiles[number].queries,
                keys,
            };
            self.chunk(place, &mut tiles[number], scratch);
        }
        let mut to_q = self.d_q.rows();
        for tile in &mut tiles {
            if let Some(piece) = &mut scratch.relative {
                piece.settle(&mut tile.d_q);
            }
            for (i, d_q) in tile.d_q.chunks_exact(d_head).enumerate() {
                let at = ((batch * n_q + tile.queries[0] + i) * heads + head) * d_head;
                // SAFETY: as in `head`.
                unsafe { to_q.copy(at, d_q) };
            }
        }
    }

    /// Prepares a tile before its first chunk of keys.
    fn queries(&self, [batch, head]: [usize; 2], queries: [usize; 2]) -> Queries<'_> {
        let ([first, len], d_head) = (queries, self.problem.q.dims[3]);
        let rows = [&self.problem.q, &self.grad, &self.out];
        let [q, grad, out] = rows.map(|of| of.rows(batch, head, first, len));
        let copies = self.problem.k.dims[2] > CHUNK;
        let mut d_q = scratch_buffer(len * d_head);
        d_q.fill(0.0);
        Queries {
            queries,
            rows: [q, grad].map(|of| Rows::new(of, copies)),
            delta: (0..len).map(|i| dot(row(&grad, i), row(&out, i))).collect(),
            d_q,
        }
    }

    /// Processes one tile of queries against one chunk of keys.
    fn chunk(&self, place: Place, tile: &mut Queries, scratch: &mut Scratch) {
        let problem = self.problem;
        let ([_, heads, n_q, d_head], n_k) = (problem.q.dims, problem.k.dims[2]);
        let Place {
            batch,
            head,
            queries: [first, len],
            keys: [from, n],
        } = place;
        let Queries {
            rows, delta, d_q, ..
        } = tile;
        let [q, grad] = rows.each_ref().map(Rows::matrix);
        let scores = &mut scratch.scores[..len * n];
        let d_scores = &mut scratch.d_scores[..len * n];
        let capped = problem.settings.softcap.is_some();
        let slope = capped.then(|| &mut scratch.slope[..len * n]);
        let tile = scratch.relative.as_mut().map(|piece| &mut piece.tile);
        problem.scores(place, Some(&scratch.packed[0]), tile, scores, slope);
        if problem.drops() {
            problem.factors(place, &mut scratch.factors[..len * n]);
        }
        scratch.packed[1].product(d_scores, grad, from..from + n, WriteMode::TILE);
        if let Some(piece) = &mut scratch.relative {
            let tile = &mut piece.tile;
            tile.add_value_products(n_q, place, grad, d_scores);
        }
        let lse = &self.lse[(batch * heads + head) * n_q + first..][..len];
        let rows = scores.chunks_exact_mut(n).zip(d_scores.chunks_exact_mut(n));
        for (i, (p, d)) in rows.enumerate() {
            probabilities(p, lse[i]);
            let factors = problem
                .drops()
                .then(|| &scratch.factors[i * n..(i + 1) * n]);
            run(GradientRow {
                d,
                p,
                factors,
                delta: delta[i],
            });
        }
        if let Some(sums) = &self.d_bias {
            let diagonals = &mut scratch.diagonals;
            problem
                .bias
                .add_gradient(sums, place, [n_q, n_k], d_scores, diagonals);
        }
        if capped {
            let each = d_scores.iter_mut().zip(scratch.slope.iter());
            each.for_each(|(d, s)| *d *= s);
        }
        let range = from * d_head..(from + n) * d_head;
        let p = Matrix::rows(scores, [len, n]);
        let d = Matrix::rows(d_scores, [len, n]);
        let scale = problem.settings.scale as f32;
        let scaled = WriteMode::ADD_TILE.times(scale);
        let d_v = &mut scratch.d_v[range.clone()];
        product(d_v, p.transposed(), grad, WriteMode::ADD_TILE);
        let q = match &scratch.relative {
            Some(piece) => piece.tile.content(),
            None => q,
        };
        let d_k = &mut scratch.d_k[range];
        product(d_k, d.transposed(), q, scaled);
        scratch.keys.product(d_q, d, from..from + n, scaled);
        if let Some(piece) = &mut scratch.relative {
            piece.add(problem, place, [scores, d_scores], grad, [d_q, d_k]);
        }
    }
}
