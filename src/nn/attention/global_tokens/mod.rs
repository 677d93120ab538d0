//! Global tokens (Beltagy et al. 2020, Longformer, sections 3.1 and 3.2): a query sees the keys of its window and those of all
//! global tokens, in one softmax; a global token sees every key.
//!
//! ```text
//! y_i = softmax(scale·q_i k_jᵀ)v_j   over j near i, and j global        where i is not global
//! y_i = softmax(scale·q̂_i k̂_jᵀ)v̂_j  over all j                         where i is global
//! ```
//!
//! where q̂, k̂, v̂ come from separate projections or from the same ones. The task decides which tokens are global, row by row
//! ([`Visibility::globals`]). The window and the global keys form a [`Pattern`](crate::kernel::Pattern). Queries of global tokens
//! with separate projections are gathered, attend to all keys, and their results replace those of their rows: time and memory
//! stay linear in the length.

mod gathered;
mod pattern;

use super::AttentionShape;
use super::entropy;
use super::multi_head::{MultiHead, MultiHeadConfig};
use crate::kernel::{self, AttentionOptions, Positional, Visibility};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::layer::LayerContext;
use crate::nn::linear::Linear;
use burn::module::Module;
use burn::tensor::Tensor;
use gathered::GlobalQueries;
pub(super) use pattern::with_global_pattern;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The projections of global tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Global {
    /// Queries of global tokens, and the keys and values that they see, have separate matrices (Longformer).
    Own,
    /// Global tokens use the projections of all tokens.
    Shared,
}

/// The separate projections of global tokens.
#[derive(Module, Debug)]
pub struct GlobalHeads {
    /// Projection from d_model to n_heads·d_head.
    pub query: Linear,
    /// Projection from d_model to n_kv_heads·d_head.
    pub key: Linear,
    /// Projection from d_model to n_kv_heads·d_head.
    pub value: Linear,
}

impl GlobalHeads {
    /// Builds the projections for heads of this config.
    pub fn new(config: &MultiHeadConfig, shape: &AttentionShape, init: &Init) -> Self {
        let d_model = shape.d_model;
        let d_head = config.d_head(d_model);
        let (width, kv_width) = (config.n_heads * d_head, config.n_kv_heads() * d_head);
        let bias = config.bias;
        let key_bias = config.key_bias.unwrap_or(bias);
        Self {
            query: Linear::new(d_model, width, bias, MatrixRole::Query { d_head }, init),
            key: Linear::new(d_model, kv_width, key_bias, MatrixRole::Inner, init),
            value: Linear::new(d_model, kv_width, bias, MatrixRole::Value, init),
        }
    }
}

impl MultiHead {
    /// Applies attention in which global tokens have separate projections.
    pub(super) fn forward_global(
        &self,
        own: &GlobalHeads,
        x: Tensor<3>,
        cx: &mut LayerContext,
    ) -> Tensor<3> {
        let source = cx.sources.clone().unwrap_or_else(|| x.clone());
        let inputs = x.clone();
        self.forward_with(x, cx, |attended, cx| {
            let [_, _, cols, _, _] = attended.dims();
            let Some(marked) = GlobalQueries::from_visibility(cx.visible, cols) else {
                return attended.softmax(cx);
            };
            let [q, k, v] = self.project_globals(own, &marked, inputs, source, cx);
            let relations = Positional {
                visible: Visibility {
                    pattern: Some(marked.pattern(cx.visible)),
                    ..Visibility::default()
                },
                bias: marked.bias(&attended.positional.bias),
                ..Positional::default()
            };
            let options = AttentionOptions {
                dropout: cx.pass.key("global_weights", self.dropout),
                ..attended.options
            };
            let weights = || {
                let [q, k] = [&q, &k].map(|x| kernel::untracked(x.clone()));
                let relations = entropy::untracked(&relations);
                let options = AttentionOptions {
                    dropout: None,
                    ..options
                };
                kernel::attention_weights(q, k, &relations, options)
            };
            let near = attended.softmax_with(cx, |all| marked.scatter(all, weights()));
            marked.scatter(near, kernel::attention(q, k, v, relations, options))
        })
    }

    /// Returns the queries of the global tokens and the keys and values that they see, by heads and rotated by their positions.
    fn project_globals(
        &self,
        own: &GlobalHeads,
        marked: &GlobalQueries,
        x: Tensor<3>,
        source: Tensor<3>,
        cx: &LayerContext,
    ) -> [Tensor<4>; 3] {
        let [batch, cols, d_model] = x.dims();
        let gathered = x.reshape([batch * cols, d_model]);
        let gathered = gathered
            .clone()
            .select(0, marked.flat_indices(&gathered.device()));
        let gathered = gathered.reshape([batch, marked.most, d_model]);
        let query = self.clip(own.query.forward(gathered));
        let q = self.split(query, self.n_heads, Some(&self.query_norm));
        let key = self.clip(own.key.forward(source.clone()));
        let k = self.split(key, self.n_kv_heads, Some(&self.key_norm));
        let value = self.clip(own.value.forward(source));
        let v = self.split(value, self.n_kv_heads, None);
        match cx.prepared.rotation.as_ref() {
            None => [q, k, v],
            Some(r) => [
                marked.rotate(q, r),
                r.rotate(k),
                if r.values { r.rotate(v) } else { v },
            ],
        }
    }
}
