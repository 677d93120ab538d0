//! Mixers whose state is some vectors a row, which a pass continues from and leaves behind.

use crate::kernel::Sequences;
use crate::nn::first_values::FirstValues;
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::pass::Pass;
use crate::nn::state::{LayerState, StateUse, advanced};
use burn::tensor::Tensor;

/// What a mixer may look at beside its input and its state.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a> {
    /// The pass, which keeps tables of angles.
    pub pass: &'a Pass,
    /// The values that the first layer of the stack hands to later ones; `None` outside of a stack.
    pub first_values: Option<&'a FirstValues>,
}

/// A mixer that reads positions one after the other, each seeing itself and those before it.
pub trait Advancing {
    /// `x` `[batch, seq, d_model]` → the same shape, from a state on, or from zero, and with `last` the state after it.
    fn advance(
        &self,
        x: Tensor<3>,
        state: Option<Vec<Tensor<2>>>,
        sequences: &Sequences,
        last: bool,
        beside: &Beside<'_>,
    ) -> (Tensor<3>, Option<Vec<Tensor<2>>>);
}

impl<M: Advancing> Layer for M {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        let sequences = Sequences::of(cx.visible, cx.span);
        let beside = Beside {
            pass: cx.pass,
            first_values: cx.first_values,
        };
        advanced(cx.state.as_deref_mut(), |state, last| {
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
