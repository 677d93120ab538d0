//! Two streams through one stack: the tokens' stream, and a stream of queries that know their position but not their token (Yang
//! et al. 2019, XLNet, section 2.3).
//!
//! ```text
//! h ← block(queries, keys and values: h)      g ← block(queries: g, keys and values: h as the block read it)
//! ```
//!
//! Both streams go through the same blocks with the same positions. A query sees the tokens that its own mask shows; no token
//! sees a query, and the last block is computed for queries only. If blocks remember earlier segments, both streams read the
//! memory m of the tokens' stream: `[SG(m) ∘ h]` in place of h. Of this segment, the first `remembered` tokens are stored
//! (`reuse_len` of the released code).

use super::block::BlockContext;
use super::recompute;
use super::view::{BlockView, Views};
use super::{Stack, StackContext};
use crate::nn::attention::Visibility;
use crate::nn::state::LayerState;
use burn::tensor::Tensor;
use std::sync::Arc;

/// What the query stream sees, and what is remembered of the tokens.
pub struct TwoStreamContext<'a> {
    /// Which tokens a query may see.
    pub query_visibility: &'a Visibility,
    /// Number of tokens at the beginning of each row that are remembered for the next segment.
    pub remembered_tokens: usize,
}

impl Stack {
    /// Returns the query stream `[batch, seq, d_model]` after the final norm, given the initial token and query streams. The
    /// context's mask says which tokens see each other.
    pub fn run_two_streams(
        &self,
        [mut tokens, mut queries]: [Tensor<3>; 2],
        context: StackContext,
        streams: &TwoStreamContext,
    ) -> Tensor<3> {
        let mut views = Views::new(&context, &tokens);
        let StackContext {
            position,
            token_positions: places,
            visible,
            state,
            pass,
            ..
        } = context;
        let mut states = state.map(|states| states.iter_mut());
        for (layer, block) in self.all_resolved().enumerate() {
            tokens = position.embed_layer(tokens, layer, places, pass);
            queries = position.embed_layer(queries, layer, places, pass);
            let mut state = states.as_mut().and_then(Iterator::next);
            let past = block.past(state.as_deref(), views.span);
            let shown = views.with_past(&past, streams.query_visibility);
            let own = self.blocks[layer].position.as_ref();
            let BlockView {
                span,
                visible: seen,
                prepared,
                ..
            } = views.get_or_compute(past, own);
            let of_tokens = BlockContext {
                span: *span,
                visible: seen,
                segment_visibility: None,
                position: own.map_or(position, |own| &own.scheme),
                prepared,
                memory: None,
                sources: None,
                first_values: None,
                state: None,
                pass,
            };
            let of_queries = BlockContext {
                visible: &shown,
                sources: Some(&tokens),
                state: state.as_deref_mut(),
                ..of_tokens
            };
            let asked = || recompute::forward(block, queries, of_queries);
            let name = format!("blocks.{layer}");
            queries = pass.in_network("queries", || pass.in_block(&name, asked));
            let next = (layer + 1 < self.blocks.len()).then(|| {
                let of_tokens = BlockContext {
                    state: state.as_deref_mut(),
                    ..of_tokens
                };
                let read = || recompute::forward(block, tokens.clone(), of_tokens);
                pass.in_block(&name, read)
            });
            // The memory is updated after both streams have read the old one.
            if let Some(LayerState::Segment(earlier)) = state.map(|state| &mut state.own) {
                let (begun, visible) = first_positions(&tokens, visible, streams.remembered_tokens);
                block.remember(earlier, &begun, &visible, pass);
            }
            tokens = next.unwrap_or(tokens);
        }
        pass.in_network("queries", || self.final_norm_and_dropout(queries, pass))
    }
}

/// Returns the first `most` positions of each row of a stream, with their mask.
fn first_positions(x: &Tensor<3>, visible: &Visibility, most: usize) -> (Tensor<3>, Visibility) {
    let most = most.min(x.dims()[1]);
    let cut = |lengths: &Arc<[usize]>| lengths.iter().map(|length| *length.min(&most)).collect();
    let visible = Visibility {
        lengths: visible.lengths.as_ref().map(cut),
        ..Visibility::default()
    };
    (x.clone().narrow(1, 0, most), visible)
}
