//! What multi-head attention hands to the kind that weighs its keys: queries, keys and values by heads with their relations.

use super::entropy::{self, Weighing};
use crate::kernel::{self, AttentionOptions, Relations};
use crate::nn::layer::LayerContext;
use burn::tensor::Tensor;

/// Queries, keys and values as positions have turned them.
pub struct Attended {
    /// `[batch, heads, queries, d_head]`.
    pub q: Tensor<4>,
    /// `[batch, kv heads, keys, d_head]`.
    pub k: Tensor<4>,
    /// `[batch, kv heads, keys, d_head]`.
    pub v: Tensor<4>,
    /// Which keys a query sees, where they stand, and what positions add to the scores.
    pub relations: Relations,
    /// Scale, soft cap, and the dropout of weights.
    pub options: AttentionOptions,
    /// Whether keys and values are a memory's, in cross-attention.
    pub crossed: bool,
}

impl Attended {
    /// Softmax attention over the keys that each query sees, `[batch, heads, queries, d_head]`. The pass reads and records
    /// its weights when it is asked to.
    pub fn softmax(self, cx: &LayerContext) -> Tensor<4> {
        let weighing = Weighing {
            q: &self.q,
            k: &self.k,
            relations: &self.relations,
            options: self.options,
            crossed: self.crossed,
        };
        entropy::read(cx.pass, &weighing);
        entropy::record(cx.pass, cx.layer, &weighing);
        kernel::attention(self.q, self.k, self.v, self.relations, self.options)
    }

    /// Queries, heads of them, and keys: `[batch, heads, queries, keys, d_head]`.
    pub fn dims(&self) -> [usize; 5] {
        let ([batch, heads, queries, d_head], [_, _, keys, _]) = (self.q.dims(), self.k.dims());
        [batch, heads, queries, keys, d_head]
    }

    /// Keys and values with a head of their own for each head of queries.
    pub fn ungrouped(self) -> Self {
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
