//! One pass through the blocks of an encoder, all of them or some.

use super::encoder::{Encoder, Seen};
use crate::nn::pass::Pass;
use crate::nn::position::Span;
use crate::stack::streams::Streams;
use crate::stack::{ModelState, StackContext};
use burn::tensor::Tensor;

impl Encoder {
    /// Hidden states `[batch, seq, d_model]` from the vectors of tokens that see each other so.
    pub fn through(&self, x: Tensor<3>, seen: &Seen, pass: &Pass) -> Tensor<3> {
        let x = self.projected(x, pass);
        let context = self.context(x.dims()[1], seen, pass);
        self.stack.forward(x, context)
    }

    /// States `[batch, seq, d_model]` of a stream of queries, which begins as `queries` and looks at the stream of the tokens'
    /// vectors `x` alone, where tokens see each other as `seen` says. Where there is a state both streams look at what is remembered.
    pub fn queried(
        &self,
        [x, queries]: [Tensor<3>; 2],
        seen: &Seen,
        streams: &Streams,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        let x = self.projected(x, pass);
        let queries = pass.within("queries", || self.projected(queries, pass));
        let context = StackContext {
            state: state.map(|state| &mut state.layers[..]),
            ..self.context(x.dims()[1], seen, pass)
        };
        self.stack.streams([x, queries], context, streams)
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
        seen: &'a Seen,
        pass: &'a Pass,
    ) -> StackContext<'a> {
        StackContext {
            position: &self.position,
            places: &seen.places,
            span: Span::of(seq),
            visible: &seen.visible,
            state: None,
            memory: None,
            between: None,
            pass,
        }
    }
}
