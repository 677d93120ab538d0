//! Attention whose weights are products of features (linear attention), at a cost proportional to the length: y_i =
//! Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j) over the keys that query i sees (Katharopoulos et al. 2020,
//! arXiv:2006.16236, equations 4 to 6, and 8 to 12 for causal models).
//!
//! The sums Σ φ(k_j) v_jᵀ are a matrix for each head. If all queries see the same keys there is one such matrix; in
//! causal attention it grows from position to position. The flex kernel scans chunks of positions: within a chunk
//! queries are multiplied with keys, and between chunks the sums are carried, forward for queries and backward for
//! keys and values. Features, too, are computed chunk by chunk, and recomputed in the backward pass. Memory holds
//! neither the features of all positions nor a sum for each.
//!
//! A document starts with sums of zero. [`RunningSums`] are the sums as a value, for decoding.

pub mod composed;
#[cfg(feature = "flex")]
pub mod extension;
mod running;
#[cfg(feature = "flex")]
mod tracked;

use std::ops::Range;
use std::sync::Arc;

#[cfg(feature = "flex")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::Visibility;
#[cfg(feature = "flex")]
use super::{extension::Maybe, has_flex_kernels};
#[cfg(feature = "flex")]
use extension::PrefixSumsOps;
pub use running::RunningSums;

/// The features of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Features {
    /// The vectors themselves, whose elements must not be negative.
    Identity,
    /// elu(x) + 1: x + 1 above 0, eˣ below.
    Elu,
    /// Positive random features of the softmax (Choromanski et al. 2021, arXiv:2009.14794, lemma 1), over the rows w
    /// of a projection and x̂ = √scale·x: `exp(w·x̂ − |x̂|²/2 − max_w w·x̂) + eps` for a query,
    /// `exp(w·x̂ − |x̂|²/2 − c) + eps` for a key.
    ///
    /// c is the largest w·x̂ of all keys that the query sees. This follows the authors' code and performer-pytorch,
    /// except that keys that a query does not see are left out. So no later position or other document affects a
    /// query, and an earlier output is that of the shorter text. c is at least −80, and w·x̂ − |x̂|²/2, which is at
    /// most |w|²/2, is capped at 80. No gradient passes through a maximum.
    Exponential {
        /// Factor of the scores whose softmax is estimated.
        scale: f64,
        /// Constant added to each feature.
        eps: f64,
    },
    /// relu(w·x̂) + eps over the rows w of a projection (generalised attention, section 4 of the same paper).
    Rectified {
        /// Factor of the scores.
        scale: f64,
        /// Constant added to each feature.
        eps: f64,
    },
}

impl Features {
    /// Returns whether the features are products with the rows of a projection.
    pub fn are_projected(self) -> bool {
        matches!(self, Self::Exponential { .. } | Self::Rectified { .. })
    }
}

/// Minimum of c of [`Features::Exponential`].
pub(super) const MIN_SHIFT: f32 = -80.0;

/// Maximum exponent of a key's feature.
pub(super) const MAX_EXPONENT: f32 = 80.0;

/// The features, with the projection they use.
#[derive(Clone, Debug)]
pub struct FeatureMap {
    /// Kind of the features.
    pub features: Features,
    /// Random vectors as rows, `[features, d]`, for projected features. They receive no gradient.
    pub projection: Option<Tensor<2>>,
}

impl FeatureMap {
    /// Returns features without a projection.
    pub fn plain(features: Features) -> Self {
        Self {
            features,
            projection: None,
        }
    }

    fn require(&self, d: usize) {
        let projected = self.projection.as_ref().map(|w| w.dims()[1]);
        let wanted = self.features.are_projected().then_some(d);
        assert_eq!(projected, wanted, "the projection of features");
    }
}

/// Consecutive queries of a row that see the same keys or, in causal attention, those of them that are not later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryRun {
    /// Range of positions of the queries.
    pub queries: Range<usize>,
    /// Range of positions of the keys; in causal attention it starts with the queries.
    pub keys: Range<usize>,
}

/// The runs of each row. Every query is in exactly one of them, and so is every key that is seen.
#[derive(Clone, Debug)]
pub struct QueryRuns(Arc<[Vec<QueryRun>]>);

impl QueryRuns {
    /// Divides rows, queries and keys into runs: one per row, or one per document.
    ///
    /// # Panics
    /// If a query sees other keys than those of its document up to a length, or up to its own position.
    pub fn from_visibility(visible: &Visibility, [rows, queries, keys]: [usize; 3]) -> Self {
        let plain =
            visible.prefix.is_none() && visible.window.is_none() && visible.pattern.is_none();
        assert!(plain, "sums of features have no window, prefix or pattern");
        let alike = queries == keys || !visible.causal && visible.documents.is_none();
        assert!(alike, "queries and keys at the same positions");
        let of_row = |row: usize| {
            let length = visible.lengths.as_ref().map_or(keys, |all| all[row]);
            let run = |queries: Range<usize>, keys: Range<usize>| QueryRun {
                queries,
                keys: keys.start.min(length)..keys.end.min(length),
            };
            let Some(documents) = &visible.documents else {
                return vec![run(0..queries, 0..keys)];
            };
            let numbers = documents.row(row);
            let mut start = 0;
            let of_document = |document: &[i32]| {
                let positions = start..start + document.len();
                start = positions.end;
                run(positions.clone(), positions)
            };
            let documents = numbers.chunk_by(|a, b| a == b);
            documents.map(of_document).collect()
        };
        Self((0..rows).map(of_row).collect())
    }

    /// Returns the runs of a row.
    pub fn row(&self, row: usize) -> &[QueryRun] {
        &self.0[row]
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.0.len()
    }
}

/// Attention by features of q `[B, H, Q, D]` over k `[B, H_kv, K, D]` and v `[B, H_kv, K, E]`, where H_kv divides H.
/// All three may be differentiated. The result is `[B, H, Q, E]`; a query that sees no key gives zeros.
///
/// The visibility may use causality, lengths, and documents that each are contiguous.
///
/// # Panics
/// If the shapes do not fit each other, or the visibility uses other rules.
pub fn linear_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    map: &FeatureMap,
    visible: &Visibility,
) -> Tensor<4> {
    let ([batch, heads, queries, d], [_, kv_heads, keys, width]) = (q.dims(), v.dims());
    assert_eq!(k.dims(), [batch, kv_heads, keys, d], "keys of attention");
    assert_eq!(v.dims()[0], batch, "values of attention");
    assert_eq!(heads % kv_heads, 0, "key-value heads divide the heads");
    assert!(
        visible.fits([batch, heads], keys),
        "visibility of attention"
    );
    map.require(d);
    let runs = QueryRuns::from_visibility(visible, [batch, queries, keys]);
    if queries == 0 || width == 0 {
        return Tensor::zeros([batch, heads, queries, width], &q.device());
    }
    #[cfg(feature = "flex")]
    if has_flex_kernels(&q) {
        let settings = extension::FeatureSettings {
            features: map.features,
            causal: visible.causal,
            runs,
        };
        let projection = match &map.projection {
            // If the projection has a graph, it ends here.
            Some(w) => Maybe::Some(w.clone().detach().into_dispatch()),
            None => Maybe::None,
        };
        let [q, k, v] = [q, k, v].map(Tensor::into_dispatch);
        let out = Dispatch::weighed_by_features(q, k, v, projection, settings);
        return Tensor::from_dispatch(out);
    }
    drop(runs);
    composed::linear_attention(q, k, v, map, visible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Documents;

    #[test]
    fn runs_are_documents_up_to_the_length() {
        let visible = Visibility {
            causal: true,
            lengths: Some([4, 6].into()),
            documents: Some(Documents::new(&[1, 1, 2, 2, 2, 3, 7, 7, 7, 7, 7, 7], 6)),
            ..Visibility::default()
        };
        let runs = QueryRuns::from_visibility(&visible, [2, 6, 6]);
        let run = |queries, keys| QueryRun { queries, keys };
        assert_eq!(
            runs.row(0),
            [run(0..2, 0..2), run(2..5, 2..4), run(5..6, 4..4)]
        );
        assert_eq!(runs.row(1), [run(0..6, 0..6)]);
        let memory = QueryRuns::from_visibility(&Visibility::from_lengths(&[3]), [1, 2, 5]);
        assert_eq!(memory.row(0), [run(0..2, 0..3)]);
    }
}
