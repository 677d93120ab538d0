//! Multi-head scaled dot-product attention: concat(head₁ … head_h)W^O with
//! head_i = softmax(scale·q_i k_iᵀ + bias)v_i (Vaswani et al. 2017, section 3.2).
//!
//! Fewer key-value heads than query heads make grouped-query (Ainslie et al. 2023) or, with one,
//! multi-query attention (Shazeer 2019). Queries and keys may be normalised per head (Henry et al. 2020)
//! and scores capped at c·tanh(s/c) (Gemma 2). A loss may drive heads apart (`diversity`).

use super::diversity;
use super::global_tokens::{self, GlobalHeads};
pub use super::heads::MultiHeadConfig;
use super::segments::SegmentMemory;
use super::{Attended, AttentionShape, Kind, LayerCache, Weighs};
use crate::kernel::{AttentionOptions, Operand, Relations, Visibility, Window};
use crate::nn::init::{Init, Role};
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::linear::Linear;
use crate::nn::norm::Norm;
use crate::nn::position::{Attending, Span, noted};
use crate::nn::state::{LayerState, StateUse};
use burn::module::Module;
use burn::tensor::Tensor;
use std::cell::Cell;
use std::sync::Arc;

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "multi_head",
    summary: "scaled dot products over all positions; n_kv_heads makes it grouped-query or multi-query",
    source: "Vaswani et al. 2017, section 3.2; Shazeer 2019; Ainslie et al. 2023",
    example: "{ kind = \"multi_head\", n_heads = 4, n_kv_heads = 2 }",
};

/// Multi-head attention with its parameters.
#[derive(Module, Debug)]
pub struct MultiHead {
    /// `[d_model, n_heads·d_head]`.
    pub query: Linear,
    /// `[d_memory, n_kv_heads·d_head]`, of which d_memory is d_model but in attention to another network's states.
    pub key: Linear,
    /// `[d_memory, n_kv_heads·d_head]`.
    pub value: Linear,
    /// `[n_heads·d_head, d_model]`.
    pub output: Linear,
    /// Norm on each head's queries, or on all of them together.
    pub query_norm: Norm,
    /// The same of keys.
    pub key_norm: Norm,
    /// Projections that global tokens have of their own.
    pub global: Option<GlobalHeads>,
    pub(super) n_heads: usize,
    pub(super) n_kv_heads: usize,
    d_head: usize,
    normed_across: bool,
    scale: f64,
    softcap: Option<f64>,
    pub(super) dropout: f64,
    head_diversity: f64,
    sees_globals: bool,
    #[module(skip)]
    window: Option<Window>,
    #[module(skip)]
    segments: Option<SegmentMemory>,
    #[module(skip)]
    weighs: Option<Arc<dyn Weighs>>,
}

impl MultiHead {
    /// Attention of a shape, with dropout on its weights.
    pub fn new(config: &MultiHeadConfig, shape: &AttentionShape, init: &Init) -> Self {
        let (d_model, d_memory) = (shape.d_model, shape.d_memory);
        let (heads, kv_heads) = (config.n_heads, config.n_kv_heads());
        let d_head = config.d_head(d_model);
        let bias = config.bias;
        let out_bias = config.out_bias.unwrap_or(bias);
        let key_bias = config.key_bias.unwrap_or(bias);
        let normed = |heads: usize| match config.qk_norm_across {
            true => config.qk_norm.init(heads * d_head, init),
            false => config.qk_norm.init(d_head, init),
        };
        Self {
            query: Linear::new(d_model, heads * d_head, bias, Role::Query { d_head }, init),
            key: Linear::new(d_memory, kv_heads * d_head, key_bias, Role::Inner, init),
            value: Linear::new(d_memory, kv_heads * d_head, bias, Role::Value, init),
            output: Linear::new(heads * d_head, d_model, out_bias, Role::Residual, init),
            query_norm: normed(heads),
            key_norm: normed(kv_heads),
            global: None,
            n_heads: heads,
            n_kv_heads: kv_heads,
            d_head,
            normed_across: config.qk_norm_across,
            scale: config.scale.unwrap_or(1.0 / (d_head as f64).sqrt()),
            softcap: config.softcap,
            dropout: shape.dropout,
            head_diversity: config.head_diversity,
            sees_globals: false,
            window: None,
            segments: config.segments(),
            weighs: None,
        }
    }

    /// The same attention to the keys of a window.
    pub fn within(self, window: Window) -> Self {
        Self {
            window: Some(window),
            ..self
        }
    }

    /// The same heads, whose keys a kind weighs in its own way.
    pub fn weighed(self, weighs: impl Weighs + 'static) -> Self {
        Self {
            weighs: Some(Arc::new(weighs)),
            ..self
        }
    }

    /// The same attention to the keys of global tokens, too, with the projections `own` that these have, or the same.
    pub(super) fn with_globals(self, own: Option<GlobalHeads>) -> Self {
        Self {
            sees_globals: true,
            global: own,
            ..self
        }
    }

    /// Whether it sees the tokens that a task marks as global.
    pub fn sees_globals(&self) -> bool {
        self.sees_globals
    }

    /// `[batch, seq, heads·d_head]` → `[batch, heads, seq, d_head]`, normalised.
    pub(super) fn split(&self, x: Tensor<3>, heads: usize, norm: Option<&Norm>) -> Tensor<4> {
        let [batch, seq, _] = x.dims();
        let x = match norm {
            None | Some(Norm::None(_)) => x,
            Some(norm) if self.normed_across => norm.forward(x),
            Some(norm) => norm.forward(x.reshape([batch, seq * heads, self.d_head])),
        };
        x.reshape([batch, seq, heads, self.d_head]).swap_dims(1, 2)
    }

    /// Keys and values of `source` `[batch, keys, d_model]`, by heads.
    fn keys_and_values(&self, source: Operand) -> (Tensor<4>, Tensor<4>) {
        let k = self.key.of(source.clone());
        let k = self.split(k, self.n_kv_heads, Some(&self.key_norm));
        let v = self.split(self.value.of(source), self.n_kv_heads, None);
        (k, v)
    }

    /// Which keys a query sees: of the model's, those in the window; a memory is seen as the model says.
    fn visible(&self, cx: &LayerContext) -> Visibility {
        let mut visible = cx.visible.clone();
        if cx.memory.is_none() {
            let trains = cx.pass.trains();
            let same_length = || self.segments.and_then(|segments| segments.window(trains));
            visible.window = self.window.clone().or_else(same_length);
            if self.sees_globals {
                visible = global_tokens::seen(visible, self.global.is_none());
            }
        }
        visible
    }
}

impl MultiHead {
    /// Queries of `x`, keys and values of what the context says, weighed by `weigh`, whose result
    /// `[batch, heads, queries, d_head]` goes through the output's matrix.
    pub fn forward_with(
        &self,
        x: Tensor<3>,
        cx: &mut LayerContext,
        weigh: impl FnOnce(Attended, &mut LayerContext) -> Tensor<4>,
    ) -> Tensor<3> {
        self.forward_reaching(x, cx, self.reach(), weigh)
    }

    /// [`Self::forward_with`] where decoding keeps the keys of so many positions before a query (of all when `None`), as
    /// the kind's own [`Layer::reach`] says.
    pub fn forward_reaching(
        &self,
        x: Tensor<3>,
        cx: &mut LayerContext,
        reach: Option<usize>,
        weigh: impl FnOnce(Attended, &mut LayerContext) -> Tensor<4>,
    ) -> Tensor<3> {
        let attended = self.attended(x, cx, reach);
        let offset = attended.relations.offset;
        // Of another length than the keys of a memory, queries have lengths of their own, which are not told.
        let lengths = attended.relations.visible.lengths.clone();
        let lengths = lengths.filter(|_| !attended.crossed);
        let y = weigh(attended, cx);
        if self.head_diversity > 0.0 && cx.state.is_none() {
            let of_queries = |length: &usize| length.saturating_sub(offset);
            let lengths: Option<Vec<usize>> =
                lengths.map(|lengths| lengths.iter().map(of_queries).collect());
            diversity::add(&y, lengths.as_deref(), self.head_diversity, cx.pass);
        }
        self.put_out(y)
    }

    /// The same of queries alone, for a kind that keeps what it needs of a memory's keys and values.
    pub fn forward_queries(
        &self,
        x: Tensor<3>,
        weigh: impl FnOnce(Tensor<4>) -> Tensor<4>,
    ) -> Tensor<3> {
        let q = self.split(self.query.forward(x), self.n_heads, Some(&self.query_norm));
        self.put_out(weigh(q))
    }

    /// Results by heads through the output's matrix.
    fn put_out(&self, y: Tensor<4>) -> Tensor<3> {
        let [batch, _, queries, _] = y.dims();
        let y = y.swap_dims(1, 2);
        self.output
            .forward(y.reshape([batch, queries, self.n_heads * self.d_head]))
    }

    /// Queries, keys and values by heads, turned by their positions, with their relations; a cache of decoding takes the new
    /// keys and values and gives those before them.
    fn attended(&self, x: Tensor<3>, cx: &mut LayerContext, reach: Option<usize>) -> Attended {
        let queries = x.dims()[1];
        let crossed = cx.memory.is_some();
        let cache = cx.state.as_deref_mut().and_then(LayerState::cache);
        let read = cache.filter(|_| !crossed).map(|cache| cache.len());
        let (q, k, v) = self.queries_keys_values(x, cx, reach);
        // The first keys that were read are not at hand any more.
        let keys = k.dims()[2];
        let dropped = cx.span.keys - keys;
        let span = Span {
            queries,
            keys,
            offset: cx.span.offset - dropped,
        };
        let visible = self.visible(cx).without_first(dropped);
        let cache = cx.state.as_deref_mut().and_then(LayerState::cache);
        let mut distances = cache.map(LayerCache::distances);
        let kept = distances.as_mut().map(|table| Cell::new(table.take()));
        let attending = Attending {
            layer: cx.owner,
            span,
            heads: self,
            prepared: cx.prepared,
            kept: kept.as_ref(),
            device: &q.device(),
            pass: cx.pass,
        };
        let relations = Relations {
            visible,
            offset: span.offset,
            bias: cx
                .position
                .score_bias(&attending)
                .unwrap_or_else(|| cx.prepared.score_bias.without_first(dropped)),
            relative: cx.position.relative(&attending),
        };
        if !crossed {
            noted::bias(cx.pass, cx.layer, queries, &relations.bias);
        }
        if let (Some(table), Some(kept)) = (distances, kept) {
            *table = kept.into_inner();
        }
        let options = AttentionOptions {
            scale: self.scale,
            softcap: self.softcap,
            dropout: cx.pass.key("weights", self.dropout),
        };
        Attended {
            q,
            k,
            v,
            relations,
            options,
            crossed,
            first: read.map_or(0, |read| read - span.offset),
        }
    }

    /// Queries of `x`, keys and values of all that it looks at.
    fn queries_keys_values(
        &self,
        x: Tensor<3>,
        cx: &mut LayerContext,
        reach: Option<usize>,
    ) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
        let crossed = cx.memory.is_some();
        let with_earlier = |earlier| Tensor::cat(vec![earlier, x.clone()], 1);
        let earlier = cx.earlier.take().map(with_earlier);
        let others = cx.memory.cloned().or(earlier).or(cx.sources.take());
        let x = Operand::new(x);
        let q = self.query.of(x.clone());
        let q = self.split(q, self.n_heads, Some(&self.query_norm));
        let source = || others.map_or(x, Operand::new);
        let cache = cx.state.as_deref_mut().and_then(LayerState::cache);
        match cache {
            Some(cache) if crossed => {
                let (k, v) = cache.kept(|| self.keys_and_values(source()));
                (q, k, v)
            }
            cache => {
                let (k, v) = self.keys_and_values(source());
                let [q, k, v] = match (&cx.prepared.rotation, cx.turned) {
                    (_, Some([of_queries, of_keys])) if crossed => {
                        [of_queries.turn(q), of_keys.turn(k), v]
                    }
                    (Some(rotation), _) => rotation.turned([q, k, v]),
                    (None, _) => [q, k, v],
                };
                match cache {
                    Some(cache) => {
                        let (k, v) = cache.append(k, v, reach);
                        (q, k, v)
                    }
                    None => (q, k, v),
                }
            }
        }
    }
}

impl Layer for MultiHead {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        match &self.global {
            Some(own) if cx.memory.is_none() => self.forward_global(own, x, cx),
            _ => self.forward_with(x, cx, |attended, cx| match &self.weighs {
                Some(weighs) => weighs.weigh(attended, cx),
                None => attended.softmax(cx),
            }),
        }
    }

    fn reach(&self) -> Option<usize> {
        let window = self.window.as_ref().map(Window::reach);
        let segments = self.segments.and_then(SegmentMemory::reach);
        let kind = self.weighs.as_ref().and_then(|weighs| weighs.reach());
        [window, segments, kind].into_iter().flatten().min()
    }

    fn empty_state(&self, of: StateUse) -> LayerState {
        match of {
            StateUse::Decoding => match &self.weighs {
                Some(weighs) => weighs.empty_state(),
                None => LayerState::keeping(LayerCache::default()),
            },
            StateUse::Segments => LayerState::None,
        }
    }
}
