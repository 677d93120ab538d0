//! Queries that distinguish keys of their own segment from others (Yang et al. 2019, XLNet, section 2.5).
//!
//! A score grows by (q_i + s)·e_own if query and key are of one segment, and by (q_i + s)·e_other if not. A term common to all
//! keys of a query does not change its weights, so adding (q_i + s)·(e_own − e_other) at the keys of the query's own segment is
//! equivalent. Heads get one more column for each segment: a query has that number in the column of its segment, a key has 1 in
//! its own, values have zeros. No tensor of pairs is made, and the kernels need not know about segments.

use crate::kernel::{DistanceTable, Relative};
use crate::nn::attention::AttentionInputs;
use crate::nn::position::SegmentVectors;
use burn::tensor::Tensor;

/// Columns are padded to a multiple of this, since kernels process values in groups.
const COLUMN_MULTIPLE: usize = 8;

impl AttentionInputs {
    /// Adds to the scores of keys in the query's own segment. `kinds` `[batch, seq, segments]` is 1 at the segment of each token.
    /// The results gain extra columns of zeros.
    pub(super) fn with_segment_scores(self, kinds: &Tensor<3>, told: SegmentVectors) -> Self {
        let [batch, heads, queries, keys, d_head] = self.dims();
        let kv_heads = self.k.dims()[1];
        let kinds = with_autodiff_of(kinds, &self.q);
        let [_, positions, segments] = kinds.dims();
        let columns = segments.next_multiple_of(COLUMN_MULTIPLE);
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
        let factor = segment_factors(&self.q, told);
        let more_of_queries = factor * last(queries);
        let more_of_keys = last(keys).expand([batch, kv_heads, keys, columns]);
        let more_of_values = Tensor::zeros([batch, kv_heads, keys, columns], &self.v.device());
        let mut relations = self.positional;
        relations.relative = relations
            .relative
            .map(|relative| pad_columns(relative, columns));
        debug_assert_eq!(more_of_queries.dims(), [batch, heads, queries, columns]);
        debug_assert_eq!(self.v.dims()[3], d_head);
        Self {
            q: Tensor::cat(vec![self.q, more_of_queries], 3),
            k: Tensor::cat(vec![self.k, more_of_keys], 3),
            v: Tensor::cat(vec![self.v, more_of_values], 3),
            positional: relations,
            ..self
        }
    }
}

/// Brings a tensor from the host to the autodiff state of `beside`.
fn with_autodiff_of(x: &Tensor<3>, beside: &Tensor<4>) -> Tensor<3> {
    match (x.is_autodiff(), beside.is_autodiff()) {
        (false, true) => Tensor::from_inner(x.clone()),
        (true, false) => x.clone().inner(),
        (true, true) | (false, false) => x.clone(),
    }
}

/// Returns (q + s)·(e_own − e_other) of each query, `[batch, heads, queries, 1]`.
fn segment_factors(q: &Tensor<4>, told: SegmentVectors) -> Tensor<4> {
    let [_, heads, _, d_head] = q.dims();
    let own = told.vectors.clone().narrow(0, 0, heads);
    let other = told.vectors.narrow(0, heads, heads);
    let apart = (own - other).reshape([1, heads, d_head, 1]);
    let shift = told.shift.reshape([1, heads, 1, d_head]);
    (q.clone() + shift).matmul(apart)
}

/// Widens the relative position terms to heads with `columns` more columns, which get zeros.
fn pad_columns(relative: Relative, columns: usize) -> Relative {
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
