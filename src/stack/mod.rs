//! The stack: blocks in a row with their norm placement, residual connections and final norm.

pub mod block;
mod block_state;
pub mod config;
mod decoding;
pub mod layers;
pub mod mup;
mod recompute;
pub mod residual;
pub mod residual_scale;
pub mod retrieved;
pub mod reversible;
pub mod sharing;
pub mod state;
pub mod streams;
mod view;

use crate::nn::attention::{Attention, Visibility};
use crate::nn::first_values::FirstValues;
use crate::nn::init::Init;
use crate::nn::norm::Norm;
use crate::nn::pass::Pass;
use crate::nn::position::{Position, Rotation, Span, TokenPositions};
use crate::nn::role::{Declaration, Place, Roles};
use crate::nn::state::{LayerState, StateUse};
use block::{Block, BlockContext, ResolvedBlock};
use burn::module::Module;
use burn::tensor::Tensor;
pub use config::StackConfig;
pub use layers::{BlockConfig, Depth, LayerGroup};
pub use mup::MupConfig;
pub use recompute::recompute_block;
pub use residual::NormPlacement;
pub use residual_scale::ResidualScaleConfig;
use retrieved::RetrievedContext;
pub use reversible::{Join, ReversibleConfig};
pub use sharing::{ParameterOwners, ShareConfig};
pub use state::{BlockState, ModelState};
use std::fmt::Debug;
use std::ops::Range;
use view::{BlockView, Views};

/// The shape of a stack.
#[derive(Clone, Copy, Debug)]
pub struct StackShape<'a> {
    /// Settings that all blocks share.
    pub config: &'a StackConfig,
    /// The number of blocks and their layers.
    pub depth: Depth<'a>,
    /// DeepNorm's α; 1 for other norm placements.
    pub alpha: f64,
    /// Length of the longest input, in positions.
    pub context: usize,
    /// Width of the memory that cross-attention reads, if it differs from the stream's.
    pub d_memory: Option<usize>,
}

/// Probabilities of the dropouts of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dropout {
    /// On the embeddings.
    pub embedding: f64,
    /// On attention weights.
    pub attention: f64,
    /// On each layer's output.
    pub residual: f64,
    /// Inside feed-forward layers, after the activation.
    pub feed_forward: f64,
    /// On the stack's output.
    pub output: f64,
    /// On whole layers (stochastic depth), rising linearly to this value at the last layer.
    pub path: f64,
}

impl Dropout {
    /// Drop-path probability at a layer (Huang et al. 2016, linear decay rule).
    pub fn path_at(&self, layer: usize, n_layers: usize) -> f64 {
        self.path * layer as f64 / (n_layers.max(2) - 1) as f64
    }
}

/// Places of the parameters of a [`Stack`].
pub const ROLES: Roles = Roles::new(
    "Stack",
    &[
        ("blocks", Declaration::Place(Place::Blocks)),
        ("final_norm", Declaration::Place(Place::Head)),
    ],
);

/// Blocks in a row, followed by a final norm.
#[derive(Module, Debug)]
pub struct Stack {
    /// The blocks in order of computation. If layers share parameters, each block holds only the parts that no block before it
    /// has.
    pub blocks: Vec<Block>,
    /// The norm after the last block.
    pub final_norm: Option<Norm>,
    dropout: f64,
    #[module(skip)]
    owners: ParameterOwners,
    #[module(skip)]
    join: Option<Join>,
}

/// The arguments of a stack's forward pass besides its input.
pub struct StackContext<'a> {
    /// The position scheme.
    pub position: &'a Position,
    /// Position and segment ids of the tokens.
    pub token_positions: &'a TokenPositions,
    /// Positions of the queries and keys of this pass.
    pub span: Span,
    /// Which of the stack's own positions a query may see.
    pub visible: &'a Visibility,
    /// The blocks' states from the last call, one entry for each.
    pub state: Option<&'a mut [BlockState]>,
    /// What cross-attention attends to, in a decoder with a memory.
    pub memory: Option<Memory<'a>>,
    /// Work on the stream before each block; ignored by a reversible stack, which has two streams.
    pub before_blocks: Option<&'a dyn BeforeBlock>,
    /// The forward pass with its random draws.
    pub pass: &'a Pass,
}

/// Work on the stream between the blocks of a stack: gated cross-attention.
pub trait BeforeBlock: Debug {
    /// Returns the stream `x` `[batch, seq, d_model]` as block number `layer` is to read it. `kept` caches the memory's keys and
    /// values in decoding; `visible` says which positions are padding.
    fn before(
        &self,
        layer: usize,
        x: Tensor<3>,
        kept: Option<&mut LayerState>,
        visible: &Visibility,
        pass: &Pass,
    ) -> Tensor<3>;
}

/// What cross-attention attends to.
#[derive(Clone, Copy, Debug)]
pub enum Memory<'a> {
    /// Hidden states that are the same for every layer: an encoder's final output.
    States(MemoryStates<'a>),
    /// Texts retrieved for the chunks of the decoder's own text.
    Neighbours(&'a RetrievedContext<'a>),
}

/// Hidden states that every query of a row may attend to.
#[derive(Clone, Copy, Debug)]
pub struct MemoryStates<'a> {
    /// The hidden states, `[batch, source, d_memory]`.
    pub states: &'a Tensor<3>,
    /// Which of these states a query may see.
    pub visible: &'a Visibility,
    /// The rotations of queries and of the states' keys, if positions are rotary.
    pub rotations: Option<&'a [Rotation; 2]>,
}

impl<'a> Memory<'a> {
    /// Builds a memory of states without positions, with a mask of the states that a query may see.
    pub fn without_positions(states: &'a Tensor<3>, visible: &'a Visibility) -> Self {
        Self::States(MemoryStates {
            states,
            visible,
            rotations: None,
        })
    }

    /// Returns the states, if the memory consists of states.
    pub fn states(self) -> Option<MemoryStates<'a>> {
        match self {
            Self::States(states) => Some(states),
            Self::Neighbours(_) => None,
        }
    }
}

impl Stack {
    /// Whether some attention sees the tokens that a task marks as global.
    pub fn sees_globals(&self) -> bool {
        let mut attentions = self.blocks.iter().filter_map(|b| b.attention.as_ref());
        attentions.any(Attention::sees_globals)
    }

    /// Builds a stack of this shape.
    pub fn new(shape: &StackShape, init: &Init) -> Self {
        let StackShape { config, depth, .. } = shape;
        let blocks = config.blocks(depth).enumerate();
        Self {
            blocks: blocks
                .map(|(layer, block)| {
                    Block::new(shape, block, layer, &init.part(&layer.to_string()))
                })
                .collect(),
            final_norm: config
                .has_final_norm()
                .then(|| config.norm.init(config.d_output(), init)),
            dropout: config.dropouts().output,
            owners: config.share_layers.owners(depth.blocks()),
            join: config.reversible.map(|reversible| reversible.join),
        }
    }

    /// Returns block number `layer` with all of its parts, including shared ones.
    fn resolved(&self, layer: usize) -> ResolvedBlock<'_> {
        let owner = self.owners.mixer_owner(layer);
        ResolvedBlock {
            mixer_block: &self.blocks[owner],
            feed_forward_block: &self.blocks[self.owners.feed_forward_owner(layer)],
            layer,
            owner,
            lender: &self.blocks[self.blocks[layer].lender],
            drop_path: self.blocks[layer].drop_path(),
        }
    }

    /// Returns all blocks with all of their parts, including shared ones.
    fn all_resolved(&self) -> impl Iterator<Item = ResolvedBlock<'_>> {
        (0..self.blocks.len()).map(|layer| self.resolved(layer))
    }

    /// Returns the state that the stack starts from before the first call.
    pub fn empty_state(&self, of: StateUse) -> ModelState {
        ModelState::new(
            self.all_resolved()
                .map(|block| block.empty_state(of))
                .collect(),
        )
    }

    /// Whether texts of any length can be continued at a constant cost per token: some block has segment memory or a recurrent
    /// state, and no block keeps a growing cache.
    pub fn has_bounded_state(&self) -> bool {
        let remembers = self
            .all_resolved()
            .any(|block| block.has_segment_memory() || block.has_mixer());
        remembers && self.all_resolved().all(|block| block.is_bounded())
    }

    /// Whether a block's own position scheme rotates earlier positions again in a text that continues after `seen` positions.
    pub fn rotation_changes_after(&self, seen: usize) -> bool {
        let mut own = self.blocks.iter().filter_map(|b| b.position.as_ref());
        own.any(|own| own.scheme.scheme().rotation_changes_after(seen))
    }

    /// The longest input that its blocks can read, if they have a limit.
    pub fn max_len(&self) -> Option<usize> {
        self.all_resolved()
            .filter_map(|block| block.max_len())
            .min()
    }

    /// `[batch, seq, d_model]` → the same shape; twice as wide if a reversible stack concatenates its two streams.
    pub fn forward(&self, x: Tensor<3>, context: StackContext) -> Tensor<3> {
        let pass = context.pass;
        if let Some(join) = self.join {
            let x = reversible::forward(self, join, x, context);
            return self.finish_and_record(x, pass);
        }
        let x = self.run_blocks(0..self.blocks.len(), x, context);
        self.finish(x, pass)
    }

    /// Runs some of the blocks: `[batch, seq, d_model]` → the same shape.
    pub fn run_blocks(
        &self,
        blocks: Range<usize>,
        mut x: Tensor<3>,
        context: StackContext,
    ) -> Tensor<3> {
        let mut views = Views::new(&context, &x);
        let first_values = FirstValues::default();
        let StackContext {
            position,
            token_positions: places,
            visible,
            state,
            memory,
            before_blocks: between,
            pass,
            ..
        } = context;
        let mut states = state.map(|states| states.iter_mut());
        let numbered = self.all_resolved().enumerate();
        for (layer, block) in numbered.skip(blocks.start).take(blocks.len()) {
            pass.note_hidden(layer, &x);
            pass.note_layer(layer, &x);
            let mut state = states.as_mut().and_then(Iterator::next);
            if let Some(between) = between {
                let kept = state.as_deref_mut().map(|state| &mut state.cross);
                x = between.before(layer, x, kept, visible, pass);
            }
            x = position.embed_layer(x, layer, places, pass);
            let past = block.past(state.as_deref(), views.span);
            let own = self.blocks[layer].position.as_ref();
            let BlockView {
                span,
                visible: seen,
                prepared,
                ..
            } = views.get_or_compute(past, own);
            let context = BlockContext {
                span: *span,
                visible: seen,
                segment_visibility: Some(visible),
                position: own.map_or(position, |own| &own.scheme),
                prepared,
                memory,
                sources: None,
                first_values: Some(&first_values),
                state,
                pass,
            };
            x = pass.in_block(format_args!("blocks.{layer}"), || {
                recompute::forward(block, x, context)
            });
        }
        x
    }

    /// Applies the final norm and the output dropout to the last block's output.
    pub fn finish(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        pass.note_hidden(self.blocks.len(), &x);
        self.finish_and_record(x, pass)
    }

    fn finish_and_record(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        let x = self.final_norm_and_dropout(x, pass);
        pass.note_last(&x);
        x
    }

    fn final_norm_and_dropout(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        let x = match &self.final_norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        pass.dropout(x, "output", self.dropout)
    }
}
