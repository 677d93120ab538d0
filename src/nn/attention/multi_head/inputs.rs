//! Queries, keys and values of multi-head attention, by heads and rotated by their positions.

use super::MultiHead;
use crate::kernel::{AttentionOptions, Operand, Positional};
use crate::nn::attention::{AttentionInputs, LayerCache};
use crate::nn::layer::LayerContext;
use crate::nn::position::{AttentionView, Span, recording};
use crate::nn::state::LayerState;
use burn::tensor::Tensor;
use std::cell::Cell;

impl MultiHead {
    /// Returns queries, keys and values by heads, rotated by their positions, with their relations. A KV cache takes the new keys
    /// and values and supplies the earlier ones.
    pub(super) fn attention_inputs(
        &self,
        x: Tensor<3>,
        cx: &mut LayerContext,
        reach: Option<usize>,
    ) -> AttentionInputs {
        let queries = x.dims()[1];
        let crossed = cx.memory.is_some();
        let cache = cx.state.as_deref_mut().and_then(LayerState::cache);
        let read = cache.filter(|_| !crossed).map(|cache| cache.len());
        let (q, k, v) = self.queries_keys_values(x, cx, reach);
        // Number of the first keys that decoding has dropped.
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
        let attending = AttentionView {
            layer: cx.owner,
            span,
            scale: self.scale,
            heads: self,
            prepared: cx.prepared,
            cached_table: kept.as_ref(),
            device: &q.device(),
            pass: cx.pass,
        };
        let relations = Positional {
            visible,
            offset: span.offset,
            bias: cx
                .position
                .score_bias(&attending)
                .unwrap_or_else(|| cx.prepared.score_bias.without_first(dropped)),
            relative: cx.position.relative(&attending),
            sinks: self.sink_scores(&q.device()),
        };
        if !crossed {
            recording::note_bias(cx.pass, cx.layer, queries, &relations.bias);
        }
        if let (Some(table), Some(kept)) = (distances, kept) {
            *table = kept.into_inner();
        }
        let options = AttentionOptions {
            scale: self.scale,
            softcap: self.softcap,
            dropout: cx.pass.key("weights", self.dropout),
        };
        let attended = AttentionInputs {
            q,
            k,
            v,
            positional: relations,
            options,
            is_cross: crossed,
            first_key: read.map_or(0, |read| read - span.offset),
        };
        let kinds = cx.prepared.segments.as_ref().filter(|_| !crossed);
        match kinds.zip(cx.position.segment_vectors(cx.owner)) {
            Some((kinds, told)) => attended.with_segment_scores(kinds, told),
            None => attended,
        }
    }

    /// Returns the queries of `x`, and the keys and values that they attend to.
    fn queries_keys_values(
        &self,
        x: Tensor<3>,
        cx: &mut LayerContext,
        reach: Option<usize>,
    ) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
        let crossed = cx.memory.is_some();
        let sources = cx.sources.take();
        let own = || sources.clone().unwrap_or_else(|| x.clone());
        let with_earlier = |earlier| Tensor::cat(vec![earlier, own()], 1);
        let earlier = cx.earlier.take().map(with_earlier);
        let others = cx.memory.cloned().or(earlier).or(sources);
        let x = Operand::new(x);
        let q = self.clip(self.query.forward_operand(x.clone()));
        let q = self.split(q, self.n_heads, Some(&self.query_norm));
        let source = || others.map_or(x, Operand::new);
        let cache = cx.state.as_deref_mut().and_then(LayerState::cache);
        match cache {
            Some(cache) if crossed => {
                let (k, v) = cache.get_or_compute(|| self.keys_and_values(source()));
                (q, k, v)
            }
            cache => {
                let (k, v) = self.keys_and_values(source());
                let [q, k, v] = match (&cx.prepared.rotation, cx.memory_rotations) {
                    (_, Some([of_queries, of_keys])) if crossed => {
                        [of_queries.rotate(q), of_keys.rotate_keys(k), v]
                    }
                    (Some(rotation), _) => rotation.rotate_qkv([q, k, v]),
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
