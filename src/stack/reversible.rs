//! Reversible residual stacks: two streams that are updated from each other in turn, so that each block's input follows from
//! its output and training keeps only the last values (Gomez et al. 2017, RevNets, section 3; Kitaev et al. 2020,
//! Reformer, section 3).
//!
//! ```text
//! forward:   y₁ = x₁ + attention(LN(x₂))        y₂ = x₂ + feed_forward(LN(y₁))
//! backward:  x₂ = y₂ − feed_forward(LN(y₁))     x₁ = y₁ − attention(LN(x₂))
//! ```
//!
//! The stack starts with x₁ = x₂ = the embeddings. The two output streams are joined: concatenated, as in Reformer, or as
//! their mean or sum. If gradients are needed, all blocks together are one operation of the graph that keeps only the final two
//! streams: activation memory does not grow with depth. In the backward pass each layer is computed once more, with the same
//! random draws. The rounding errors this adds to the streams are in the last digits of the largest values that they had. A
//! stream that starts small beside what is added to it (embeddings of 0.02, sandwich norms' outputs of 1) loses as many
//! digits: gradients of the first blocks are then off by some 10⁻⁴ of their largest value. A norm of the embeddings avoids this.

mod backward;

use super::block::{BlockContext, ResolvedBlock};
use super::recompute::{OwnedContext, clone_modules, pack, unpack};
use super::view::{Past, Views};
use super::{Stack, StackContext};
use crate::kernel;
use crate::kernel::custom_op::{Leaves, custom_op};
use crate::nn::layer::LayerContext;
use backward::{BlockInputs, ReversibleBackward};
use burn::module::Module;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of a reversible stack: `[model] reversible`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReversibleConfig {
    /// How the two streams after the last block are joined into one.
    pub join: Join,
}

/// How two streams are joined into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// (y₁ + y₂)/2.
    #[default]
    Mean,
    /// y₁ + y₂.
    Sum,
    /// [y₁; y₂], twice as wide (Reformer): the final norm and the head read 2·d_model elements.
    Concatenation,
}

impl Join {
    fn join(self, [first, second]: [Tensor<3>; 2]) -> Tensor<3> {
        match self {
            Self::Mean => (first + second) * 0.5,
            Self::Sum => first + second,
            Self::Concatenation => Tensor::cat(vec![first, second], 2),
        }
    }
}

/// The half of a block that updates one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// Attention or the mixer; its output is added to the first stream.
    Mixer,
    /// The feed-forward layer; its output is added to the second stream.
    FeedForward,
}

impl ResolvedBlock<'_> {
    /// Returns the halves of the block in order of computation.
    fn halves(&self) -> impl DoubleEndedIterator<Item = Half> + use<> {
        let feeds = self.feed_forward_block.feed_forward.is_some();
        [Some(Half::Mixer), feeds.then_some(Half::FeedForward)]
            .into_iter()
            .flatten()
    }

    /// Computes what a half adds to its stream, from the other stream `x`.
    fn half_output(&self, half: Half, x: Tensor<3>, mut context: BlockContext) -> Tensor<3> {
        let (drop_path, pass) = (self.drop_path, context.pass);
        let state = context.state.take();
        let mut cx = self.layer_context(&context);
        match half {
            Half::Mixer => {
                cx = LayerContext {
                    lent: self.lent_matrix(),
                    state: state.map(|state| &mut state.own),
                    ..cx
                };
                let residual = self.mixer_residual();
                residual.branch_output(x, self.mixer_name(), drop_path, pass, |x| {
                    self.mixer().forward(x, &mut cx)
                })
            }
            Half::FeedForward => {
                cx.state = state.map(|state| &mut state.feed_forward);
                let (Some(residual), Some(layer)) = (
                    &self.feed_forward_block.feed_forward_residual,
                    &self.feed_forward_block.feed_forward,
                ) else {
                    unreachable!("a half without a layer is none")
                };
                residual.branch_output(x, "feed_forward", drop_path, pass, |x| {
                    layer.layer().forward(x, &mut cx)
                })
            }
        }
    }
}

/// Runs the stack: `[batch, seq, d_model]` → the joined output streams.
pub(super) fn forward(stack: &Stack, join: Join, x: Tensor<3>, context: StackContext) -> Tensor<3> {
    let all = (stack.blocks.clone(), context.position.clone());
    let learns = x.is_autodiff() && (x.is_tracked() || !Leaves::of_module(&all).is_empty());
    if !learns {
        return join.join(run_streams(stack, x, context));
    }
    let width = x.dims()[2];
    let both = run_as_one_operation(stack, x, context);
    if join == Join::Concatenation {
        return both;
    }
    join.join([0, width].map(|from| both.clone().narrow(2, from, width)))
}

/// Computes the two output streams in an ordinary forward pass.
fn run_streams(stack: &Stack, x: Tensor<3>, context: StackContext) -> [Tensor<3>; 2] {
    let mut views = Views::new(&context, &x);
    let StackContext {
        position,
        visible,
        state,
        pass,
        ..
    } = context;
    let mut states = state.map(|states| states.iter_mut());
    let (mut first, mut second) = (x.clone(), x);
    for (layer, block) in stack.all_resolved().enumerate() {
        pass.note_hidden(layer, &second);
        let mut state = states.as_mut().and_then(Iterator::next);
        let past = block.past(state.as_deref(), views.span);
        let view = views.get_or_compute(past, None);
        second = pass.in_block(format_args!("blocks.{layer}"), || {
            let mut y = second.clone();
            for half in block.halves() {
                let context = BlockContext {
                    span: view.span,
                    visible: &view.visible,
                    segment_visibility: Some(visible),
                    position,
                    prepared: &view.prepared,
                    memory: None,
                    sources: None,
                    first_values: None,
                    state: state.as_deref_mut(),
                    pass,
                };
                match half {
                    Half::Mixer => {
                        let result = block.half_output(half, y.clone(), context);
                        first = kernel::add(first.clone(), result);
                    }
                    Half::FeedForward => {
                        let result = block.half_output(half, first.clone(), context);
                        y = kernel::add(y.clone(), result);
                    }
                }
            }
            y
        });
    }
    pass.note_hidden(stack.blocks.len(), &second);
    [first, second]
}

/// Computes both output streams, concatenated, as one operation of the graph that keeps nothing else.
fn run_as_one_operation(stack: &Stack, x: Tensor<3>, context: StackContext) -> Tensor<3> {
    let (position, pass) = (context.position, context.pass);
    let mut views = Views::new(&context, &x);
    let view = views.get_or_compute(Past::Whole, None);
    let (surroundings, shared) = OwnedContext::from_context(&BlockContext {
        span: view.span,
        visible: &view.visible,
        segment_visibility: Some(context.visible),
        position,
        prepared: &view.prepared,
        memory: None,
        sources: None,
        first_values: None,
        state: None,
        pass,
    });
    let plain = (stack.clone().valid(), position.valid());
    let mut leaves = Leaves::default();
    let blocks: Vec<BlockInputs> = stack
        .all_resolved()
        .enumerate()
        .map(|(layer, block)| {
            let of_block = clone_modules(block, position);
            leaves.extend(Leaves::of_module(&of_block));
            BlockInputs {
                place: block.into(),
                modules: of_block.valid(),
                state: context.state.as_deref().map(|states| states[layer].clone()),
            }
        })
        .collect();
    let kept = pass.losses().len();
    // Streams that are recomputed from the last ones differ from the originals in their last digits, which may change a hash (of
    // LSH attention), so the orders are kept.
    let (streams, orders) = pass.noting_orders(|| {
        let context = StackContext {
            position: &plain.1,
            ..context
        };
        run_streams(&plain.0, kernel::untracked(x.clone()), context)
    });
    let losses = pass.take_losses(kept);
    let [first, second] = streams.map(kernel::untracked);
    let both = Tensor::cat(vec![first, second], 2);
    let dims = both.dims();
    let output = kernel::untracked(pack(both.clone(), None, &losses));
    let back = ReversibleBackward {
        blocks,
        surroundings,
        pass: pass.for_recomputation().with_orders(orders),
        losses: losses.len(),
        output: both,
    };
    let inputs = std::iter::once(x).chain(shared).collect();
    let output = custom_op(inputs, &leaves, output, |gradient, so_far| {
        back.run(gradient).plus_earlier(so_far)
    });
    unpack(output, dims, false, losses, pass).0
}
