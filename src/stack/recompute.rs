//! Recomputation (activation checkpointing): a block keeps only its input; in the backward pass it runs once more, with a graph,
//! and passes on the gradients (Chen et al. 2016, sublinear memory cost, section 4).
//!
//! The first run of a block has no graph. Random draws are keyed by the pass and the part, so that the second run
//! computes the same numbers, and gradients are added in the order in which the whole graph would add them: weights are the
//! same bit for bit. If a tensor of a block is read at several places and the whole graph orders them differently,
//! gradients differ in their last digits; the docs of `[train] recompute` name the cases. Losses that layers add, and values for
//! later layers, are appended to the block's output, in one tensor with it.

mod one_block;
mod results;

use super::block::{Block, BlockContext, ResolvedBlock};
use super::state::BlockState;
use super::{Memory, MemoryStates, Position};
use crate::kernel;
use crate::kernel::custom_op::{
    CustomGradients, EarlierGradients, Leaves, backward_from, custom_op,
};
use crate::nn::attention::Visibility;
use crate::nn::first_values::FirstValues;
use crate::nn::pass::Pass;
use crate::nn::position::{Prepared, Rotation, ScoreBias, Span};
use burn::module::Module;
use burn::tensor::{Gradients, Tensor};
pub use one_block::recompute_block;
pub(super) use results::{loss_in_format, pack, unpack};

/// Number of tensors besides the stream that gradients may go to: memory, sources, biases, vectors of distances, values of the
/// first layer.
const SHARED_TENSORS: usize = 5;

/// The modules that a block computes with: the block itself, the blocks that own its feed-forward layer and that lend to it if
/// these are others, and the position scheme.
pub(super) type BlockModules = (Block, [Option<Block>; 2], Position);

/// Clones the modules that a block computes with.
pub(super) fn clone_modules(block: ResolvedBlock, position: &Position) -> BlockModules {
    let own = block.mixer_block;
    let others = [block.feed_forward_block, block.lender];
    let others = others.map(|other| (!std::ptr::eq(own, other)).then(|| other.clone()));
    (own.clone(), others, position.clone())
}

/// Returns the block with `modules` in place of its own.
pub(super) fn with(block: BlockIndex, modules: &BlockModules) -> ResolvedBlock<'_> {
    let (own, [feeding, lender], _) = modules;
    ResolvedBlock {
        mixer_block: own,
        feed_forward_block: feeding.as_ref().unwrap_or(own),
        lender: lender.as_ref().unwrap_or(own),
        layer: block.layer,
        owner: block.owner,
        drop_path: block.drop_path,
    }
}

/// The numbers of a block: its place in the stack, its owner's, and its drop-path probability.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockIndex {
    layer: usize,
    owner: usize,
    drop_path: f64,
}

impl BlockIndex {
    /// Returns the block's number in its stack.
    pub(super) fn layer(self) -> usize {
        self.layer
    }
}

impl From<ResolvedBlock<'_>> for BlockIndex {
    fn from(block: ResolvedBlock) -> Self {
        Self {
            layer: block.layer,
            owner: block.owner,
            drop_path: block.drop_path,
        }
    }
}

/// The arguments of a block as owned values, without a graph.
#[derive(Clone, Debug)]
pub(super) struct OwnedContext {
    span: Span,
    visible: Visibility,
    of_segment: Option<Visibility>,
    prepared: Prepared,
    memory: Option<(Tensor<3>, Visibility, Option<[Rotation; 2]>)>,
    sources: Option<Tensor<3>>,
    first_values: Option<Tensor<3>>,
    tracked: [bool; SHARED_TENSORS],
}

impl OwnedContext {
    /// Copies the arguments out of a context; also returns its tensors that gradients go to, in three dimensions.
    pub(super) fn from_context(context: &BlockContext) -> (Self, Vec<Tensor<3>>) {
        let whole = Self {
            span: context.span,
            visible: context.visible.clone(),
            of_segment: context.segment_visibility.cloned(),
            prepared: context.prepared.clone(),
            memory: context.memory.and_then(Memory::states).map(|memory| {
                let MemoryStates {
                    states,
                    visible,
                    rotations: turned,
                } = memory;
                (states.clone(), visible.clone(), turned.cloned())
            }),
            sources: context.sources.cloned(),
            first_values: context.first_values.and_then(FirstValues::get),
            tracked: [false; SHARED_TENSORS],
        };
        let each = whole.gradient_tensors();
        let tracked = each
            .each_ref()
            .map(|x| x.as_ref().is_some_and(Tensor::is_tracked));
        let inputs = each.iter().flatten().filter(|x| x.is_tracked()).cloned();
        let inputs = inputs.collect();
        let rotation = whole.prepared.rotation.clone();
        let rotation = rotation.map(|rotation| rotation.map(kernel::untracked));
        let mut plain = whole.with(each.map(|x| x.map(kernel::untracked)));
        plain.prepared.rotation = rotation;
        plain.prepared.segments = whole.prepared.segments.clone().map(kernel::untracked);
        plain.tracked = tracked;
        (plain, inputs)
    }

    /// Returns the tensors that gradients may go to.
    fn gradient_tensors(&self) -> [Option<Tensor<3>>; SHARED_TENSORS] {
        let bias = match &self.prepared.score_bias {
            ScoreBias::None => None,
            ScoreBias::ByDistance(bias) => Some(bias.clone().unsqueeze_dim(0)),
            ScoreBias::Dense(bias) => {
                let [batch, heads, queries, keys] = bias.dims();
                Some(bias.clone().reshape([batch * heads, queries, keys]))
            }
        };
        [
            self.memory.as_ref().map(|(states, ..)| states.clone()),
            self.sources.clone(),
            bias,
            self.prepared.vectors.clone().map(|x| x.unsqueeze_dim(0)),
            self.first_values.clone(),
        ]
    }

    /// Returns a copy with these tensors replaced.
    fn with(&self, each: [Option<Tensor<3>>; SHARED_TENSORS]) -> Self {
        let [memory, sources, bias, vectors, first_values] = each;
        let score_bias = match (&self.prepared.score_bias, bias) {
            (ScoreBias::ByDistance(_), Some(bias)) => ScoreBias::ByDistance(bias.squeeze_dim(0)),
            (ScoreBias::Dense(of), Some(bias)) => ScoreBias::Dense(bias.reshape(of.dims())),
            (_, _) => ScoreBias::None,
        };
        let memory = memory.zip(self.memory.as_ref());
        Self {
            prepared: Prepared {
                rotation: self.prepared.rotation.clone(),
                score_bias,
                vectors: vectors.map(|x| x.squeeze_dim(0)),
                segments: self.prepared.segments.clone(),
            },
            memory: memory
                .map(|(states, (_, visible, turned))| (states, visible.clone(), turned.clone())),
            sources,
            first_values,
            ..self.clone()
        }
    }

    /// Returns a copy with leaves in place of the tensors that gradients go to, and these leaves.
    pub(super) fn with_leaves(&self) -> (Self, Vec<Tensor<3>>) {
        let mut leaves = Vec::new();
        let (mut each, tracked) = (self.gradient_tensors(), self.tracked);
        for x in each
            .iter_mut()
            .zip(tracked)
            .filter_map(|(x, on)| x.as_mut().filter(|_| on))
        {
            *x = leaf(x.clone());
            leaves.push(x.clone());
        }
        (self.with(each), leaves)
    }

    /// Runs `work` in a context with these arguments.
    pub(super) fn run_in_context<T>(
        &self,
        position: &Position,
        state: Option<&mut BlockState>,
        pass: &Pass,
        work: impl FnOnce(BlockContext) -> T,
    ) -> T {
        let memory = self.memory.as_ref().map(|(states, visible, turned)| {
            Memory::States(MemoryStates {
                states,
                visible,
                rotations: turned.as_ref(),
            })
        });
        let first_values = FirstValues::starting_with(self.first_values.clone());
        work(BlockContext {
            span: self.span,
            visible: &self.visible,
            segment_visibility: self.of_segment.as_ref(),
            position,
            prepared: &self.prepared,
            memory,
            sources: self.sources.as_ref(),
            first_values: Some(&first_values),
            state,
            pass,
        })
    }
}

/// Makes a tensor a leaf of a new graph.
pub(super) fn leaf(x: Tensor<3>) -> Tensor<3> {
    x.autodiff().require_grad()
}

/// Returns the gradients of some tensors. A tensor that was not read gets zeros: in the outer graph it may be a view of a tensor,
/// and Burn needs the gradient of every view.
pub(super) fn gradients_of_leaves(
    leaves: &[Tensor<3>],
    gradients: &Gradients,
) -> Vec<Option<Tensor<3>>> {
    let zeros = |leaf: &Tensor<3>| kernel::untracked(leaf.clone()).zeros_like();
    let each = leaves
        .iter()
        .map(|leaf| leaf.grad(gradients).unwrap_or_else(|| zeros(leaf)));
    each.map(Some).collect()
}

/// Runs the block: `[batch, seq, d_model]` → the same shape. If the pass says so, the block keeps only its input and is
/// recomputed.
pub(super) fn forward(block: ResolvedBlock, x: Tensor<3>, context: BlockContext) -> Tensor<3> {
    let pass = context.pass;
    // Neighbours are encoded once for all blocks that attend to them.
    let retrieves = matches!(context.memory, Some(Memory::Neighbours(_)));
    let looks = retrieves && block.mixer_block.cross.is_some();
    if !(pass.recomputes() && x.is_autodiff()) || looks {
        return block.forward(x, context);
    }
    let (surroundings, shared) = OwnedContext::from_context(&context);
    let of_block = clone_modules(block, context.position);
    let leaves = Leaves::of_module(&of_block);
    if leaves.is_empty() && shared.is_empty() && !x.is_tracked() {
        return block.forward(x, context);
    }
    let once = RecomputedBlock {
        place: block.into(),
        modules: of_block.valid(),
        x: kernel::untracked(x.clone()),
        state: context.state.as_deref().cloned(),
        surroundings,
        pass: pass.for_recomputation(),
    };
    let kept = pass.losses().len();
    let (y, made) = once.first_run(context.state, pass);
    let losses = pass.take_losses(kept);
    let (dims, makes) = (y.dims(), made.is_some());
    let inputs = std::iter::once(x).chain(shared).collect();
    let y = pack(kernel::untracked(y), made.map(kernel::untracked), &losses);
    let y = custom_op(inputs, &leaves, kernel::untracked(y), |gradient, so_far| {
        once.recompute(gradient, so_far)
    });
    let (y, made) = unpack(y, dims, makes, losses, pass);
    if let (Some(first_values), Some(made)) = (context.first_values, made) {
        first_values.put(&made);
    }
    y
}

/// Runs the backward pass of a recomputed block: returns the gradients of its input, of the tensors it shares with others, and of
/// its parameters. `pairs` are tensors of its graph with their gradients.
fn backward_block<M: Module>(
    modules: &M,
    x: &Tensor<3>,
    shared: &[Tensor<3>],
    pairs: Vec<(Tensor<3>, Tensor<3>)>,
) -> CustomGradients {
    let gradients = backward_from(pairs);
    let mut inputs = vec![x.grad(&gradients)];
    inputs.extend(gradients_of_leaves(shared, &gradients));
    CustomGradients {
        inputs,
        parameters: Leaves::of_module(modules).gradients(&gradients),
    }
}

/// Runs the block; returns its output, and the first values if it computes them.
fn run_block(
    block: ResolvedBlock,
    x: Tensor<3>,
    context: BlockContext,
) -> (Tensor<3>, Option<Tensor<3>>) {
    let first_values = context.first_values;
    let y = block.forward(x, context);
    (y, first_values.and_then(FirstValues::stored))
}

/// A block with all inputs of its run.
struct RecomputedBlock {
    place: BlockIndex,
    modules: BlockModules,
    x: Tensor<3>,
    state: Option<BlockState>,
    surroundings: OwnedContext,
    pass: Pass,
}

impl RecomputedBlock {
    /// The first run, without a graph.
    fn first_run(
        &self,
        state: Option<&mut BlockState>,
        pass: &Pass,
    ) -> (Tensor<3>, Option<Tensor<3>>) {
        let block = with(self.place, &self.modules);
        let work = |context: BlockContext| run_block(block, self.x.clone(), context);
        self.surroundings
            .run_in_context(&self.modules.2, state, pass, work)
    }

    /// The second run, with a graph, in the backward pass.
    fn recompute(self, gradient: Tensor<3>, so_far: EarlierGradients) -> CustomGradients {
        let modules = self.modules.train();
        let (surroundings, shared) = self.surroundings.with_leaves();
        let (x, mut state, pass) = (leaf(self.x), self.state, self.pass);
        let block = with(self.place, &modules);
        let (y, made) = surroundings.run_in_context(&modules.2, state.as_mut(), &pass, |context| {
            run_block(block, x.clone(), context)
        });
        let y = pack(y, made, &pass.losses());
        // Gradients of tensors that several layers read are added in the order in which one graph would add them.
        let before = shared.iter().cloned().zip(so_far);
        let before = before.filter_map(|(leaf, gradient)| Some((leaf, gradient?)));
        let pairs = std::iter::once((y, gradient)).chain(before).collect();
        backward_block(&modules, &x, &shared, pairs)
    }
}
