//! The interface between multi-head attention and the kinds that weigh its keys: queries, keys and values by heads, with their
//! relations.

use super::LayerCache;
use super::entropy::{self, WeighingArgs};
use crate::kernel::{self, AttentionOptions, KeyPattern, Pattern, Positional, ScoreBias};
use crate::nn::layer::LayerContext;
use crate::nn::state::LayerState;
use burn::tensor::Tensor;
use std::fmt::Debug;
use std::ops::Range;

/// A way to weigh the keys of multi-head attention, for kinds without parameters of their own.
pub trait KeyWeighing: Debug + Send + Sync {
    /// Returns the weighted values of all queries, `[batch, heads, queries, d_head]`.
    fn weigh(&self, attended: AttentionInputs, cx: &mut LayerContext) -> Tensor<4>;

    /// Returns for how many positions before a new one decoding keeps the keys; `None` if it keeps all of them.
    fn reach(&self) -> Option<usize> {
        None
    }

    /// Returns the decoding state before the first token. A kind with its own form of state is only handed the keys and values of
    /// new positions.
    fn empty_state(&self) -> LayerState {
        LayerState::decoding(LayerCache::default())
    }
}

/// Queries, keys and values, after rotation by their positions.
pub struct AttentionInputs {
    /// `[batch, heads, queries, d_head]`.
    pub q: Tensor<4>,
    /// `[batch, kv heads, keys, d_head]`.
    pub k: Tensor<4>,
    /// `[batch, kv heads, keys, d_head]`.
    pub v: Tensor<4>,
    /// Which keys a query sees, their positions, and what positions add to the scores.
    pub positional: Positional,
    /// Scale, soft cap, and dropout of the weights.
    pub options: AttentionOptions,
    /// Whether this is cross-attention, with keys and values from a memory.
    pub is_cross: bool,
    /// Position in the text of the first available key; decoding may have dropped the keys before it.
    pub first_key: usize,
}

impl AttentionInputs {
    /// Restricts queries to the keys of a pattern, which counts positions from the start of the text.
    #[must_use]
    pub fn restricted_to(mut self, of: impl KeyPattern + 'static) -> Self {
        let pattern = Pattern::new(of).without_first(self.first_key);
        self.positional.visible.pattern = Some(pattern);
        self
    }

    /// Applies softmax attention over the visible keys of each query and returns `[batch, heads, queries, d_head]`. The pass
    /// reads and records the weights if asked to.
    pub fn softmax(self, cx: &LayerContext) -> Tensor<4> {
        self.softmax_with(cx, |weights| weights)
    }

    /// Like [`Self::softmax`], but the pass records the result of `weights` on all weights.
    pub(super) fn softmax_with(
        self,
        cx: &LayerContext,
        weights: impl FnOnce(Tensor<4>) -> Tensor<4>,
    ) -> Tensor<4> {
        self.observe_with(cx, weights);
        kernel::attention(self.q, self.k, self.v, self.positional, self.options)
    }

    /// Lets the pass read and record the weights of softmax attention, if it is asked to.
    pub fn observe(&self, cx: &LayerContext) {
        self.observe_with(cx, |weights| weights);
    }

    fn observe_with(&self, cx: &LayerContext, weights: impl FnOnce(Tensor<4>) -> Tensor<4>) {
        let weighing = self.weighing(false);
        entropy::note_entropy(cx.pass, &weighing);
        entropy::record_weights(cx.pass, cx.layer, &weighing, weights);
    }

    fn weighing(&self, summaries: bool) -> WeighingArgs<'_> {
        WeighingArgs {
            q: &self.q,
            k: &self.k,
            relations: &self.positional,
            options: self.options,
            is_cross: self.is_cross,
            keys_are_summaries: summaries,
        }
    }

    /// Like [`Self::softmax`], for keys that each stand for several positions. The pass reads the entropy of their weights but
    /// records none: a record holds one weight per position.
    pub fn softmax_over_summaries(self, cx: &LayerContext) -> Tensor<4> {
        entropy::note_entropy(cx.pass, &self.weighing(true));
        kernel::attention(self.q, self.k, self.v, self.positional, self.options)
    }

    /// Returns the sizes `[batch, heads, queries, keys, d_head]`.
    pub fn dims(&self) -> [usize; 5] {
        let ([batch, heads, queries, d_head], [_, _, keys, _]) = (self.q.dims(), self.k.dims());
        [batch, heads, queries, keys, d_head]
    }

    /// Selects some query heads; each must have its own keys and values.
    pub fn heads(&self, heads: Range<usize>) -> Self {
        let of = |x: &Tensor<4>| x.clone().narrow(1, heads.start, heads.len());
        let bias = match &self.positional.bias {
            ScoreBias::None => ScoreBias::None,
            ScoreBias::ByDistance(bias) => {
                ScoreBias::ByDistance(bias.clone().narrow(0, heads.start, heads.len()))
            }
            ScoreBias::Dense(bias) => ScoreBias::Dense(of(bias)),
        };
        let sinks = self.positional.sinks.clone();
        let sinks = sinks.map(|all| all.narrow(0, heads.start, heads.len()));
        Self {
            q: of(&self.q),
            k: of(&self.k),
            v: of(&self.v),
            positional: Positional {
                bias,
                sinks,
                ..self.positional.clone()
            },
            ..*self
        }
    }

    /// Repeats keys and values so that each query head has its own.
    pub fn repeat_kv_heads(self) -> Self {
        let [batch, heads, _, keys, d_head] = self.dims();
        let kv_heads = self.k.dims()[1];
        if kv_heads == heads {
            return self;
        }
        let group = heads / kv_heads;
        let each = |x: Tensor<4>| {
            let x: Tensor<5> = x.reshape([batch, kv_heads, 1, keys, d_head]);
            let x = x.expand([batch, kv_heads, group, keys, d_head]);
            x.reshape([batch, heads, keys, d_head])
        };
        Self {
            k: each(self.k),
            v: each(self.v),
            ..self
        }
    }
}
