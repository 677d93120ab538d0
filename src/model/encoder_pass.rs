//! The forward pass through all or some blocks of an encoder.

use super::encoder::{Encoder, MasksAndPositions};
use crate::nn::pass::Pass;
use crate::nn::position::Span;
use crate::stack::streams::TwoStreamContext;
use crate::stack::{ModelState, StackContext};
use burn::tensor::Tensor;

impl Encoder {
    /// Computes hidden states `[batch, seq, d_model]` from the embedded tokens `x`; `seen` says which tokens see each other.
    pub fn run_blocks(&self, x: Tensor<3>, seen: &MasksAndPositions, pass: &Pass) -> Tensor<3> {
        let x = self.project_input(x, pass);
        let context = self.stack_context(x.dims()[1], seen, pass);
        self.stack.forward(x, context)
    }

    /// Computes hidden states `[batch, seq, d_model]` of a query stream that starts as `queries`. Queries see only the token
    /// stream, which starts as `x` and whose tokens see each other as `seen` says. With a state, both streams read the remembered
    /// segments.
    pub fn run_query_stream(
        &self,
        [x, queries]: [Tensor<3>; 2],
        seen: &MasksAndPositions,
        streams: &TwoStreamContext,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        let x = self.project_input(x, pass);
        let queries = pass.in_network("queries", || self.project_input(queries, pass));
        let context = StackContext {
            state: state.map(|state| &mut state.layers[..]),
            ..self.stack_context(x.dims()[1], seen, pass)
        };
        self.stack.run_two_streams([x, queries], context, streams)
    }

    /// Whether its attention sees the tokens that a task marks as global.
    pub fn sees_globals(&self) -> bool {
        self.stack.sees_globals()
    }

    /// Returns the first block's input, `[batch, seq, d_model]`: the embeddings, projected onto the stack's width.
    pub(super) fn project_input(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        let x = match &self.projection {
            Some(projection) => projection.forward(x),
            None => x,
        };
        match self.dropout_after_projection {
            true => pass.dropout(x, "embedding", self.dropout),
            false => x,
        }
    }

    /// The stack's arguments besides its input, for texts of `seq` tokens.
    pub(super) fn stack_context<'a>(
        &'a self,
        seq: usize,
        seen: &'a MasksAndPositions,
        pass: &'a Pass,
    ) -> StackContext<'a> {
        StackContext {
            position: &self.position,
            token_positions: &seen.positions,
            span: Span::full(seq),
            visible: &seen.visible,
            state: None,
            memory: None,
            before_blocks: None,
            pass,
        }
    }
}
