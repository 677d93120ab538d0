//! Multi-head scaled dot-product attention: concat(head₁ … head_h)W^O with
//! head_i = softmax(scale·q_i k_iᵀ + bias)v_i (Vaswani et al. 2017, section 3.2).
//!
//! Fewer key-value heads than query heads make grouped-query (Ainslie et al. 2023) or, with one,
//! multi-query attention (Shazeer 2019). Queries and keys may be normalised per head (Henry et al. 2020)
//! and scores capped at c·tanh(s/c) (Gemma 2). A loss may drive heads apart (`diversity`).

use super::diversity;
use super::entropy::{self, Weighing};
use super::{Kind, LayerCache};
use crate::faults::{TableFaults, WIDEST};
use crate::kernel::{self, AttentionOptions, Relations, Visibility, Window};
use crate::nn::init::{Init, Role};
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::linear::Linear;
use crate::nn::norm::{Norm, NormConfig};
use crate::nn::position::{Attending, Projections, Rotation, Span};
use crate::nn::state::{LayerState, StateUse};
use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "multi_head",
    summary: "scaled dot products over all positions; n_kv_heads makes it grouped-query or multi-query",
    source: "Vaswani et al. 2017, section 3.2; Shazeer 2019; Ainslie et al. 2023",
    example: "{ kind = \"multi_head\", n_heads = 4, n_kv_heads = 2 }",
};

/// Heads of any attention.
const MOST_HEADS: usize = 4096;

/// The knobs of multi-head attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MultiHeadConfig {
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads, a divisor of `n_heads`; `n_heads` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_kv_heads: Option<usize>,
    /// Width of a head; d_model / n_heads when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_head: Option<usize>,
    /// Whether queries, keys and values have biases.
    pub bias: bool,
    /// Whether the output has a bias; as `bias` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_bias: Option<bool>,
    /// Norm on each head's queries and keys.
    pub qk_norm: NormConfig,
    /// Scores become c·tanh(score/c).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softcap: Option<f64>,
    /// Factor on the scores; 1/√d_head when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Coefficient of a loss that drives the heads' outputs apart (Li et al. 2018): their mean cosine, named
    /// `head_similarity`; 0 leaves it out.
    pub head_diversity: f64,
}

impl Default for MultiHeadConfig {
    fn default() -> Self {
        Self {
            n_heads: 4,
            n_kv_heads: None,
            d_head: None,
            bias: true,
            out_bias: None,
            qk_norm: NormConfig::none(),
            softcap: None,
            scale: None,
            head_diversity: 0.0,
        }
    }
}

impl MultiHeadConfig {
    /// Faults of its keys; `d_model` is the model's width, when that is sound. The width of a head, when it has one.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.within("qk_norm", |at| self.qk_norm.faults(at));
        if let Some(cap) = self.softcap {
            at.positive("softcap", cap);
        }
        if let Some(scale) = self.scale {
            at.positive("scale", scale);
        }
        let diversity = self.head_diversity;
        if !(diversity >= 0.0 && diversity.is_finite()) {
            let rule = format!("head_diversity = {diversity:?} must be at least 0");
            at.fault(&["head_diversity"], rule);
        }
        if diversity > 0.0 && self.n_heads == 1 {
            let rule = "head_diversity has no effect on n_heads = 1; leave it out";
            at.fault(&["head_diversity", "n_heads"], rule);
        }
        let heads = at.count("n_heads", self.n_heads, MOST_HEADS);
        let kv = at.count("n_kv_heads", self.n_kv_heads.unwrap_or(1), MOST_HEADS);
        let head = at.count("d_head", self.d_head.unwrap_or(1), WIDEST);
        if !heads {
            return None;
        }
        if kv && !self.n_heads.is_multiple_of(self.n_kv_heads()) {
            let rule = format!(
                "n_heads = {} is not a multiple of n_kv_heads = {}",
                self.n_heads,
                self.n_kv_heads()
            );
            at.fault(&["n_heads", "n_kv_heads"], rule);
        }
        let d_model = d_model?;
        if self.d_head.is_none() && !d_model.is_multiple_of(self.n_heads) {
            let rule = format!(
                "d_model = {d_model} is not a multiple of {} n_heads = {}; change one, or give d_head",
                at.header(),
                self.n_heads
            );
            at.fault(&["model.d_model", "n_heads"], rule);
            return None;
        }
        head.then(|| self.d_head(d_model))
    }

    /// Numbers that are kept of each position for the backward pass, in a model of width `d_model`.
    pub fn kept(&self, d_model: usize) -> u128 {
        2 * (self.n_heads as u128 + self.n_kv_heads() as u128) * self.d_head(d_model) as u128
    }

    /// Multiplications of a forward pass in a model of width `d_model`: so many queries over the keys of `sources`
    /// positions, of which each sees `keys`. Projections, scores, and weighted values; a causal mask is no discount.
    pub fn products(&self, d_model: usize, [queries, sources, keys]: [usize; 3]) -> u128 {
        let [d_model, queries, sources, keys] =
            [d_model, queries, sources, keys].map(|n| n as u128);
        let head = self.d_head(d_model as usize) as u128;
        let (width, kv_width) = (
            self.n_heads as u128 * head,
            self.n_kv_heads() as u128 * head,
        );
        2 * d_model * (queries * width + sources * kv_width) + 2 * queries * keys * width
    }

    /// Key and value heads.
    pub fn n_kv_heads(&self) -> usize {
        self.n_kv_heads.unwrap_or(self.n_heads)
    }

    /// Width of a head in a model of width `d_model`.
    pub fn d_head(&self, d_model: usize) -> usize {
        self.d_head.unwrap_or(d_model / self.n_heads.max(1))
    }
}

/// Multi-head attention with its parameters.
#[derive(Module, Debug)]
pub struct MultiHead {
    /// `[d_model, n_heads·d_head]`.
    pub query: Linear,
    /// `[d_model, n_kv_heads·d_head]`.
    pub key: Linear,
    /// `[d_model, n_kv_heads·d_head]`.
    pub value: Linear,
    /// `[n_heads·d_head, d_model]`.
    pub output: Linear,
    /// Norm on each head's queries.
    pub query_norm: Norm,
    /// Norm on each head's keys.
    pub key_norm: Norm,
    n_heads: usize,
    n_kv_heads: usize,
    d_head: usize,
    scale: f64,
    softcap: Option<f64>,
    dropout: f64,
    head_diversity: f64,
    #[module(skip)]
    window: Option<Window>,
}

impl MultiHead {
    /// Attention over vectors of `d_model` elements, with dropout on its weights.
    pub fn new(config: &MultiHeadConfig, d_model: usize, dropout: f64, init: &Init) -> Self {
        let (heads, kv_heads) = (config.n_heads, config.n_kv_heads());
        let d_head = config.d_head(d_model);
        let bias = config.bias;
        let out_bias = config.out_bias.unwrap_or(bias);
        Self {
            query: Linear::new(d_model, heads * d_head, bias, Role::Inner, init),
            key: Linear::new(d_model, kv_heads * d_head, bias, Role::Inner, init),
            value: Linear::new(d_model, kv_heads * d_head, bias, Role::Value, init),
            output: Linear::new(heads * d_head, d_model, out_bias, Role::Residual, init),
            query_norm: config.qk_norm.init(d_head, init),
            key_norm: config.qk_norm.init(d_head, init),
            n_heads: heads,
            n_kv_heads: kv_heads,
            d_head,
            scale: config.scale.unwrap_or(1.0 / (d_head as f64).sqrt()),
            softcap: config.softcap,
            dropout,
            head_diversity: config.head_diversity,
            window: None,
        }
    }

    /// The same attention to the keys of a window.
    pub fn within(self, window: Window) -> Self {
        Self {
            window: Some(window),
            ..self
        }
    }

    /// `[batch, seq, heads·d_head]` → `[batch, heads, seq, d_head]`, each head normalised.
    fn split(&self, x: Tensor<3>, heads: usize, norm: Option<&Norm>) -> Tensor<4> {
        let [batch, seq, _] = x.dims();
        let x = match norm {
            None | Some(Norm::None(_)) => x,
            Some(norm) => norm.forward(x.reshape([batch, seq * heads, self.d_head])),
        };
        x.reshape([batch, seq, heads, self.d_head]).swap_dims(1, 2)
    }
}

impl MultiHead {
    /// Keys and values of `source` `[batch, keys, d_model]`, by heads.
    fn keys_and_values(&self, source: Tensor<3>) -> (Tensor<4>, Tensor<4>) {
        let k = self.key.forward(source.clone());
        let k = self.split(k, self.n_kv_heads, Some(&self.key_norm));
        let v = self.split(self.value.forward(source), self.n_kv_heads, None);
        (k, v)
    }
}

impl MultiHead {
    /// Which keys a query sees: of the model's, those in the window; a memory is seen as the model says.
    fn visible(&self, of_model: &Visibility, crossed: bool) -> Visibility {
        let mut visible = of_model.clone();
        if let (Some(window), false) = (&self.window, crossed) {
            visible.window = Some(window.clone());
        }
        visible
    }
}

/// Queries, keys and values turned by their positions, values where the rotation is of them, too.
fn rotated(qkv: [Tensor<4>; 3], rotation: Option<&Rotation>) -> [Tensor<4>; 3] {
    let Some(r) = rotation else {
        return qkv;
    };
    let turned = |x| kernel::rotary(x, r.cos.clone(), r.sin.clone(), r.interleaved);
    let [q, k, v] = qkv;
    [turned(q), turned(k), if r.values { turned(v) } else { v }]
}

impl Projections for MultiHead {
    fn queries(&self, x: Tensor<2>) -> Tensor<3> {
        let x = self.query.forward(x.unsqueeze_dim(0));
        let x = self.split(x, self.n_heads, Some(&self.query_norm));
        x.squeeze_dim(0)
    }

    fn keys(&self, x: Tensor<2>) -> Tensor<3> {
        let x = self.key.forward(x.unsqueeze_dim(0));
        let x = self.split(x, self.n_kv_heads, Some(&self.key_norm));
        let [_, kv_heads, rows, d_head] = x.dims();
        let group = self.n_heads / kv_heads;
        let x = x.reshape([kv_heads, 1, rows, d_head]);
        x.expand([kv_heads, group, rows, d_head])
            .reshape([self.n_heads, rows, d_head])
    }
}

impl Layer for MultiHead {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        let [batch, queries, _] = x.dims();
        let crossed = cx.memory.is_some();
        let source = cx.memory.cloned().unwrap_or_else(|| x.clone());
        let q = self.split(self.query.forward(x), self.n_heads, Some(&self.query_norm));
        let (mut offset, mut dropped) = (0, 0);
        let cache = match cx.state.as_deref_mut() {
            Some(LayerState::KeyValue(cache)) => Some(cache),
            Some(LayerState::None | LayerState::Segment(_) | LayerState::Recurrent(_)) | None => {
                None
            }
        };
        let (q, k, v) = match cache {
            Some(cache) if crossed => {
                let (k, v) = cache.kept(|| self.keys_and_values(source));
                (q, k, v)
            }
            cache => {
                let (k, v) = self.keys_and_values(source);
                let [q, k, v] = rotated([q, k, v], cx.prepared.rotation.as_ref());
                match cache {
                    Some(cache) => {
                        offset = cache.len();
                        let reach = self.window.as_ref().map(Window::reach);
                        let (k, v) = cache.append(k, v, reach);
                        dropped = offset + queries - k.dims()[2];
                        (q, k, v)
                    }
                    None => (q, k, v),
                }
            }
        };
        let span = Span {
            queries,
            keys: k.dims()[2],
            offset: offset - dropped,
        };
        let attending = Attending {
            layer: cx.layer,
            span,
            heads: self,
            device: &q.device(),
            pass: cx.pass,
        };
        let relations = Relations {
            visible: self.visible(cx.visible, crossed).without_first(dropped),
            offset: span.offset,
            bias: cx.prepared.score_bias.without_first(dropped),
            relative: cx.position.relative(&attending),
        };
        let options = AttentionOptions {
            scale: self.scale,
            softcap: self.softcap,
            dropout: cx.pass.key("weights", self.dropout),
        };
        let weighing = Weighing {
            q: &q,
            k: &k,
            relations: &relations,
            options,
            crossed,
        };
        entropy::read(cx.pass, &weighing);
        entropy::record(cx.pass, cx.layer, &weighing);
        // Of another length than the keys, queries have lengths of their own, which are not told.
        let lengths = relations.visible.lengths.clone().filter(|_| !crossed);
        let y = kernel::attention(q, k, v, relations, options);
        if self.head_diversity > 0.0 && cx.state.is_none() {
            diversity::add(&y, lengths.as_deref(), self.head_diversity, cx.pass);
        }
        let y = y.swap_dims(1, 2);
        self.output
            .forward(y.reshape([batch, queries, self.n_heads * self.d_head]))
    }

    fn empty_state(&self, of: StateUse) -> LayerState {
        match of {
            StateUse::Decoding => LayerState::KeyValue(LayerCache::default()),
            StateUse::Segments => LayerState::None,
        }
    }
}
