//! The stack: blocks in a row with their norm placement, residual connections and final norm.

pub mod block;
pub mod config;
mod decoding;
mod kept;
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
use crate::nn::role::{Declares, Place, Roles};
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
use retrieved::Retrieved;
pub use reversible::{Join, ReversibleConfig};
pub use sharing::{Owners, ShareConfig};
pub use state::{BlockState, ModelState};
use std::fmt::Debug;
use std::ops::Range;
use view::{View, Views};

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
        ("blocks", Declares::Stands(Place::Blocks)),
        ("final_norm", Declares::Stands(Place::Head)),
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
    owners: Owners,
    #[module(skip)]
    join: Option<Join>,
}

/// The arguments of a stack's forward pass besides its input.
pub struct StackContext<'a> {
    /// The position scheme.
    pub position: &'a Position,
    /// Position and segment ids of the tokens.
    pub places: &'a TokenPositions,
    /// Positions of the queries and keys of this pass.
    pub span: Span,
    /// Which of the stack's own positions a query may see.
    pub visible: &'a Visibility,
    /// The blocks' states from the last call, one entry for each.
    pub state: Option<&'a mut [BlockState]>,
    /// What cross-attention attends to, in a decoder with a memory.
    pub memory: Option<Memory<'a>>,
    /// Work on the stream before each block; ignored by a reversible stack, which has two streams.
    pub between: Option<&'a dyn BeforeBlock>,
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
    States(States<'a>),
    /// Texts retrieved for the chunks of the decoder's own text.
    Neighbours(&'a Retrieved<'a>),
}

/// Hidden states that every query of a row may attend to.
#[derive(Clone, Copy, Debug)]
pub struct States<'a> {
    /// The hidden states, `[batch, source, d_memory]`.
    pub states: &'a Tensor<3>,
    /// Which of these states a query may see.
    pub visible: &'a Visibility,
    /// The rotations of queries and of the states' keys, if positions are rotary.
    pub turned: Option<&'a [Rotation; 2]>,
}

impl<'a> Memory<'a> {
    /// Builds a memory of states without positions, with a mask of the states that a query may see.
    pub fn of(states: &'a Tensor<3>, visible: &'a Visibility) -> Self {
        Self::States(States {
            states,
            visible,
            turned: None,
        })
    }

    /// Returns the states, if the memory consists of states.
    pub fn states(self) -> Option<States<'a>> {
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
                .map(|(layer, block)| Block::new(shape, block, layer, &init.of(&layer.to_string())))
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
    fn wired(&self, layer: usize) -> ResolvedBlock<'_> {
        let owner = self.owners.mixing(layer);
        ResolvedBlock {
            mixing: &self.blocks[owner],
            feeding: &self.blocks[self.owners.feeding(layer)],
            layer,
            owner,
            lender: &self.blocks[self.blocks[layer].lender],
            drop_path: self.blocks[layer].drop_path(),
        }
    }

    /// Returns all blocks with all of their parts, including shared ones.
    fn all_wired(&self) -> impl Iterator<Item = ResolvedBlock<'_>> {
        (0..self.blocks.len()).map(|layer| self.wired(layer))
    }

    /// Returns the state that the stack starts from before the first call.
    pub fn empty_state(&self, of: StateUse) -> ModelState {
        ModelState::new(
            self.all_wired()
                .map(|block| block.empty_state(of))
                .collect(),
        )
    }

    /// Whether texts of any length can be continued at a constant cost per token: some block has segment memory or a recurrent
    /// state, and no block keeps a growing cache.
    pub fn reads_on(&self) -> bool {
        let remembers = self
            .all_wired()
            .any(|block| block.remembers() || block.carries());
        remembers && self.all_wired().all(|block| block.is_bounded())
    }

    /// Whether a block's own position scheme rotates earlier positions again in a text that continues after `seen` positions.
    pub fn rerotates_earlier(&self, seen: usize) -> bool {
        let mut own = self.blocks.iter().filter_map(|b| b.position.as_ref());
        own.any(|own| own.scheme.scheme().rotation_changes_after(seen))
    }

    /// The longest input that its blocks can read, if they have a limit.
    pub fn max_len(&self) -> Option<usize> {
        self.all_wired().filter_map(|block| block.max_len()).min()
    }

    /// `[batch, seq, d_model]` → the same shape; twice as wide if a reversible stack concatenates its two streams.
    pub fn forward(&self, x: Tensor<3>, context: StackContext) -> Tensor<3> {
        let pass = context.pass;
        if let Some(join) = self.join {
            let x = reversible::forward(self, join, x, context);
            return self.last(x, pass);
        }
        let x = self.through(0..self.blocks.len(), x, context);
        self.finished(x, pass)
    }

    /// Runs some of the blocks: `[batch, seq, d_model]` → the same shape.
    pub fn through(
        &self,
        blocks: Range<usize>,
        mut x: Tensor<3>,
        context: StackContext,
    ) -> Tensor<3> {
        let mut views = Views::new(&context, &x);
        let first_values = FirstValues::default();
        let StackContext {
            position,
            places,
            visible,
            state,
            memory,
            between,
            pass,
            ..
        } = context;
        let mut states = state.map(|states| states.iter_mut());
        let numbered = self.all_wired().enumerate();
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
            let View {
                span,
                visible: seen,
                prepared,
                ..
            } = views.of(past, own);
            let context = BlockContext {
                span: *span,
                visible: seen,
                of_segment: Some(visible),
                position: own.map_or(position, |own| &own.scheme),
                prepared,
                memory,
                sources: None,
                first_values: Some(&first_values),
                state,
                pass,
            };
            x = pass.block(format_args!("blocks.{layer}"), || {
                recompute::forward(block, x, context)
            });
        }
        x
    }

    /// Applies the final norm and the output dropout to the last block's output.
    pub fn finished(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        pass.note_hidden(self.blocks.len(), &x);
        self.last(x, pass)
    }

    fn last(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        let x = self.ended(x, pass);
        pass.note_last(&x);
        x
    }

    fn ended(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        let x = match &self.final_norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        pass.dropout(x, "output", self.dropout)
    }
}
