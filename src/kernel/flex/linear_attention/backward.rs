//! The backward pass. The gradients of queries are computed in a forward scan with the sums of keys. The gradients of
//! keys and values are computed in a backward scan with the sums over queries and their output gradients.
//!
//! With g' = (g, −g·y)/total, the gradient of a query's weighted sum of (v, 1), and γ = α g':
//! dφ(q_i) = S γ_i + Σ_j (γ_i·v'_j) φ(k_j), dφ(k_j) = R v'_j with R = Σ_i φ(q_i) γ_iᵀ, dv'_j = Rᵀφ(k_j) + Σ_i u_i
//! g'_i.

use std::sync::Arc;

use burn::backend::ops::FloatTensorOps;
use burn_flex::{Flex, FlexTensor};

use super::forward::key_sums;
use super::queries::{ChunkQueries, mask_later_keys};
use super::sums::{Affine, Keys, OtherParts, PlusTimes, Sum, Sums};
use super::{CHUNK, Chunk, Place, Problem, piece};
use crate::kernel::flex::attention_heads::Heads;
use crate::kernel::flex::attention_rows::dot;
use crate::kernel::flex::buffer::{SharedBuffer, contiguous, slice, tensor, zeros};
use crate::kernel::flex::linear_attention::features::row_of;
use crate::kernel::flex::product::{Matrix, WriteMode, product};
use crate::kernel::flex::simd::map_in_place;

/// The inputs and outputs of the pass.
pub struct BackwardArgs<'a> {
    /// The inputs of the forward pass.
    pub problem: &'a Problem,
    /// The output.
    pub out: Heads,
    /// Gradient of the output.
    pub grad: Heads,
    /// Sums of weights, `[B, H, Q]`.
    pub totals: &'a [f32],
    /// c, `[B, H_kv, Q]`.
    pub bounds: &'a [f32],
    d_q: SharedBuffer,
    d_k: SharedBuffer,
    d_v: SharedBuffer,
}

/// Returns the gradients of queries, keys and values.
pub fn backward(
    problem: &Problem,
    out: FlexTensor,
    grad: FlexTensor,
    numbers: [FlexTensor; 2],
) -> [FlexTensor; 3] {
    let [totals, bounds] = numbers.map(contiguous);
    let dims = [&problem.q, &problem.k, &problem.v].map(|x| x.dims);
    let mut all = dims.map(|dims| zeros(dims.iter().product()));
    let [d_q, d_k, d_v] = all.each_mut().map(|x| SharedBuffer::new(x));
    let work = BackwardArgs {
        problem,
        out: Heads::new(out),
        grad: Heads::new(grad),
        totals: slice(&totals),
        bounds: slice(&bounds),
        d_q,
        d_k,
        d_v,
    };
    let keys = key_sums(problem);
    let others = match problem.causal {
        true => OtherParts::After,
        false => OtherParts::All,
    };
    let queries = problem.initial_sums(others, |item| work.sums_of_queries(item));
    problem.for_each_item(problem.items(), |item| {
        work.queries(item, keys[item].as_ref());
        work.keys(item, queries[item].as_ref());
    });
    let mut all = all.into_iter().zip(dims);
    std::array::from_fn(|_| match all.next() {
        Some((x, [batch, heads, positions, d])) => {
            Flex::float_swap_dims(tensor(x, [batch, positions, heads, d]), 1, 2)
        }
        None => unreachable!("three tensors have three gradients"),
    })
}

impl BackwardArgs<'_> {
    /// Returns the sums of the queries of a piece of work.
    fn sums_of_queries(&self, item: usize) -> Sums {
        let (place, head) = self.problem.item(item);
        let mut sums = self.problem.no_sums();
        let mut queries = ChunkQueries::new(self.problem);
        let exponential = self.problem.map.exponential().is_some();
        for first in (0..place.queries.len()).step_by(CHUNK) {
            for query_head in self.problem.group(head) {
                let chunk = piece(&place.queries, first, CHUNK);
                queries.read(self, [place.row, query_head], chunk);
                queries.add_to(&mut sums, exponential);
            }
        }
        sums
    }

    /// Writes the gradients of the queries of a piece of work, starting with the given sums of keys.
    fn queries(&self, item: usize, begin: Option<&Arc<Sums>>) {
        let problem = self.problem;
        let (place, head) = problem.item(item);
        let mut sums = problem.owned_sums(begin, || problem.sums_of_keys(item));
        let mut keys = Keys::new(problem);
        let mut queries = ChunkQueries::new(problem);
        for chunk in problem.chunks(place) {
            keys.read(problem, [place.row, head], chunk.keys.clone());
            for query_head in problem.group(head) {
                let at = [place.row, query_head];
                queries.read(self, at, chunk.queries.clone());
                self.of_queries(at, chunk.queries.start, &queries, &keys, &sums);
            }
            keys.add_to(&mut sums);
        }
    }

    fn of_queries(
        &self,
        [row, head]: [usize; 2],
        first: usize,
        queries: &ChunkQueries,
        keys: &Keys,
        sums: &Sums,
    ) {
        let problem = self.problem;
        let (n, wide) = (queries.len, problem.map.width);
        let mut grad = vec![0.0; n * wide];
        product(&mut grad, queries.scaled(), sums.matrix(), WriteMode::TILE);
        if keys.len > 0 {
            let mut weights = vec![0.0; n * keys.len];
            queries.of_weights(keys, &mut weights);
            let weights = Matrix::rows(&weights, [n, keys.len]);
            product(&mut grad, weights, keys.matrix(), WriteMode::ADD_TILE);
        }
        let eps = problem.map.exponential();
        if let Some(eps) = eps {
            let mut values = sums.plain.clone();
            for (query, row) in grad.chunks_exact_mut(wide).enumerate() {
                if query < keys.len {
                    map_in_place(Sum, &mut values, [row_of(keys.values(), query)]);
                }
                let of_share = dot(queries.grad(query), &values);
                map_in_place(Affine(1.0, eps * of_share), row, []);
            }
        }
        let x = problem.q.rows(row, head, first, n);
        let features = (queries.features().data, eps.unwrap_or(0.0));
        let mut out = vec![0.0; n * problem.q.dims[3]];
        problem.map.backward(x, features, &mut grad, &mut out);
        // SAFETY: these queries of this head belong to one chunk of one piece of work.
        unsafe { put(&self.d_q, problem.q.dims, [row, head, first], &out) };
    }

    /// Writes the gradients of the keys and values of a piece of work, starting with the given sums of queries.
    fn keys(&self, item: usize, begin: Option<&Arc<Sums>>) {
        let problem = self.problem;
        let (place, head) = problem.item(item);
        let mut sums = problem.owned_sums(begin, || self.sums_of_queries(item));
        let mut keys = Keys::new(problem);
        let mut queries = ChunkQueries::new(problem);
        for chunk in self.backwards(place) {
            keys.read(problem, [place.row, head], chunk.keys.clone());
            let (len, wide, width) = (keys.len, problem.map.width, problem.width());
            let (mut d_f, mut d_v) = (vec![0.0; len * wide], vec![0.0; len * width]);
            product(&mut d_f, keys.values(), sums.matrix(), WriteMode::TILE);
            let onto = sums.matrix().transposed();
            product(&mut d_v, keys.matrix(), onto, WriteMode::TILE);
            for row in d_v.chunks_exact_mut(width) {
                map_in_place(Sum, row, [&sums.plain]);
            }
            for query_head in problem.group(head) {
                queries.read(self, [place.row, query_head], chunk.queries.clone());
                self.of_pairs(&queries, &keys, [&mut d_f, &mut d_v]);
                queries.add_to(&mut sums, problem.map.exponential().is_some());
            }
            self.put_keys([place.row, head, chunk.keys.start], &keys, &mut d_f, &d_v);
        }
    }

    /// Returns the chunks of a place from its end on: in causal attention keys with the queries at the same
    /// positions, else only keys.
    fn backwards(&self, place: &Place) -> Box<dyn Iterator<Item = Chunk>> {
        if self.problem.causal {
            return Box::new(self.problem.chunks(place).rev());
        }
        let keys = place.keys.clone();
        let of_keys = move |i| Chunk {
            queries: 0..0,
            keys: piece(&keys, i * CHUNK, CHUNK),
        };
        Box::new((0..place.keys.len().div_ceil(CHUNK)).map(of_keys))
    }

    /// Adds what the queries of a chunk contribute to the gradients of the chunk's keys: `d_f` of their features,
    /// `d_v` of their values.
    fn of_pairs(&self, queries: &ChunkQueries, keys: &Keys, [d_f, d_v]: [&mut [f32]; 2]) {
        let (n, len) = (queries.len, keys.len);
        if n == 0 || len == 0 {
            return;
        }
        let mut weights = vec![0.0; n * len];
        queries.of_weights(keys, &mut weights);
        let of_weights = Matrix::rows(&weights, [n, len]).transposed();
        product(d_f, of_weights, queries.features(), WriteMode::ADD_TILE);
        let onto = keys.matrix().transposed();
        product(&mut weights, queries.features(), onto, WriteMode::TILE);
        mask_later_keys(&mut weights, len);
        let weights = Matrix::rows(&weights, [n, len]).transposed();
        product(d_v, weights, queries.scaled(), WriteMode::ADD_TILE);
        if self.problem.map.exponential().is_some() {
            let width = self.problem.width();
            let mut later = vec![0.0; width];
            for query in (0..n).rev() {
                let share = PlusTimes(queries.shares[query]);
                map_in_place(share, &mut later, [queries.grad(query)]);
                if query < len {
                    let row = &mut d_v[query * width..][..width];
                    map_in_place(Sum, row, [&later]);
                }
            }
        }
    }

    /// Writes the gradients of a chunk's keys and values.
    fn put_keys(&self, at: [usize; 3], keys: &Keys, d_f: &mut [f32], d_v: &[f32]) {
        let problem = self.problem;
        let [row, head, first] = at;
        if keys.len == 0 {
            return;
        }
        let x = problem.k.rows(row, head, first, keys.len);
        let mut out = vec![0.0; keys.len * problem.k.dims[3]];
        let features = (keys.features(), 0.0);
        problem.map.backward(x, features, d_f, &mut out);
        let width = problem.width();
        let values = d_v.chunks_exact(width).flat_map(|row| &row[..width - 1]);
        let values: Vec<f32> = values.copied().collect();
        // SAFETY: these keys of this head belong to one chunk of one piece of work.
        unsafe {
            put(&self.d_k, problem.k.dims, at, &out);
            put(&self.d_v, problem.v.dims, at, &values);
        }
    }
}

/// Writes vectors of consecutive positions of a row and head to memory laid out as `[B, S, H, D]`.
///
/// # Safety
/// Nothing else may write these positions of the row and head.
unsafe fn put(
    to: &SharedBuffer,
    [_, heads, positions, d]: [usize; 4],
    [row, head, first]: [usize; 3],
    vectors: &[f32],
) {
    for (i, vector) in vectors.chunks_exact(d.max(1)).enumerate() {
        let at = ((row * positions + first + i) * heads + head) * d;
        // SAFETY: by the caller's promise.
        unsafe { to.row(at, d) }.copy_from_slice(vector);
    }
}
