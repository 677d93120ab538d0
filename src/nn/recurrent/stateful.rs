//! Mixers whose state consists of a few vectors per row; a pass continues from it and leaves the new state.

use crate::kernel::Sequences;
use crate::nn::first_values::FirstValues;
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::pass::Pass;
use crate::nn::state::{LayerState, StateUse, run_recurrent};
use burn::tensor::Tensor;

/// What a mixer can read beside its input and its state.
#[derive(Clone, Copy, Debug)]
pub struct MixerContext<'a> {
    /// The current pass, which caches tables of angles.
    pub pass: &'a Pass,
    /// The values that the first layer of the stack passes to later ones; `None` outside a stack.
    pub first_values: Option<&'a FirstValues>,
}

/// A mixer that reads positions one after the other; each sees itself and earlier positions.
pub trait StatefulMixer {
    /// Maps `x` `[batch, seq, d_model]` to the same shape, starting from `state`, or from zero. If `last` is set, also returns
    /// the state after the last position.
    fn advance(
        &self,
        x: Tensor<3>,
        state: Option<Vec<Tensor<2>>>,
        sequences: &Sequences,
        last: bool,
        beside: &MixerContext<'_>,
    ) -> (Tensor<3>, Option<Vec<Tensor<2>>>);
}

impl<M: StatefulMixer> Layer for M {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        let sequences = Sequences::from_visibility(cx.visible, cx.span);
        let beside = MixerContext {
            pass: cx.pass,
            first_values: cx.first_values,
        };
        run_recurrent(cx.state.as_deref_mut(), |state, last| {
            self.advance(x, state, &sequences, last, &beside)
        })
    }

    fn reach(&self) -> Option<usize> {
        Some(0)
    }

    fn empty_state(&self, _: StateUse) -> LayerState {
        LayerState::Recurrent(Vec::new())
    }
}
