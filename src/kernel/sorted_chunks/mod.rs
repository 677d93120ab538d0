//! Attention in sorted chunks: the core of attention by locality-sensitive hashing (Kitaev et al. 2020, Reformer,
//! section 2).
//!
//! The positions of a row are sorted several times, in rounds. Each order is divided into chunks, and a query sees
//! the keys of its own chunk and of the neighbouring chunks in the ring of all rounds' chunks. Its weights are one
//! softmax over the keys of all rounds, in which a key counts as often as it is met; this equals the sum of the
//! rounds' outputs weighted by their log-sum-exps. A query attends to itself only if it meets no other key that it
//! may see: its score with itself is [`SELF_SCORE`].
//!
//! Only tiles are ever in memory: time and memory grow with `rounds·tokens·window`.

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

/// A query's score with itself, lower than all others.
pub const SELF_SCORE: f32 = -1e5;

/// How positions meet, and how scores become weights.
#[derive(Clone, Debug)]
pub struct SortedSettings {
    /// Sorted order of the positions.
    pub plan: SortedChunks,
    /// Causality, lengths, documents and prefixes; keys masked by them are not seen even if they are met.
    pub visible: Visibility,
    /// Factor of the scores.
    pub scale: f64,
    /// Dropout of individual weights, indexed by their places in the chunks.
    pub dropout: Option<DropKey>,
    /// First query whose output is wanted.
    pub first: usize,
}

impl SortedSettings {
    /// Returns the key position before which a query of a row sees the keys that it meets, ignoring documents.
    pub(super) fn limit(&self, row: usize, query: usize) -> usize {
        let mut end = self.plan.sizes().tokens;
        if self.visible.causal {
            let prefix = self.visible.prefix.as_ref().map_or(0, |all| all[row]);
            end = end.min(prefix.max(query + 1));
        }
        let length = self.visible.lengths.as_ref().map(|all| all[row]);
        length.map_or(end, |length| end.min(length))
    }

    /// Returns the documents of a row's positions.
    pub(super) fn documents(&self, row: usize) -> Option<&[i32]> {
        self.visible
            .documents
            .as_ref()
            .map(|d| Documents::row(d, row))
    }

    /// Returns whether a query of a row sees another key that it meets.
    pub fn sees(&self, row: usize, query: usize, key: usize) -> bool {
        let together = |numbers: &[i32]| numbers[key] == numbers[query];
        key < self.limit(row, query) && self.documents(row).is_none_or(together)
    }

    /// Returns the range of queries whose outputs are wanted.
    pub fn wanted_queries(&self) -> Range<usize> {
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
        let queries = [of(tokens), of(self.wanted_queries().len())];
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

/// Attention of q over k and v, all `[B, H, T, D]`, in sorted chunks. All three may be differentiated. The result is
/// `[B, H, T − first, D]`. If no gradient is needed, q may hold only the wanted queries.
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
