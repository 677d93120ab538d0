//! The layers that a block wraps in a residual connection: attention, feed-forward layers, recurrent mixers.

use super::attention::Visibility;
use super::first_values::FirstValues;
use super::pass::Pass;
use super::position::none::NoPosition;
use super::position::{PositionScheme, Prepared, Rotation, ScoreBias, Span};
use super::state::{LayerState, StateUse};
use burn::tensor::Tensor;

/// A layer of a block.
pub trait Layer {
    /// Maps `x` `[batch, seq, d_model]` to the same shape.
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3>;

    /// Returns the state of the layer before its first call. A layer that keeps a state between segments drops it where a row
    /// begins a document, and continues it only in the document numbered [`crate::kernel::Sequences::CONTINUED`].
    fn empty_state(&self, _of: StateUse) -> LayerState {
        LayerState::None
    }

    /// Returns how many positions before a new one decoding has to keep; `None` if it keeps all of them.
    fn reach(&self) -> Option<usize> {
        None
    }

    /// Returns the longest input that the layer can read, if there is a limit.
    fn max_len(&self) -> Option<usize> {
        None
    }

    /// Returns the matrix that the first layer of a stack with given settings lends to the other layers with the same settings.
    fn lent_matrix(&self) -> Option<Tensor<2>> {
        None
    }
}

/// Shape of the block that a layer is built for, and its place in the stack.
#[derive(Clone, Copy, Debug)]
pub struct BlockShape {
    /// Width of the layer's input and output.
    pub d_model: usize,
    /// Number of the block in its stack, from 0.
    pub layer: usize,
    /// Number of blocks in the stack.
    pub blocks: usize,
    /// Whether the block's mixer is the first of the stack that passes its values to later mixers
    /// ([`super::recurrent::MixerConfig::has_value_residual`]).
    pub makes_first_values: bool,
}

/// Everything that a layer can read beside its input.
pub struct LayerContext<'a> {
    /// Number of the block in its stack, from 0.
    pub layer: usize,
    /// Number of the block that owns the layer's parameters; differs from `layer` if layers share parameters.
    pub owner: usize,
    /// Positions of the queries and keys of this pass.
    pub span: Span,
    /// Visibility: which keys each query may see.
    pub visible: &'a Visibility,
    /// The position scheme, for the parts that depend on queries, keys and layer.
    pub position: &'a dyn PositionScheme,
    /// Rotation and biases that all layers of this pass share.
    pub prepared: &'a Prepared,
    /// The memory of cross-attention, `[batch, keys, d_model]`; `None` in self-attention.
    pub memory: Option<&'a Tensor<3>>,
    /// Rotations of the queries and of the memory's keys, if the memory has positions.
    pub memory_rotations: Option<[&'a Rotation; 2]>,
    /// Hidden states of earlier segments as the layer reads them, `[batch, earlier, d_model]`. Their positions precede those of
    /// the input and are counted by `span` and `visible`; they serve only as keys and values.
    pub earlier: Option<Tensor<3>>,
    /// States `[batch, keys, d_model]` from which keys and values are computed in place of the layer's input, as the layer reads
    /// them, each at its own position: `span`, `visible` and `position` hold as they do for the input.
    pub sources: Option<Tensor<3>>,
    /// The matrix lent by the first block whose attention has the same settings ([`Layer::lent_matrix`]).
    pub lent: Option<Tensor<2>>,
    /// The values that the first layer of the stack passes to later ones; `None` outside a stack.
    pub first_values: Option<&'a FirstValues>,
    /// The state that the layer kept at its previous call and updates for the next one.
    pub state: Option<&'a mut LayerState>,
    /// The current pass: dropout draws, added losses and readings.
    pub pass: &'a Pass,
}

/// Every position sees every other one.
static ALL_VISIBLE: Visibility = Visibility::ALL;
/// No rotation and no score bias.
static NO_POSITIONS: Prepared = Prepared {
    rotation: None,
    score_bias: ScoreBias::None,
    vectors: None,
    segments: None,
};

impl<'a> LayerContext<'a> {
    /// Returns the context of a layer outside a stack: `length` positions without order that all see each other.
    pub fn standalone(length: usize, pass: &'a Pass) -> Self {
        Self {
            layer: 0,
            owner: 0,
            span: Span {
                queries: length,
                keys: length,
                offset: 0,
            },
            visible: &ALL_VISIBLE,
            position: &NoPosition {},
            prepared: &NO_POSITIONS,
            memory: None,
            memory_rotations: None,
            earlier: None,
            sources: None,
            lent: None,
            first_values: None,
            state: None,
            pass,
        }
    }
}
