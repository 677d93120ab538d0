//! Queries that tell keys of their own segment from others (Yang et al. 2019, XLNet, section 2.5).
//!
//! A score has (q_i + s)·e_own more where query and key are of one segment, and (q_i + s)·e_other where they are not. What all
//! keys of a query have in common leaves its weights as they are, so that (q_i + s)·(e_own − e_other) at the keys of its own
//! segment is the same. Heads get a column for each segment: a query that number in the column of its segment, a key 1 in its own,
//! values nothing. No tensor of pairs is made, and the kernels know nothing of segments.

use crate::kernel::{DistanceTable, Relative};
use crate::nn::attention::Attended;
use crate::nn::position::SegmentVectors;
use burn::tensor::Tensor;

/// Columns are a multiple of so many, as kernels take numbers together.
const TOGETHER: usize = 8;

impl Attended {
    /// The same whose queries tell keys of their own segment from others; `kinds` is 1 at the segment of each token,
    /// `[batch, seq, segments]`. Results are wider by columns of zeros.
    pub(super) fn telling(self, kinds: &Tensor<3>, told: SegmentVectors) -> Self {
        let [batch, heads, queries, keys, d_head] = self.dims();
        let kv_heads = self.k.dims()[1];
        let kinds = like(kinds, &self.q);
        let [_, positions, segments] = kinds.dims();
        let columns = segments.next_multiple_of(TOGETHER);
        let kinds = match columns - segments {
            0 => kinds,
            more => {
                let none = Tensor::zeros([batch, positions, more], &self.q.device());
                Tensor::cat(vec![kinds, none], 2)
            }
        };
        let last = |count: usize| {
            let of_last = kinds.clone().narrow(1, positions - count, count);
            of_last.unsqueeze_dim::<4>(1)
        };
        let factor = factors(&self.q, told);
        let more_of_queries = factor * last(queries);
        let more_of_keys = last(keys).expand([batch, kv_heads, keys, columns]);
        let more_of_values = Tensor::zeros([batch, kv_heads, keys, columns], &self.v.device());
        let mut relations = self.relations;
        relations.relative = relations
            .relative
            .map(|relative| widened(relative, columns));
        debug_assert_eq!(more_of_queries.dims(), [batch, heads, queries, columns]);
        debug_assert_eq!(self.v.dims()[3], d_head);
        Self {
            q: Tensor::cat(vec![self.q, more_of_queries], 3),
            k: Tensor::cat(vec![self.k, more_of_keys], 3),
            v: Tensor::cat(vec![self.v, more_of_values], 3),
            relations,
            ..self
        }
    }
}

/// Numbers of the host beside a tensor that may be tracked.
fn like(x: &Tensor<3>, beside: &Tensor<4>) -> Tensor<3> {
    match (x.is_autodiff(), beside.is_autodiff()) {
        (false, true) => Tensor::from_inner(x.clone()),
        (true, false) => x.clone().inner(),
        (true, true) | (false, false) => x.clone(),
    }
}

/// (q + s)·(e_own − e_other) of each query, `[batch, heads, queries, 1]`.
fn factors(q: &Tensor<4>, told: SegmentVectors) -> Tensor<4> {
    let [_, heads, _, d_head] = q.dims();
    let own = told.vectors.clone().narrow(0, 0, heads);
    let other = told.vectors.narrow(0, heads, heads);
    let apart = (own - other).reshape([1, heads, d_head, 1]);
    let shift = told.shift.reshape([1, heads, 1, d_head]);
    (q.clone() + shift).matmul(apart)
}

/// The share of distances in heads that are wider by so many columns, which have none.
fn widened(relative: Relative, columns: usize) -> Relative {
    let shift = |x: Tensor<2>| {
        let [heads, _] = x.dims();
        let zeros = Tensor::zeros([heads, columns], &x.device());
        Tensor::cat(vec![x, zeros], 1)
    };
    let table = |x: DistanceTable| {
        let [heads, rows, _] = x.table.dims();
        let zeros = Tensor::zeros([heads, rows, columns], &x.table.device());
        DistanceTable {
            table: Tensor::cat(vec![x.table, zeros], 2),
            rows: x.rows,
        }
    };
    Relative {
        factor: relative.factor,
        content_shift: relative.content_shift.map(shift),
        distance_shift: relative.distance_shift.map(shift),
        queries: relative.queries.map(table),
        keys: relative.keys.map(table),
        values: relative.values.map(table),
    }
}
