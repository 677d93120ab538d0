//! Attention in sorted chunks: the core of locality-sensitive hashing (Kitaev et al. 2020, Reformer, section 2).
//!
//! The positions of a row are sorted several times, in rounds; each order is cut into chunks, and a query sees the keys of its
//! own chunk and of its neighbours in the ring of all rounds' chunks. Its weights are one softmax over the keys of all rounds,
//! each as often as it is met, which is the sum of the rounds' results weighted by their log-sum-exps. A query sees itself only
//! where it meets no other key that it may see: its own score is [`ALONE`].
//!
//! Tiles are all that is ever in memory at once: time and memory grow with `rounds·tokens·window`.

pub mod composed;
#[cfg(feature = "flex")]
pub mod extension;
mod plan;
#[cfg(feature = "flex")]
mod tracked;

use std::ops::Range;

#[cfg(feature = "flex")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

#[cfg(feature = "flex")]
use super::has_flex_kernels;
use super::{Documents, DropKey, Visibility};
#[cfg(feature = "flex")]
use extension::SortedOps;
pub use plan::{ChunkSizes, SortedChunks};

/// A query's score with itself, below all others.
pub const ALONE: f32 = -1e5;

/// How positions meet, and how scores become weights.
#[derive(Clone, Debug)]
pub struct SortedSettings {
    /// The order of positions.
    pub plan: SortedChunks,
    /// Causality, lengths, documents and prefixes; a key that it hides is not seen where it is met.
    pub visible: Visibility,
    /// Factor of the scores.
    pub scale: f64,
    /// Dropout of single weights, by their places in the chunks.
    pub dropout: Option<DropKey>,
    /// The first query that is wanted.
    pub first: usize,
}

impl SortedSettings {
    /// The keys before which a query of a row sees those that it meets, documents aside.
    pub(super) fn limit(&self, row: usize, query: usize) -> usize {
        let mut end = self.plan.sizes().tokens;
        if self.visible.causal {
            let prefix = self.visible.prefix.as_ref().map_or(0, |all| all[row]);
            end = end.min(prefix.max(query + 1));
        }
        let length = self.visible.lengths.as_ref().map(|all| all[row]);
        length.map_or(end, |length| end.min(length))
    }

    /// The documents of a row's positions.
    pub(super) fn documents(&self, row: usize) -> Option<&[i32]> {
        self.visible
            .documents
            .as_ref()
            .map(|d| Documents::row(d, row))
    }

    /// Whether a query of a row sees another key that it meets.
    pub fn sees(&self, row: usize, query: usize, key: usize) -> bool {
        let together = |numbers: &[i32]| numbers[key] == numbers[query];
        key < self.limit(row, query) && self.documents(row).is_none_or(together)
    }

    /// Queries that are wanted.
    pub fn wanted(&self) -> Range<usize> {
        self.first..self.plan.sizes().tokens
    }

    fn require(&self, q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>) {
        let ChunkSizes {
            rows,
            heads,
            tokens,
            ..
        } = self.plan.sizes();
        let [.., d_head] = q.dims();
        let of = |positions| [rows, heads, positions, d_head];
        let queries = [of(tokens), of(self.wanted().len())];
        assert!(queries.contains(&q.dims()), "queries as they are planned");
        for x in [k, v] {
            assert_eq!(x.dims(), of(tokens), "keys and values as they are planned");
        }
        assert!(self.first < tokens, "a query of sorted chunks");
        assert!(
            self.visible.window.is_none() && self.visible.pattern.is_none(),
            "chunks say which keys are met"
        );
        assert!(
            self.visible.fits([rows, heads], tokens),
            "visibility of sorted chunks"
        );
    }
}

/// Attention of q over k and v, all `[B, H, T, D]`, in sorted chunks; each may be differentiated. The result is
/// `[B, H, T − first, D]`. Where no gradient is asked for, q may be the wanted queries alone.
pub fn sorted_chunks(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    settings: SortedSettings,
) -> Tensor<4> {
    settings.require(&q, &k, &v);
    #[cfg(feature = "flex")]
    if has_flex_kernels(&q) {
        let [q, k, v] = [q, k, v].map(Tensor::into_dispatch);
        return Tensor::from_dispatch(Dispatch::sorted_attention(q, k, v, settings));
    }
    composed::sorted_chunks(q, k, v, &settings)
}
