//! One block of a transformer: attention, cross-attention if there is a memory, and a feed-forward layer, each
//! in its residual connection, or all in one (parallel).
//!
//! If layers share parameters, a [`Block`] lacks the parts that another block holds for it. [`ResolvedBlock`] is a block with all of
//! its parts, its own or others'; it computes.

use super::layers::BlockConfig;
use super::residual::{NormPlacement, Residual, ResidualConfig};
use super::retrieved::CrossAttentionBlock;
use super::state::BlockState;
use super::view::GroupPosition;
use super::{Memory, StackShape};
use crate::nn::attention::{Attention, AttentionConfig, AttentionShape, SegmentMemory, Visibility};
use crate::nn::feed_forward::FeedForward;
use crate::nn::first_values::FirstValues;
use crate::nn::init::Init;
use crate::nn::layer::{BlockShape, Layer, LayerContext};
use crate::nn::norm::Norm;
use crate::nn::pass::Pass;
use crate::nn::position::{Position, Prepared, Rotation, Span};
use crate::nn::recurrent::{Mixer, MixerConfig};
use crate::nn::role::{Declaration, Place, Roles};
use crate::nn::state::LayerState;
use burn::module::Module;
use burn::tensor::Tensor;

/// Places of the parameters of a [`Block`].
pub const ROLES: Roles = Roles::new(
    "Block",
    &[
        ("attention", Declaration::Place(Place::Mixer)),
        ("mixer", Declaration::Place(Place::Recurrence)),
        ("attention_residual", Declaration::Place(Place::Mixer)),
        ("cross", Declaration::Place(Place::Mixer)),
        ("feed_forward", Declaration::Place(Place::FeedForward)),
        (
            "feed_forward_residual",
            Declaration::Place(Place::FeedForward),
        ),
        ("parallel_norm", Declaration::Place(Place::FeedForward)),
    ],
);

/// The parameters of a block of a stack.
#[derive(Module, Debug)]
pub struct Block {
    /// Self-attention.
    pub attention: Option<Attention>,
    /// The layer in place of attention: a recurrence or a Fourier transform.
    pub mixer: Option<Mixer>,
    /// The residual connection around attention or the mixer; around all layers if they are parallel. It is shared with attention.
    pub attention_residual: Option<Residual>,
    /// The feed-forward layer, which reads each position by itself, or with the one before it.
    pub feed_forward: Option<FeedForward>,
    /// The residual connection around the feed-forward layer, and shared with it; absent if layers are parallel.
    pub feed_forward_residual: Option<Residual>,
    /// The feed-forward layer's own norm, if parallel layers do not share one.
    pub parallel_norm: Option<Norm>,
    /// Cross-attention to a memory, with its residual connection.
    pub cross: Option<Cross>,
    #[module(skip)]
    pub(super) segments: Option<SegmentMemory>,
    /// The position scheme of its attention, if it is not the model's.
    #[module(skip)]
    pub(super) position: Option<GroupPosition>,
    #[module(skip)]
    drop_path: f64,
    /// Number of the first block whose attention has the same config; it lends this block a matrix that layers share.
    #[module(skip)]
    pub(super) lender: usize,
}

/// A block with all of its parts, ready to compute.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResolvedBlock<'a> {
    /// The block that holds attention (or the mixer) and cross-attention.
    pub mixer_block: &'a Block,
    /// The block that holds the feed-forward layer.
    pub feed_forward_block: &'a Block,
    /// Number of the block in the stack, from 0.
    pub layer: usize,
    /// Number of the block `mixing`.
    pub owner: usize,
    /// The first block whose attention has the same config; it lends a matrix that layers share.
    pub lender: &'a Block,
    /// Probability that a row skips one of the block's layers.
    pub drop_path: f64,
}

/// Cross-attention of a block.
#[derive(Module, Debug)]
pub struct Cross {
    /// Attention with queries from the block, keys and values from the memory.
    pub attention: Attention,
    /// The residual connection around it; absent if layers are parallel.
    pub residual: Option<Residual>,
}

/// The arguments of a block's forward pass besides its input.
pub struct BlockContext<'a> {
    /// Positions of the queries and keys of this pass.
    pub span: Span,
    /// Which of the block's own positions a query may see, including earlier ones.
    pub visible: &'a Visibility,
    /// Which positions of this pass a query may see, if the block remembers them for the next pass.
    pub segment_visibility: Option<&'a Visibility>,
    /// The position scheme.
    pub position: &'a Position,
    /// Rotation and biases of this pass.
    pub prepared: &'a Prepared,
    /// What cross-attention attends to.
    pub memory: Option<Memory<'a>>,
    /// The stream that keys and values are computed from, `[batch, keys, d_model]`, in place of the block's own.
    pub sources: Option<&'a Tensor<3>>,
    /// The values of the stack's first layer, in a stack that passes them on to later layers.
    pub first_values: Option<&'a FirstValues>,
    /// The block's state from the last call.
    pub state: Option<&'a mut BlockState>,
    /// The forward pass with its random draws.
    pub pass: &'a Pass,
}

impl Block {
    /// Builds block number `layer` of a stack, with only the parameters that it shares with no block before it.
    pub fn new(shape: &StackShape, config: BlockConfig, layer: usize, init: &Init) -> Self {
        let (stack, dropout, blocks) =
            (shape.config, shape.config.dropouts(), shape.depth.blocks());
        let [mixes, feeds] = stack.share_layers.owners(blocks).owns(layer);
        let joined = ResidualConfig {
            dropout: dropout.residual,
            alpha: shape.alpha,
            scale: stack.residual_scale,
        };
        let segments = config.attention.and_then(AttentionConfig::segments);
        let lender = stack.lender(&shape.depth, layer);
        let position = stack.own_position(shape, layer, init);
        let config = config.with(mixes, feeds);
        let (placement, norm, d_model) = (stack.norm_placement, &stack.norm, stack.d_model);
        let parallel = placement == NormPlacement::Parallel;
        let residual = |init: &Init| Residual::new(placement, norm, d_model, joined, init);
        let mixed = ResidualConfig {
            dropout: match config.mixer {
                Some(mixer) if !parallel && !mixer.has_dropout() => 0.0,
                _ => joined.dropout,
            },
            ..joined
        };
        let around_mixer = |init: &Init| Residual::new(placement, norm, d_model, mixed, init);
        let attends = AttentionShape {
            d_model,
            d_memory: d_model,
            dropout: dropout.attention,
            score_factor: stack.score_factor(config.attention),
            context: shape.context,
            causal: shape.depth.causal,
            layer,
            lender,
        };
        let crosses = AttentionShape {
            d_memory: shape.d_memory.unwrap_or(d_model),
            score_factor: stack.score_factor(config.cross),
            ..attends
        };
        let hands = |block: BlockConfig| block.mixer.is_some_and(MixerConfig::has_value_residual);
        let of_block = BlockShape {
            d_model,
            layer,
            blocks,
            makes_first_values: stack.blocks(&shape.depth).position(hands) == Some(layer),
        };
        let own_norm = parallel && stack.shared_parallel_norm == Some(false);
        Self {
            attention: config
                .attention
                .map(|c| c.init(&attends, &init.part("attention"))),
            mixer: config.mixer.map(|c| c.init(&of_block, &init.part("mixer"))),
            attention_residual: mixes.then(|| match layer == 0 && stack.lacks_first_norm() {
                true => around_mixer(init).without_norm(),
                false => around_mixer(init),
            }),
            feed_forward: config
                .feed_forward
                .map(|c| c.init(&of_block, dropout.feed_forward, &init.part("feed_forward"))),
            feed_forward_residual: (!parallel && config.feed_forward.is_some())
                .then(|| residual(init)),
            parallel_norm: (own_norm && feeds).then(|| norm.init(d_model, init)),
            cross: config.cross.map(|c| Cross {
                attention: c.across().init(&crosses, &init.part("cross_attention")),
                residual: (!parallel).then(|| residual(init)),
            }),
            segments,
            position,
            drop_path: dropout.path_at(layer, blocks),
            lender,
        }
    }

    /// Probability that a row skips one of the block's layers.
    pub(super) fn drop_path(&self) -> f64 {
        self.drop_path
    }
}

impl<'a> ResolvedBlock<'a> {
    /// Returns the layer that mixes positions: attention or the mixer.
    pub(super) fn mixer(&self) -> &'a dyn Layer {
        match (&self.mixer_block.attention, &self.mixer_block.mixer) {
            (Some(attention), _) => attention.layer(),
            (None, Some(mixer)) => mixer.layer(),
            (None, None) => {
                unreachable!("groups without a mixer are refused before a model is built")
            }
        }
    }

    /// Returns the residual connection around the layer that mixes positions.
    pub(super) fn mixer_residual(&self) -> &'a Residual {
        match &self.mixer_block.attention_residual {
            Some(residual) => residual,
            None => unreachable!("the block that owns a layer has its residual connection"),
        }
    }

    /// Name of the layer that mixes positions: `"attention"` or `"mixer"`.
    pub(super) fn mixer_name(&self) -> &'static str {
        match &self.mixer_block.mixer {
            Some(_) => "mixer",
            None => "attention",
        }
    }

    /// Runs the block: `[batch, seq, d_model]` → the same shape.
    pub fn forward(&self, x: Tensor<3>, context: BlockContext) -> Tensor<3> {
        let (layer, owner, drop_path) = (self.layer, self.owner, self.drop_path);
        let mut feeding = self.layer_context(&context);
        let surroundings = self.layer_context(&context);
        let BlockContext {
            span,
            segment_visibility: of_segment,
            memory,
            sources,
            state,
            pass,
            ..
        } = context;
        let (own_state, cross_state, fed_state) = match state {
            Some(state) => (
                Some(&mut state.own),
                Some(&mut state.cross),
                Some(&mut state.feed_forward),
            ),
            None => (None, None, None),
        };
        feeding.state = fed_state;
        let (earlier, own_state) = match own_state {
            Some(LayerState::Segment(earlier)) => {
                let states = self.earlier_states(earlier, &x);
                if let Some(visible) = of_segment {
                    self.remember(earlier, &x, visible, pass);
                }
                (states, None)
            }
            state => (None, state),
        };
        let mut own = LayerContext {
            earlier,
            sources: sources.map(|stream| self.mixer_residual().layer_input(stream.clone())),
            lent: self.lent_matrix(),
            state: own_state,
            ..surroundings
        };
        let mut mix = |x: Tensor<3>| self.mixer().forward(x, &mut own);
        let mut feed = |x: Tensor<3>| match &self.feed_forward_block.feed_forward {
            Some(feed_forward) => feed_forward.layer().forward(x, &mut feeding),
            None => unreachable!("a residual connection stands around a layer"),
        };
        let crossing = self.mixer_block.cross.as_ref();
        let states = memory.and_then(Memory::states);
        // Without a memory, cross-attention is skipped.
        let mut look = crossing.zip(states).map(|(cross, memory)| {
            let mut cx = LayerContext::standalone(memory.states.dims()[1], pass);
            (cx.layer, cx.owner) = (layer, owner);
            cx.span.queries = span.queries;
            cx.visible = memory.visible;
            cx.memory = Some(memory.states);
            cx.memory_rotations = memory.rotations.map(<[Rotation; 2]>::each_ref);
            cx.state = cross_state;
            (cross, cx)
        });
        if self.is_parallel() {
            let own_norm = self.feed_forward_block.parallel_norm.as_ref();
            let inner = own_norm.map(|n| n.forward(x.clone()));
            let residual = self.mixer_residual();
            return residual.apply(x, "parallel", drop_path, pass, |x| {
                let inner = inner.unwrap_or_else(|| x.clone());
                let mut sum = pass.in_part(self.mixer_name(), || mix(x.clone()));
                if self.feed_forward_block.feed_forward.is_some() {
                    sum = sum + pass.in_part("feed_forward", || feed(inner));
                }
                match &mut look {
                    Some((cross, cx)) => {
                        let layer = cross.attention.layer();
                        sum + pass.in_part("cross_attention", || layer.forward(x, cx))
                    }
                    None => sum,
                }
            });
        }
        let residual = self.mixer_residual();
        let mut x = residual.apply(x, self.mixer_name(), drop_path, pass, mix);
        if let Some((cross, cx)) = &mut look
            && let Some(residual) = &cross.residual
        {
            let layer = cross.attention.layer();
            x = residual.apply(x, "cross_attention", drop_path, pass, |x| {
                layer.forward(x, cx)
            });
        }
        if let (Some(cross), Some(Memory::Neighbours(retrieved))) = (crossing, memory) {
            let block = CrossAttentionBlock {
                layer,
                owner,
                drop_path,
            };
            x = retrieved.cross_attend(cross, x, block, pass);
        }
        match &self.feed_forward_block.feed_forward_residual {
            Some(residual) => residual.apply(x, "feed_forward", drop_path, pass, feed),
            None => x,
        }
    }

    /// Builds the context of a layer that reads the block's own stream, without a state.
    pub(super) fn layer_context<'c>(&self, context: &BlockContext<'c>) -> LayerContext<'c> {
        LayerContext {
            layer: self.layer,
            owner: self.owner,
            span: context.span,
            visible: context.visible,
            position: context.position.scheme(),
            prepared: context.prepared,
            first_values: context.first_values,
            ..LayerContext::standalone(context.span.queries, context.pass)
        }
    }

    fn is_parallel(&self) -> bool {
        self.mixer_residual().placement() == NormPlacement::Parallel
    }
}
