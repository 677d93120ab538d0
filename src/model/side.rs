//! One of the two stacks of an encoder-decoder with what comes before it.

use crate::nn::attention::Visibility;
use crate::nn::norm::Norm;
use crate::nn::pass::Pass;
use crate::nn::position::{Places, Position, Span};
use crate::nn::role::{Place, Roles, Says};
use crate::stack::{Memory, ModelState, Stack, StackContext};
use burn::module::Module;
use burn::tensor::Tensor;

/// What the parameters of [`Side`] are.
pub const ROLES: Roles = Roles::new(
    "Side",
    &[
        ("position", Says::Stands(Place::Position)),
        ("embedding_norm", Says::Stands(Place::Input)),
    ],
);

/// One of the two stacks with what comes before it.
#[derive(Module, Debug)]
pub struct Side {
    /// How it knows where a token stands.
    pub position: Position,
    /// On the sum of token and position vectors.
    pub embedding_norm: Option<Norm>,
    /// The blocks.
    pub stack: Stack,
}

impl Side {
    /// Hidden states of embedded tokens `x` `[batch, seq, d_model]`.
    pub(super) fn forward(
        &self,
        x: Tensor<3>,
        dropout: f64,
        visible: &Visibility,
        memory: Option<Memory>,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        let [_, seq, _] = x.dims();
        let offset = state.as_ref().map_or(0, |state| state.seen);
        let places = Places { offset, ids: None };
        let x = self.position.embed(x, &places, pass);
        let x = match &self.embedding_norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        let state = state.map(|state| {
            state.seen += seq;
            state.layers.as_mut_slice()
        });
        let context = StackContext {
            position: &self.position,
            places: &places,
            span: Span {
                queries: seq,
                keys: offset + seq,
                offset,
            },
            visible,
            state,
            memory,
            between: None,
            pass,
        };
        let x = pass.dropout(x, "embedding", dropout);
        self.stack.forward(x, context)
    }
}
