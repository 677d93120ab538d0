//! The forward pass: queries read the sums before their chunk and the keys in it.

use std::sync::Arc;

use burn::backend::ops::FloatTensorOps;
use burn_flex::{Flex, FlexTensor};

use super::features::row_of;
use super::sums::{Affine, Keys, OtherParts, PlusTimes, Sums};
use super::{CHUNK, Chunk, Problem};
use crate::kernel::flex::buffer::{SharedBuffer, scratch_buffer, tensor, zeros};
use crate::kernel::flex::product::{Matrix, WriteMode, product};
use crate::kernel::flex::simd::map_in_place;

/// The outputs.
struct Outputs {
    /// Output, `[B, Q, H, E]`.
    out: SharedBuffer,
    /// Sums of weights, `[B, H, Q]`.
    totals: SharedBuffer,
    /// c of each query, `[B, H_kv, Q]`.
    bounds: SharedBuffer,
}

/// Returns the output, the sums of weights `[B, H, Q]` and each query's c `[B, H_kv, Q]`.
pub fn forward(problem: &Problem) -> [FlexTensor; 3] {
    let [batch, heads, queries, _] = problem.q.dims;
    let (kv_heads, d) = (problem.kv_heads(), problem.v.dims[3]);
    let mut out = zeros(batch * queries * heads * d);
    let mut totals = zeros(batch * heads * queries);
    let mut bounds = zeros(batch * kv_heads * queries);
    let outputs = Outputs {
        out: SharedBuffer::new(&mut out),
        totals: SharedBuffer::new(&mut totals),
        bounds: SharedBuffer::new(&mut bounds),
    };
    let begins = key_sums(problem);
    problem.for_each_item(problem.items(), |item| {
        forward_part(problem, item, begins[item].as_ref(), &outputs);
    });
    let out = tensor(out, [batch, queries, heads, d]);
    [
        Flex::float_swap_dims(out, 1, 2),
        tensor(totals, [batch, heads, queries]),
        tensor(bounds, [batch, kv_heads, queries]),
    ]
}

/// Returns the sums of keys that each piece of work starts with.
pub fn key_sums(problem: &Problem) -> Vec<Option<Arc<Sums>>> {
    let others = match problem.causal {
        true => OtherParts::Before,
        false => OtherParts::All,
    };
    problem.initial_sums(others, |item| problem.sums_of_keys(item))
}

fn forward_part(problem: &Problem, item: usize, begin: Option<&Arc<Sums>>, outputs: &Outputs) {
    let (place, head) = problem.item(item);
    let mut sums = problem.owned_sums(begin, || problem.sums_of_keys(item));
    let mut keys = Keys::new(problem);
    let mut queries = scratch_buffer(CHUNK * problem.map.width);
    let mut weighed = scratch_buffer(CHUNK * problem.width());
    let mut weights = scratch_buffer(CHUNK * CHUNK);
    for chunk in problem.chunks(place) {
        keys.read(problem, [place.row, head], chunk.keys.clone());
        let bounds = bounds(&sums, &keys, chunk.queries.len());
        let [_, heads, positions, _] = problem.q.dims;
        let at = (place.row * problem.kv_heads() + head) * positions + chunk.queries.start;
        if problem.map.exponential().is_some() {
            // SAFETY: only this piece of work writes these queries of this head, and only in this chunk.
            let to = unsafe { outputs.bounds.row(at, chunk.queries.len()) };
            to.copy_from_slice(&bounds[..chunk.queries.len()]);
        }
        for query_head in problem.group(head) {
            let step = Step {
                problem,
                chunk: &chunk,
                place: [place.row, query_head],
                sums: &sums,
                keys: &keys,
                bounds: &bounds,
            };
            let weighed = &mut weighed[..chunk.queries.len() * problem.width()];
            step.weigh(&mut queries, &mut weights, weighed);
            let rows = chunk.queries.clone().zip(weighed.chunks(problem.width()));
            for (query, row) in rows {
                let (values, total) = row.split_at(row.len() - 1);
                let (at, d) = (
                    (place.row * positions + query) * heads + query_head,
                    values.len(),
                );
                let of_total = (place.row * heads + query_head) * positions + query;
                // SAFETY: as above, for this query head.
                let (to, sum) =
                    unsafe { (outputs.out.row(at * d, d), outputs.totals.row(of_total, 1)) };
                sum[0] = total[0];
                let factor = if total[0] == 0.0 { 0.0 } else { 1.0 / total[0] };
                to.iter_mut().zip(values).for_each(|(y, x)| *y = x * factor);
            }
        }
        keys.add_to(&mut sums);
    }
}

/// Returns c of each query of a chunk: the largest product of the keys that it sees.
fn bounds(sums: &Sums, keys: &Keys, queries: usize) -> [f32; CHUNK] {
    let mut bounds = [sums.largest; CHUNK];
    let mut largest = sums.largest;
    for (query, bound) in bounds.iter_mut().enumerate().take(queries) {
        if query < keys.len {
            largest = largest.max(keys.largest(query));
        }
        *bound = largest;
    }
    bounds
}

/// A chunk of queries of one head.
struct Step<'a> {
    problem: &'a Problem,
    chunk: &'a Chunk,
    place: [usize; 2],
    sums: &'a Sums,
    keys: &'a Keys,
    bounds: &'a [f32],
}

impl Step<'_> {
    /// Computes the weighted sums of (v, 1).
    fn weigh(&self, features: &mut [f32], weights: &mut [f32], weighed: &mut [f32]) {
        let problem = self.problem;
        let (n, len) = (self.chunk.queries.len(), self.keys.len);
        let wide = problem.map.width;
        let [row, head] = self.place;
        let q = problem.q.rows(row, head, self.chunk.queries.start, n);
        let features = &mut features[..n * wide];
        let mut shares = [0.0; CHUNK];
        problem.map.of_queries(q, features, &mut shares[..n]);
        let features = Matrix::rows(features, [n, wide]);
        product(
            weighed,
            features,
            self.sums.matrix().transposed(),
            WriteMode::TILE,
        );
        let exponential = problem.map.exponential().is_some();
        let factor = |query: usize| (-self.bounds[query]).exp();
        if exponential {
            let rows = weighed.chunks_exact_mut(problem.width()).enumerate();
            for (query, row) in rows {
                map_in_place(Affine(factor(query), 0.0), row, []);
                map_in_place(PlusTimes(shares[query]), row, [&self.sums.plain]);
            }
        }
        if len == 0 {
            return;
        }
        let weights = &mut weights[..n * len];
        product(
            weights,
            features,
            self.keys.matrix().transposed(),
            WriteMode::TILE,
        );
        for (query, row) in weights.chunks_exact_mut(len).enumerate() {
            let (seen, later) = row.split_at_mut((query + 1).min(len));
            later.fill(0.0);
            if exponential {
                map_in_place(Affine(factor(query), shares[query]), seen, []);
            }
        }
        let weights = Matrix::rows(weights, [n, len]);
        product(weighed, weights, self.keys.values(), WriteMode::ADD_TILE);
    }
}

/// Returns the elements of a row and head in a tensor indexed by head and query, such as the totals.
pub fn numbers_of(all: &[f32], [row, head]: [usize; 2], [heads, queries]: [usize; 2]) -> &[f32] {
    row_of(
        Matrix::rows(all, [all.len() / queries.max(1), queries]),
        row * heads + head,
    )
}
