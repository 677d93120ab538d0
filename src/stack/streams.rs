//! Two streams through one stack: that of the tokens, and one of queries that know their place and not their token (Yang et al.
//! 2019, XLNet, section 2.3).
//!
//! ```text
//! h ← block(queries, keys and values: h)      g ← block(queries: g, keys and values: h as the block read it)
//! ```
//!
//! Both go through the same blocks with the same positions. A query looks at the tokens that its own visibility shows; no token
//! looks at a query, and the last block is computed for queries alone.

use super::block::BlockContext;
use super::recompute;
use super::view::{Past, View, Views};
use super::{Stack, StackContext};
use crate::nn::attention::Visibility;
use burn::tensor::Tensor;

impl Stack {
    /// The stream of queries `[batch, seq, d_model]` after the final norm, from that of the tokens and its own beginning. The
    /// context says which tokens see each other, `of_queries` which of them a query sees.
    pub fn streams(
        &self,
        [mut tokens, mut queries]: [Tensor<3>; 2],
        context: StackContext,
        of_queries: &Visibility,
    ) -> Tensor<3> {
        let mut views = Views::new(&context, &tokens);
        let StackContext {
            position,
            places,
            visible,
            pass,
            ..
        } = context;
        for (layer, block) in self.all_wired().enumerate() {
            tokens = position.embed_layer(tokens, layer, places, pass);
            queries = position.embed_layer(queries, layer, places, pass);
            let own = self.blocks[layer].position.as_ref();
            let View {
                span,
                visible: seen,
                prepared,
                ..
            } = views.of(Past::Whole, own);
            let of_tokens = BlockContext {
                span: *span,
                visible: seen,
                of_segment: visible,
                position: own.map_or(position, |own| &own.scheme),
                prepared,
                memory: None,
                sources: None,
                first_values: None,
                state: None,
                pass,
            };
            let of_queries = BlockContext {
                visible: of_queries,
                of_segment: of_queries,
                sources: Some(&tokens),
                state: None,
                ..of_tokens
            };
            let asked = || recompute::forward(block, queries, of_queries);
            let name = format!("blocks.{layer}");
            queries = pass.within("queries", || pass.block(&name, asked));
            if layer + 1 < self.blocks.len() {
                let read = || recompute::forward(block, tokens.clone(), of_tokens);
                tokens = pass.block(&name, read);
            }
        }
        pass.within("queries", || self.ended(queries, pass))
    }
}
