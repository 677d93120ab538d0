//! One pass through the blocks of an encoder, all of them or some.

use super::encoder::Encoder;
use crate::nn::attention::Visibility;
use crate::nn::pass::Pass;
use crate::nn::position::{FROM_THE_FIRST, Span};
use crate::stack::StackContext;
use burn::tensor::Tensor;

impl Encoder {
    /// Hidden states `[batch, seq, d_model]` from the vectors of tokens that see each other so.
    pub fn through(&self, x: Tensor<3>, visible: &Visibility, pass: &Pass) -> Tensor<3> {
        let x = self.projected(x, pass);
        let context = self.context(x.dims()[1], visible, pass);
        self.stack.forward(x, context)
    }

    /// Whether its attention sees the tokens that a task marks as global.
    pub fn sees_globals(&self) -> bool {
        self.stack.sees_globals()
    }

    /// The vectors that the first block reads, `[batch, seq, d_model]`.
    pub(super) fn projected(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        let x = match &self.projection {
            Some(projection) => projection.forward(x),
            None => x,
        };
        match self.dropout_after_projection {
            true => pass.dropout(x, "embedding", self.dropout),
            false => x,
        }
    }

    /// The context of the blocks beside their input, for texts of `seq` tokens.
    pub(super) fn context<'a>(
        &'a self,
        seq: usize,
        visible: &'a Visibility,
        pass: &'a Pass,
    ) -> StackContext<'a> {
        StackContext {
            position: &self.position,
            places: &FROM_THE_FIRST,
            span: Span::of(seq),
            visible,
            state: None,
            memory: None,
            between: None,
            pass,
        }
    }
}
