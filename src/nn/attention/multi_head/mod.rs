//! Multi-head scaled dot-product attention: concat(head₁ … head_h)W^O with
//! head_i = softmax(scale·q_i k_iᵀ + bias)v_i (Vaswani et al. 2017, section 3.2).
//!
//! With fewer key-value heads than query heads this is grouped-query attention (Ainslie et al. 2023) or, with one, multi-query
//! attention (Shazeer 2019). Queries and keys may be normalised per head (Henry et al. 2020) and scores capped at c·tanh(s/c)
//! (Gemma 2). A head may attend to nothing ([`sinks`]), and its result may be gated ([`gate`]). A loss may drive heads apart
//! (`diversity`).

pub mod gate;
mod inputs;
mod same_segment;
pub mod sinks;

use super::diversity;
use super::global_tokens::{self, GlobalHeads};
pub use super::heads::MultiHeadConfig;
use super::segments::SegmentMemory;
use super::{AttentionInputs, AttentionShape, KeyWeighing, Kind, LayerCache};
use crate::kernel::{Operand, Visibility, Window};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::linear::Linear;
use crate::nn::norm::Norm;
use crate::nn::role::{BIAS, Roles};
use crate::nn::state::{LayerState, StateUse};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use sinks::Sinks;
use std::sync::Arc;

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "multi_head",
    summary: "scaled dot products over all positions; n_kv_heads makes it grouped-query or multi-query",
    source: "Vaswani et al. 2017, section 3.2; Shazeer 2019; Ainslie et al. 2023",
    example: "{ kind = \"multi_head\", n_heads = 4, n_kv_heads = 2 }",
};

/// Roles of the parameters of [`MultiHead`].
pub const ROLES: Roles = Roles::new("MultiHead", &[("sinks", BIAS)]);

/// Multi-head attention with its parameters.
#[derive(Module, Debug)]
pub struct MultiHead {
    /// Projection from d_model to n_heads·d_head.
    pub query: Linear,
    /// Projection from d_memory to n_kv_heads·d_head; d_memory equals d_model except in attention to another network's states.
    pub key: Linear,
    /// Projection from d_memory to n_kv_heads·d_head.
    pub value: Linear,
    /// Projection from n_heads·d_head to d_model.
    pub output: Linear,
    /// Norm on each head's queries, or on all of them together.
    pub query_norm: Norm,
    /// Norm on keys, likewise.
    pub key_norm: Norm,
    /// The map of the gate on results, if there is one.
    pub gate: Option<Linear>,
    /// Learned sink scores, `[n_heads]`.
    pub sinks: Option<Param<Tensor<1>>>,
    /// Separate projections of global tokens.
    pub global: Option<GlobalHeads>,
    pub(super) n_heads: usize,
    pub(super) n_kv_heads: usize,
    d_head: usize,
    normed_across: bool,
    scale: f64,
    clip: Option<f64>,
    softcap: Option<f64>,
    pub(super) dropout: f64,
    head_diversity: f64,
    sees_globals: bool,
    #[module(skip)]
    sinks_kind: Sinks,
    #[module(skip)]
    window: Option<Window>,
    #[module(skip)]
    segments: Option<SegmentMemory>,
    #[module(skip)]
    weighs: Option<Arc<dyn KeyWeighing>>,
}

impl MultiHead {
    /// Builds the attention layer for this shape.
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
            query: Linear::new(
                d_model,
                heads * d_head,
                bias,
                MatrixRole::Query { d_head },
                init,
            ),
            key: Linear::new(
                d_memory,
                kv_heads * d_head,
                key_bias,
                MatrixRole::Inner,
                init,
            ),
            value: Linear::new(d_memory, kv_heads * d_head, bias, MatrixRole::Value, init),
            output: Linear::new(
                heads * d_head,
                d_model,
                out_bias,
                MatrixRole::Residual,
                init,
            ),
            query_norm: normed(heads),
            key_norm: normed(kv_heads),
            gate: config
                .gate
                .map(|gate| gate.init(d_model, [heads, d_head], bias, init)),
            sinks: config.sinks.init(heads, init),
            global: None,
            n_heads: heads,
            n_kv_heads: kv_heads,
            d_head,
            normed_across: config.qk_norm_across,
            scale: match config.scale {
                Some(scale) => scale * shape.score_factor.powi(2),
                None => shape.score_factor / (d_head as f64).sqrt(),
            },
            clip: config.clip,
            softcap: config.softcap,
            dropout: shape.dropout,
            head_diversity: config.head_diversity,
            sees_globals: false,
            sinks_kind: config.sinks,
            window: None,
            segments: config.segments(),
            weighs: None,
        }
    }

    /// Restricts the attention to the keys of a window.
    pub fn with_window(self, window: Window) -> Self {
        Self {
            window: Some(window),
            ..self
        }
    }

    /// Replaces the softmax over all visible keys by another way to weigh them.
    pub fn with_weighing(self, weighs: impl KeyWeighing + 'static) -> Self {
        Self {
            weighs: Some(Arc::new(weighs)),
            ..self
        }
    }

    /// Makes global tokens visible, with the separate projections `own` or, if `None`, with the same projections.
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

    /// Clamps the elements of queries, keys or values to the configured range.
    pub(super) fn clip(&self, x: Tensor<3>) -> Tensor<3> {
        match self.clip {
            Some(most) => x.clamp(-most, most),
            None => x,
        }
    }

    /// Splits `[batch, seq, heads·d_head]` into heads, `[batch, heads, seq, d_head]`, and normalises.
    pub(super) fn split(&self, x: Tensor<3>, heads: usize, norm: Option<&Norm>) -> Tensor<4> {
        let [batch, seq, _] = x.dims();
        let x = match norm {
            None | Some(Norm::None(_)) => x,
            Some(norm) if self.normed_across => norm.forward(x),
            Some(norm) => norm.forward(x.reshape([batch, seq * heads, self.d_head])),
        };
        x.reshape([batch, seq, heads, self.d_head]).swap_dims(1, 2)
    }

    /// Computes keys and values of `source` `[batch, keys, d_model]`, by heads.
    fn keys_and_values(&self, source: Operand) -> (Tensor<4>, Tensor<4>) {
        let k = self.clip(self.key.forward_operand(source.clone()));
        let k = self.split(k, self.n_kv_heads, Some(&self.key_norm));
        let v = self.clip(self.value.forward_operand(source));
        let v = self.split(v, self.n_kv_heads, None);
        (k, v)
    }

    /// Returns the sink scores, `[heads]`.
    fn sink_scores(&self, device: &Device) -> Option<Tensor<1>> {
        let learned = self.sinks.as_ref();
        self.sinks_kind.scores(learned, self.n_heads, device)
    }

    /// Returns which keys a query sees: those that the model allows, restricted to the window. A memory has no window.
    fn visible(&self, cx: &LayerContext) -> Visibility {
        let mut visible = cx.visible.clone();
        if cx.memory.is_none() {
            let trains = cx.pass.is_training();
            let same_length = || self.segments.and_then(|segments| segments.window(trains));
            visible.window = self.window.clone().or_else(same_length);
            if self.sees_globals {
                visible = global_tokens::with_global_pattern(visible, self.global.is_none());
            }
        }
        visible
    }
}

impl MultiHead {
    /// Computes queries from `x` and keys and values from the sources in the context, and weighs them with `weigh`, whose result
    /// `[batch, heads, queries, d_head]` goes through the output projection.
    pub fn forward_with(
        &self,
        x: Tensor<3>,
        cx: &mut LayerContext,
        weigh: impl FnOnce(AttentionInputs, &mut LayerContext) -> Tensor<4>,
    ) -> Tensor<3> {
        self.forward_reaching(x, cx, self.reach(), weigh)
    }

    /// Like [`Self::forward_with`], but decoding keeps the keys of `reach` positions before a query (of all if `None`), in
    /// agreement with the kind's own [`Layer::reach`].
    pub fn forward_reaching(
        &self,
        x: Tensor<3>,
        cx: &mut LayerContext,
        reach: Option<usize>,
        weigh: impl FnOnce(AttentionInputs, &mut LayerContext) -> Tensor<4>,
    ) -> Tensor<3> {
        let gating = self.gate.as_ref().map(|gate| (gate, x.clone()));
        let attended = self.attention_inputs(x, cx, reach);
        let offset = attended.positional.offset;
        // In cross-attention the lengths are those of the memory's keys; lengths of the queries are not known.
        let lengths = attended.positional.visible.lengths.clone();
        let lengths = lengths.filter(|_| !attended.is_cross);
        // Columns that encode segments are not part of the values.
        let y = self.trim_to_values(weigh(attended, cx));
        if self.head_diversity > 0.0 && cx.state.is_none() {
            let of_queries = |length: &usize| length.saturating_sub(offset);
            let lengths: Option<Vec<usize>> =
                lengths.map(|lengths| lengths.iter().map(of_queries).collect());
            diversity::add_loss(&y, lengths.as_deref(), self.head_diversity, cx.pass);
        }
        self.project_output(y, gating)
    }

    /// Like [`Self::forward_with`] with only queries, for a kind that has its own state of a memory's keys and values.
    pub fn forward_queries(
        &self,
        x: Tensor<3>,
        weigh: impl FnOnce(Tensor<4>) -> Tensor<4>,
    ) -> Tensor<3> {
        let gating = self.gate.as_ref().map(|gate| (gate, x.clone()));
        let q = self.clip(self.query.forward(x));
        let q = self.split(q, self.n_heads, Some(&self.query_norm));
        self.project_output(weigh(q), gating)
    }

    /// Cuts off columns beyond those of the values.
    fn trim_to_values(&self, y: Tensor<4>) -> Tensor<4> {
        let [_, heads, _, width] = y.dims();
        match heads * width == self.n_heads * self.d_head {
            true => y,
            false => y.narrow(3, 0, self.d_head),
        }
    }

    /// Merges the heads' results, gates them with the queries' input if there is a gate, and applies the output projection.
    fn project_output(&self, y: Tensor<4>, gating: Option<(&Linear, Tensor<3>)>) -> Tensor<3> {
        let [batch, _, queries, _] = y.dims();
        let y = y.swap_dims(1, 2);
        let y = y.reshape([batch, queries, self.n_heads * self.d_head]);
        self.output.forward(match gating {
            Some((gate, x)) => gate::apply_gate(y, gate, x, self.n_heads),
            None => y,
        })
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
                None => LayerState::decoding(LayerCache::default()),
            },
            StateUse::Segments => LayerState::None,
        }
    }
}
