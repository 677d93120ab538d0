//! The state of a block between calls.

use super::block::ResolvedBlock;
use super::state::BlockState;
use super::view::Past;
use crate::nn::attention::Visibility;
use crate::nn::earlier::EarlierStates;
use crate::nn::pass::Pass;
use crate::nn::position::Span;
use crate::nn::state::{LayerState, StateUse};
use burn::tensor::Tensor;

impl ResolvedBlock<'_> {
    /// Returns the block's state before the first call.
    pub fn empty_state(&self, of: StateUse) -> BlockState {
        let cross = self.mixer_block.cross.as_ref();
        let own = match (of, self.mixer_block.segments) {
            (StateUse::Segments, Some(_)) => LayerState::Segment(EarlierStates::default()),
            (StateUse::Segments | StateUse::Decoding, _) => self.mixer().empty_state(of),
        };
        let feeds = self.feed_forward_block.feed_forward.as_ref();
        BlockState {
            own,
            cross: cross.map_or_else(Default::default, |c| c.attention.layer().empty_state(of)),
            feed_forward: feeds.map_or_else(Default::default, |f| f.layer().empty_state(of)),
        }
    }

    /// Whether it has a memory of earlier segments.
    pub(super) fn has_segment_memory(&self) -> bool {
        self.mixer_block.segments.is_some()
    }

    /// Whether it has a mixer in place of attention.
    pub(super) fn has_mixer(&self) -> bool {
        self.mixer_block.mixer.is_some()
    }

    /// Whether decoding keeps only a bounded number of positions.
    pub(super) fn is_bounded(&self) -> bool {
        self.mixer().reach().is_some()
    }

    /// Returns the positions before this pass that the block still has.
    pub(super) fn past(&self, state: Option<&BlockState>, span: Span) -> Past {
        match (state.map(|state| &state.own), self.mixer().reach()) {
            (Some(LayerState::Segment(earlier)), _) if earlier.positions() > 0 => Past::Segments {
                positions: earlier.positions(),
                open: earlier.current_text_lengths.clone(),
            },
            (Some(LayerState::Kept(_)), Some(reach)) if span.offset > reach => Past::Newest {
                dropped: span.offset - reach,
            },
            _ => Past::Whole,
        }
    }

    /// Returns the hidden states of earlier segments as the layer reads them beside the stream `x`: through its current norm, so
    /// that the norm learns.
    pub(super) fn earlier_states(
        &self,
        earlier: &EarlierStates,
        x: &Tensor<3>,
    ) -> Option<Tensor<3>> {
        let states = earlier.states.clone()?;
        // With recomputation a block first computes without a graph.
        let states = match (states.is_autodiff(), x.is_autodiff()) {
            (true, false) => states.inner(),
            (false, true) => Tensor::from_inner(states),
            (true, true) | (false, false) => states,
        };
        Some(self.mixer_residual().layer_input(states))
    }

    /// Stores the stream `x` for the next segment.
    pub(super) fn remember(
        &self,
        earlier: &mut EarlierStates,
        x: &Tensor<3>,
        visible: &Visibility,
        pass: &Pass,
    ) {
        let most = self
            .mixer_block
            .segments
            .map(|s| s.positions(pass.is_training()));
        earlier.append(x, visible, most.unwrap_or(0));
    }
}
