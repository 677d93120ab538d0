//! The last block run with separate queries: the decoder of masked language models, whose queries know their position
//! (He et al. 2021, DeBERTa, section 3.2).

use super::block::BlockContext;
use super::recompute;
use super::view::{BlockView, Past, Views};
use super::{Stack, StackContext};
use burn::tensor::Tensor;

impl Stack {
    /// Runs `queries` `[batch, seq, d_model]` through the last block `steps` times, then the final norm. Keys and values are
    /// computed from `x`, the block's usual input; each query and key has its own position.
    pub fn decode_queries(
        &self,
        queries: Tensor<3>,
        x: Tensor<3>,
        steps: usize,
        context: StackContext,
    ) -> Tensor<3> {
        let mut views = Views::new(&context, &x);
        let StackContext {
            position,
            token_positions: places,
            visible,
            memory,
            pass,
            ..
        } = context;
        let Some(layer) = self.blocks.len().checked_sub(1) else {
            return queries;
        };
        let block = self.resolved(layer);
        let sources = position.scheme().embed_layer(x, layer, places);
        let own = self.blocks[layer].position.as_ref();
        let BlockView {
            span,
            visible: seen,
            prepared,
            ..
        } = views.get_or_compute(Past::Whole, own);
        let mut decoded = queries;
        for step in 0..steps {
            let context = BlockContext {
                span: *span,
                visible: seen,
                segment_visibility: Some(visible),
                position: own.map_or(position, |own| &own.scheme),
                prepared,
                memory,
                sources: Some(&sources),
                first_values: None,
                state: None,
                pass,
            };
            decoded = pass.in_block(step, || recompute::forward(block, decoded, context));
        }
        self.final_norm_and_dropout(decoded, pass)
    }
}
