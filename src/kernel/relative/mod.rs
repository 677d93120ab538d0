//! Scores and values that depend, through vectors, on the distance of a key from its query: Shaw et al. 2018
//! (equations 3 and 4), Transformer-XL (Dai et al. 2019, section 3.3), DeBERTa (He et al. 2021, section 3.1).
//!
//! Let r(i, j) be the table row for the distance of key j from query i. Then every score is
//!
//! ```text
//! scale·factor·((q_i + u)·k_j + (q_i + v)·queries[r(i, j)] + k_j·keys[r(i, j)])
//! ```
//!
//! and `values[r(i, j)]` is added to the value of key j. Each term may be absent. Tables have one row for each
//! distance that is distinguished, never one for each pair.

#[cfg(feature = "kernels")]
pub mod extension;
#[cfg(feature = "kernels")]
mod tracked;

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorData};

#[cfg(feature = "kernels")]
use super::extension::{AttentionSettings, maybe};
use super::score_bias::{diagonals_to_pairs, pairs_to_diagonals};
use super::{QuerySelection, Span};
#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
#[cfg(feature = "kernels")]
use extension::{DistanceTensors, RelativeSettings};

/// The table row for each diagonal of the scores ([`Span::distances`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistanceRows(Arc<[u32]>);

impl DistanceRows {
    /// Creates the rows of a span from a function of the distance, that is, how many positions a key is after its
    /// query. The function must be monotonic.
    pub fn new(span: Span, row: impl Fn(i64) -> usize) -> Self {
        let diagonals = 0..span.distances();
        let each = diagonals.map(|diagonal| row(span.distance(diagonal)) as u32);
        let rows: Arc<[u32]> = each.collect();
        assert!(
            rows.is_sorted() || rows.iter().rev().is_sorted(),
            "rows rise or fall with the distance"
        );
        Self(rows)
    }

    /// Returns the rows by diagonal; they are monotonic.
    pub fn by_diagonal(&self) -> &[u32] {
        &self.0
    }

    fn fit(&self, span: Span, rows: usize) -> bool {
        let inside = self.0.iter().all(|row| (*row as usize) < rows);
        self.0.len() == span.distances() && inside
    }
}

/// A table of vectors by distance.
#[derive(Clone, Debug)]
pub struct DistanceTable {
    /// Vectors, `[1 or H, rows, D]`.
    pub table: Tensor<3>,
    /// Row of each diagonal.
    pub rows: DistanceRows,
}

impl DistanceTable {
    /// Returns a vector for each diagonal, `[1 or H, Q + K − 1, D]`.
    fn by_diagonal(&self) -> Tensor<3> {
        self.selected(&self.rows.0)
    }

    fn selected(&self, rows: &[u32]) -> Tensor<3> {
        let numbers: Vec<i32> = rows.iter().map(|row| *row as i32).collect();
        let numbers = TensorData::new(numbers, [rows.len()]);
        let numbers = Tensor::<1, Int>::from_data(numbers, &self.table.device());
        self.table.clone().select(1, numbers)
    }

    fn untracked(&self) -> Self {
        Self {
            table: super::untracked(self.table.clone()),
            rows: self.rows.clone(),
        }
    }

    fn fits(&self, span: Span, [heads, d_head]: [usize; 2]) -> bool {
        let [of_heads, rows, width] = self.table.dims();
        (of_heads == 1 || of_heads == heads) && width == d_head && self.rows.fit(span, rows)
    }
}

/// The tensors by distance that contribute to scores and values.
#[derive(Clone, Debug, Default)]
pub struct Relative {
    /// Additional factor of all scores, if not 1: DeBERTa divides by the root of the number of its terms.
    pub factor: Option<f64>,
    /// u, added to the queries before they are multiplied with keys, `[H, D]`.
    pub content_shift: Option<Tensor<2>>,
    /// v, added to the queries before they are multiplied with vectors by distance, `[H, D]`.
    pub distance_shift: Option<Tensor<2>>,
    /// Table that is multiplied with queries.
    pub queries: Option<DistanceTable>,
    /// Table that is multiplied with keys.
    pub keys: Option<DistanceTable>,
    /// Table that is added to values.
    pub values: Option<DistanceTable>,
}

impl Relative {
    /// Returns the factor of all scores.
    pub fn factor(&self) -> f64 {
        self.factor.unwrap_or(1.0)
    }

    /// Returns the same tensors without their autodiff graphs.
    #[must_use]
    pub fn untracked(&self) -> Self {
        let shift = |x: &Option<Tensor<2>>| x.clone().map(super::untracked);
        let table = |x: &Option<DistanceTable>| x.as_ref().map(DistanceTable::untracked);
        Self {
            factor: self.factor,
            content_shift: shift(&self.content_shift),
            distance_shift: shift(&self.distance_shift),
            queries: table(&self.queries),
            keys: table(&self.keys),
            values: table(&self.values),
        }
    }

    /// Returns whether the tensors fit attention of these heads and head width.
    pub(super) fn fits(&self, span: Span, shape: [usize; 2]) -> bool {
        let shifts = [&self.content_shift, &self.distance_shift];
        let tables = [&self.queries, &self.keys, &self.values];
        let shifted = shifts.into_iter().flatten().all(|x| x.dims() == shape);
        shifted && tables.into_iter().flatten().all(|x| x.fits(span, shape))
    }

    /// Splits the parts into tensors and settings for a kernel.
    #[cfg(feature = "kernels")]
    pub(super) fn into_tensors(
        self,
        attention: AttentionSettings,
    ) -> (DistanceTensors<Dispatch>, RelativeSettings) {
        let tables = [self.queries, self.keys, self.values];
        let rows = tables
            .each_ref()
            .map(|x| x.as_ref().map(|table| table.rows.clone()));
        let [queries, keys, values] = tables.map(|x| maybe(x.map(|table| table.table)));
        let tensors = DistanceTensors {
            content_shift: maybe(self.content_shift),
            distance_shift: maybe(self.distance_shift),
            queries,
            keys,
            values,
        };
        (tensors, RelativeSettings { attention, rows })
    }

    /// Returns the queries as they are multiplied with keys: `q + u`.
    pub(super) fn content_queries(&self, q: Tensor<4>) -> Tensor<4> {
        shifted(q, self.content_shift.as_ref())
    }

    /// Returns what the distance terms add to `q·kᵀ`, `[B, H, Q, K]`, before any factor; `k` is repeated for each
    /// query head.
    pub(super) fn scores(&self, q: &Tensor<4>, k: &Tensor<4>, span: Span) -> Option<Tensor<4>> {
        let of_queries = self.queries.as_ref().map(|table| {
            let q = shifted(q.clone(), self.distance_shift.as_ref());
            let vectors = table.by_diagonal().unsqueeze_dim::<4>(0);
            diagonals_to_pairs(q.matmul(vectors.transpose()), span)
        });
        let of_keys = self.keys.as_ref().map(|table| {
            // Seen from the key, distances have the opposite sign.
            let vectors = table.by_diagonal().flip([1]).unsqueeze_dim::<4>(0);
            let products = k.clone().matmul(vectors.transpose());
            let seen_from_keys = Span {
                queries: span.keys,
                keys: span.queries,
                offset: 0,
            };
            diagonals_to_pairs(products, seen_from_keys).transpose()
        });
        match (of_queries, of_keys) {
            (Some(x), Some(y)) => Some(x + y),
            (x, y) => x.or(y),
        }
    }

    /// Like [`Self::scores`], for chosen queries of one row, `[1, H, chosen, K]`: `q` holds the chosen queries, `k`
    /// the row's keys.
    pub(super) fn chosen_scores(
        &self,
        q: &Tensor<4>,
        k: &Tensor<4>,
        QuerySelection { queries, .. }: QuerySelection,
        span: Span,
    ) -> Option<Tensor<4>> {
        if self.queries.is_none() && self.keys.is_none() {
            return None;
        }
        let rows = queries.iter().enumerate().map(|(number, query)| {
            let first = span.queries - 1 - query;
            let of_query = Self {
                queries: self
                    .queries
                    .as_ref()
                    .map(|t| t.for_one_query(first, span.keys)),
                keys: self
                    .keys
                    .as_ref()
                    .map(|t| t.for_one_query(first, span.keys)),
                ..self.clone()
            };
            let alone = Span { queries: 1, ..span };
            of_query.scores(&q.clone().narrow(2, number, 1), k, alone)
        });
        Some(Tensor::cat(rows.flatten().collect(), 2))
    }

    /// Returns what the value vectors add to the output, `[B, H, Q, D]`, given the weights `[B, H, Q, K]`.
    pub(super) fn weighted_values(&self, weights: &Tensor<4>, span: Span) -> Option<Tensor<4>> {
        self.values.as_ref().map(|table| {
            let vectors = table.by_diagonal().unsqueeze_dim::<4>(0);
            pairs_to_diagonals(weights.clone(), span).matmul(vectors)
        })
    }
}

impl DistanceTable {
    /// Returns the table for one query, whose diagonals start at `first`.
    fn for_one_query(&self, first: usize, keys: usize) -> Self {
        Self {
            table: self.table.clone(),
            rows: DistanceRows(self.rows.0[first..first + keys].into()),
        }
    }
}

/// Returns `q + shift`, for `[B, H, Q, D]` and `[H, D]`.
fn shifted(q: Tensor<4>, shift: Option<&Tensor<2>>) -> Tensor<4> {
    match shift {
        Some(shift) => {
            let [heads, d_head] = shift.dims();
            q + shift.clone().reshape([1, heads, 1, d_head])
        }
        None => q,
    }
}
