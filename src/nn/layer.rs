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
    /// `x` `[batch, seq, d_model]` → the same shape.
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3>;

    /// The state of the layer before the first call. A layer that keeps one for segments drops it where a document of a row
    /// begins, and continues in the document of number [`crate::kernel::Sequences::OPEN`] alone.
    fn empty_state(&self, _of: StateUse) -> LayerState {
        LayerState::None
    }

    /// Positions before a new one of which decoding keeps something; `None` when it keeps all of them.
    fn reach(&self) -> Option<usize> {
        None
    }

    /// The longest input that it can read, when it has a limit.
    fn max_len(&self) -> Option<usize> {
        None
    }

    /// The matrix that the first layer of a stack with some keys lends to the others with the same keys.
    fn lent(&self) -> Option<Tensor<2>> {
        None
    }
}

/// The block that a layer is built for.
#[derive(Clone, Copy, Debug)]
pub struct BlockShape {
    /// Width of the layer's input and output.
    pub d_model: usize,
    /// Number of the block in its stack, from 0.
    pub layer: usize,
    /// Blocks of the stack.
    pub blocks: usize,
    /// Whether its mixer is the first of the stack that hands its values to later ones
    /// ([`super::recurrent::MixerConfig::has_value_residual`]).
    pub makes_first_values: bool,
}

/// The surroundings of a layer's input.
pub struct LayerContext<'a> {
    /// Number of the block in its stack, from 0.
    pub layer: usize,
    /// Number of the block whose parameters the layer has: another one's where layers share them.
    pub owner: usize,
    /// Positions of the queries and keys of this pass.
    pub span: Span,
    /// Which keys a query may see.
    pub visible: &'a Visibility,
    /// The position scheme, for what depends on queries, keys and layer.
    pub position: &'a dyn PositionScheme,
    /// Rotation and biases, which all layers of this pass share.
    pub prepared: &'a Prepared,
    /// The memory of cross-attention, `[batch, keys, d_model]`; `None` in a layer that looks at its own input.
    pub memory: Option<&'a Tensor<3>>,
    /// The rotations of queries and of a memory's keys, where the memory has positions.
    pub turned: Option<[&'a Rotation; 2]>,
    /// Hidden states of earlier segments as the layer reads them, `[batch, earlier, d_model]`: positions before those of its
    /// input, which `span` and `visible` count, and whose states are looked at alone.
    pub earlier: Option<Tensor<3>>,
    /// States `[batch, keys, d_model]` that keys and values are made of in place of the layer's input, as the layer reads them,
    /// each at its own position: `span`, `visible` and `position` hold as they do for the input.
    pub sources: Option<Tensor<3>>,
    /// The matrix that the first block whose attention has the same keys lends ([`Layer::lent`]).
    pub lent: Option<Tensor<2>>,
    /// The values that the first layer of the stack hands to later ones; `None` outside of a stack.
    pub first_values: Option<&'a FirstValues>,
    /// The state that the layer kept at the last call, and keeps for the next one.
    pub state: Option<&'a mut LayerState>,
    /// Draws of dropout, added losses, readings.
    pub pass: &'a Pass,
}

/// Every position sees every other one.
static ALL: Visibility = Visibility::ALL;
/// Nothing is rotated, no score biased.
static NOTHING: Prepared = Prepared {
    rotation: None,
    score_bias: ScoreBias::None,
    vectors: None,
    segments: None,
};

impl<'a> LayerContext<'a> {
    /// The context of a layer outside of a stack: `length` positions that have no order and all see each other.
    pub fn alone(length: usize, pass: &'a Pass) -> Self {
        Self {
            layer: 0,
            owner: 0,
            span: Span {
                queries: length,
                keys: length,
                offset: 0,
            },
            visible: &ALL,
            position: &NoPosition {},
            prepared: &NOTHING,
            memory: None,
            turned: None,
            earlier: None,
            sources: None,
            lent: None,
            first_values: None,
            state: None,
            pass,
        }
    }
}
