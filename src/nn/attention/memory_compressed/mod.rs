//! Memory-compressed attention: keys and values pass through a convolution along positions whose stride equals its width, so that
//! with a stride of 3 queries meet a third of them (Liu et al. 2018, section 4.2.3): softmax(scale·Q·conv(K)ᵀ)·conv(V).
//!
//! A compressed key stands for `factor` consecutive positions, the first key for positions 0 to factor − 1. The convolution spans
//! the whole width, as one matrix product over all values of a block of positions. In a causal stack a query sees the compressed
//! keys whose positions are all at or before it. A query that sees none outputs zeros, or attends to the null key if there is one
//! (a learned key and value that all queries see). Positions after the last complete block have no key yet; local attention in
//! the layers between covers them (T-DMCA). If a stack reads both ways, the last block is padded with zeros, padding positions
//! are zeroed, and blocks of only padding are masked.
//!
//! Decoding keeps compressed keys and values, and the keys and values of the incomplete block.

mod blocks;
mod state;

use super::cache::append_to;
use super::linformer::zero_padding;
use super::multi_head::{MultiHead, MultiHeadConfig};
use super::{Abilities, AttentionFacts, AttentionInputs, AttentionShape, Kind};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::{Pattern, Positional, Visibility};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::linear::Linear;
use crate::nn::role::{BIAS, Roles};
use crate::nn::state::{LayerState, StateUse};
use crate::one_table::{is_usual, one_table};
use blocks::CompressedMask;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use state::CompressedState;

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "memory_compressed",
    summary: "a convolution of stride `factor` compresses keys and values; memory linear in the length",
    source: "Liu et al. 2018, section 4.2.3",
    example: "{ kind = \"memory_compressed\", n_heads = 4, factor = 3 }",
};

/// Settings of memory-compressed attention: those of multi-head attention and of the convolution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct MemoryCompressedConfig {
    /// The heads with their projections.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
    /// Number of positions that a compressed key stands for: width and stride of the convolution.
    /// Source: Liu et al. 2018, section 4.2.3.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    pub factor: usize,
    /// Whether all queries see an additional learned key and value, initially zeros.
    #[serde(skip_serializing_if = "is_usual")]
    pub null_key: bool,
}

impl Default for MemoryCompressedConfig {
    fn default() -> Self {
        Self {
            heads: MultiHeadConfig::default(),
            factor: 3,
            null_key: false,
        }
    }
}

one_table!(MemoryCompressedConfig, heads: MultiHeadConfig, |_| &[]);

/// Roles of the parameters of [`MemoryCompressed`] that are not linear maps.
pub const ROLES: Roles = Roles::new(
    "MemoryCompressed",
    &[("null_key", BIAS), ("null_value", BIAS)],
);

/// Memory-compressed attention with its parameters.
#[derive(Module, Debug)]
pub struct MemoryCompressed {
    /// Projections of queries, keys, values and the output.
    pub heads: MultiHead,
    /// The convolution of keys, `[width, factor·width]`: the positions of a block one after the other, and within each its heads.
    pub compress_keys: Linear,
    /// The convolution of values.
    pub compress_values: Linear,
    /// The null key that all queries see, `[width]`.
    pub null_key: Option<Param<Tensor<1>>>,
    /// The value of the null key, `[width]`.
    pub null_value: Option<Param<Tensor<1>>>,
    factor: usize,
}

impl MemoryCompressedConfig {
    /// Builds the attention layer for this shape.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> MemoryCompressed {
        let heads = MultiHead::new(&self.heads, shape, init);
        let width = self.heads.n_kv_heads() * self.heads.d_head(shape.d_model);
        let convolution = || Linear::new(self.factor * width, width, true, MatrixRole::Inner, init);
        let null = || self.null_key.then(|| init.vector(width, 0.0));
        MemoryCompressed {
            heads,
            compress_keys: convolution(),
            compress_values: convolution(),
            null_key: null(),
            null_value: null(),
            factor: self.factor,
        }
    }
}

impl AttentionFacts for MemoryCompressedConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn heads(&self) -> MultiHeadConfig {
        self.heads.clone()
    }

    fn set_heads(&mut self, heads: MultiHeadConfig) {
        self.heads = heads;
    }

    /// A compressed key has no single position, and may span two documents.
    fn abilities(&self) -> Abilities {
        Abilities {
            positions: &[],
            documents: false,
            segments: false,
            across: false,
            ..Abilities::ALL
        }
    }

    fn keys(&self, tokens: usize, causal: bool) -> usize {
        let factor = self.factor.max(1);
        let blocks = match causal {
            true => tokens / factor,
            false => tokens.div_ceil(factor),
        };
        blocks.saturating_add(usize::from(self.null_key))
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.count("factor", self.factor, MAX_POSITIONS);
        self.heads.faults(d_model, at)
    }

    fn faults_in_context(&self, context: Option<usize>, causal: bool, at: &mut TableFaults) {
        let Some(context) = context.filter(|context| causal && *context < self.factor) else {
            return;
        };
        let rule = format!(
            "factor = {} is more than the context of {context} tokens: no query would see a key; lower it",
            self.factor
        );
        at.fault(&["factor", "data.context"], rule);
    }

    /// Besides what all heads keep: the compressed keys and values, less than one of each per position.
    fn activations(&self, d_model: usize) -> u128 {
        let compressed = 2 * self.kv_width(d_model);
        self.heads.activations(d_model) + compressed.div_ceil(self.factor.max(1) as u128)
    }

    fn products(&self, d_model: usize, pairs: [usize; 3]) -> u128 {
        let [_, _, keys] = pairs;
        let blocks = keys.saturating_sub(usize::from(self.null_key)) as u128;
        let width = self.kv_width(d_model);
        let compressed = 2 * blocks * self.factor as u128 * width * width;
        self.heads.products(d_model, pairs) + compressed
    }
}

impl MemoryCompressedConfig {
    fn kv_width(&self, d_model: usize) -> u128 {
        self.heads.n_kv_heads() as u128 * self.heads.d_head(d_model) as u128
    }
}

impl MemoryCompressed {
    /// Compresses `[batch, kv heads, blocks·factor, d_head]` to `[batch, kv heads, blocks, d_head]`.
    fn compress(&self, x: Tensor<4>, map: &Linear) -> Tensor<4> {
        let [batch, heads, positions, d_head] = x.dims();
        let blocks = positions / self.factor;
        let x = x.swap_dims(1, 2);
        let x = x.reshape([batch, blocks, self.factor * heads * d_head]);
        let x = map.forward(x).reshape([batch, blocks, heads, d_head]);
        x.swap_dims(1, 2)
    }

    /// Returns the null key and value expanded to each row, `[batch, kv heads, 1, d_head]`.
    fn null(&self, like: &Tensor<4>) -> Option<[Tensor<4>; 2]> {
        let [batch, heads, _, d_head] = like.dims();
        let in_rows = |x: &Param<Tensor<1>>| {
            let x: Tensor<4> = x.val().reshape([1, heads, 1, d_head]);
            x.expand([batch, heads, 1, d_head])
        };
        Some([
            in_rows(self.null_key.as_ref()?),
            in_rows(self.null_value.as_ref()?),
        ])
    }

    /// Returns the compressed keys and values of a whole text; `None` if there are none.
    fn compress_text(&self, kv: [Tensor<4>; 2], visible: &Visibility) -> Option<[Tensor<4>; 2]> {
        let [batch, heads, positions, d_head] = kv[0].dims();
        let rest = positions % self.factor;
        let null = self.null(&kv[0]);
        if visible.causal && rest == positions {
            return null;
        }
        let kv = match visible.causal {
            true => kv.map(|x| x.narrow(2, 0, positions - rest)),
            false => kv.map(|x| {
                let x = zero_padding(x, visible.lengths.as_deref());
                if rest == 0 {
                    return x;
                }
                let filled = [batch, heads, self.factor - rest, d_head];
                let filled = Tensor::<4>::zeros(filled, &x.device()).cast(x.dtype());
                Tensor::cat(vec![x, filled], 2)
            }),
        };
        let [k, v] = kv;
        let k = self.compress(k, &self.compress_keys);
        let v = self.compress(v, &self.compress_values);
        let Some([null_key, null_value]) = null else {
            return Some([k, v]);
        };
        let behind = |null, x| Tensor::cat(vec![null, x], 2);
        Some([behind(null_key, k), behind(null_value, v)])
    }

    /// Adds the next positions to the state and returns all compressed keys and values.
    fn compress_next(
        &self,
        kv: [Tensor<4>; 2],
        state: &mut CompressedState,
    ) -> Option<[Tensor<4>; 2]> {
        if state.whole.is_empty()
            && let Some([key, value]) = self.null(&kv[0])
        {
            state.whole.append(key, value, None);
        }
        let [k, v] = append_to(state.unfinished.take(), kv);
        let positions = k.dims()[2];
        let rest = positions % self.factor;
        let whole = positions - rest;
        if rest > 0 {
            let last = |x: &Tensor<4>| x.clone().narrow(2, whole, rest);
            state.unfinished = Some([last(&k), last(&v)]);
        }
        if whole > 0 {
            let k = self.compress(k.narrow(2, 0, whole), &self.compress_keys);
            let v = self.compress(v.narrow(2, 0, whole), &self.compress_values);
            state.whole.append(k, v, None);
        }
        state.whole.all().map(|(k, v)| [k, v])
    }

    fn attend(&self, attended: AttentionInputs, cx: &mut LayerContext) -> Tensor<4> {
        let AttentionInputs { q, k, v, .. } = attended;
        let state = cx.state.as_deref_mut();
        let state = state.and_then(LayerState::decoding_state_mut::<CompressedState>);
        let decodes = state.is_some();
        let kv = match state {
            Some(state) => self.compress_next([k, v], state),
            None => self.compress_text([k, v], cx.visible),
        };
        let Some([k, v]) = kv else {
            return q.zeros_like();
        };
        let all = match cx.visible.causal {
            // A single query in decoding comes after all complete blocks.
            true => decodes && q.dims()[2] == 1,
            false => cx.visible.lengths.is_none(),
        };
        let pattern = (!all).then(|| {
            Pattern::new(CompressedMask {
                factor: self.factor,
                null: usize::from(self.null_key.is_some()),
                causal: cx.visible.causal,
                lengths: cx.visible.lengths.clone(),
                prefix: cx.visible.prefix.clone(),
            })
        });
        let relations = Positional {
            visible: Visibility {
                pattern,
                ..Visibility::ALL
            },
            offset: cx.span.offset,
            ..Positional::default()
        };
        let attended = AttentionInputs {
            q,
            k,
            v,
            positional: relations,
            options: attended.options,
            is_cross: false,
            first_key: 0,
        };
        attended.softmax_over_summaries(cx)
    }
}

impl Layer for MemoryCompressed {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        self.heads
            .forward_with(x, cx, |attended, cx| self.attend(attended, cx))
    }

    fn empty_state(&self, of: StateUse) -> LayerState {
        match of {
            StateUse::Decoding => LayerState::decoding(CompressedState::new(self.factor)),
            StateUse::Segments => LayerState::None,
        }
    }
}
