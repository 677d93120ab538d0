//! Reversible residual stacks: two streams that are made from each other by turns, so that each block's input follows from
//! its output and training keeps the last values alone (Gomez et al. 2017, RevNets, section 3; Kitaev et al. 2020,
//! Reformer, section 3).
//!
//! ```text
//! forward:   y₁ = x₁ + attention(LN(x₂))        y₂ = x₂ + feed_forward(LN(y₁))
//! back:      x₂ = y₂ − feed_forward(LN(y₁))     x₁ = y₁ − attention(LN(x₂))
//! ```
//!
//! The stack begins with x₁ = x₂ = the embeddings. The two streams that leave it are joined: side by side, as in Reformer, or
//! as their mean or sum. Where a gradient is wanted, all blocks together are one operation of the graph that keeps both
//! streams at the end: the memory of activations does not grow with depth. On the way back each layer is computed once more,
//! with its own draws; what rounding adds to the streams there is in the last digits.

use super::block::{BlockContext, Wired};
use super::recompute::{
    Modules, Place, Surroundings, leaf, modules, of_all, packed, unpacked, with,
};
use super::state::BlockState;
use super::view::{Past, Views};
use super::{Stack, StackContext};
use crate::kernel;
use crate::kernel::by_hand::{Leaves, Made, backward_from, by_hand};
use crate::nn::layer::LayerContext;
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// `[model] reversible`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReversibleConfig {
    /// How the two streams that leave the last block become one.
    pub join: Join,
}

/// How two streams become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    fn joined(self, [first, second]: [Tensor<3>; 2]) -> Tensor<3> {
        match self {
            Self::Mean => (first + second) * 0.5,
            Self::Sum => first + second,
            Self::Concatenation => Tensor::cat(vec![first, second], 2),
        }
    }
}

/// The layers of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// Added to the first stream.
    Mixing,
    /// Added to the second one.
    Feeding,
}

impl Wired<'_> {
    /// The halves of the block in the order of the computation.
    fn halves(&self) -> impl DoubleEndedIterator<Item = Half> + use<> {
        let feeds = self.feeding.feed_forward.is_some();
        [Some(Half::Mixing), feeds.then_some(Half::Feeding)]
            .into_iter()
            .flatten()
    }

    /// What a half adds to its stream, from the other stream `x`.
    fn added(&self, half: Half, x: Tensor<3>, mut context: BlockContext) -> Tensor<3> {
        let (drop_path, pass) = (self.drop_path, context.pass);
        let state = context.state.take();
        let mut cx = self.surroundings(&context);
        match half {
            Half::Mixing => {
                cx = LayerContext {
                    state: state.map(|state| &mut state.own),
                    ..cx
                };
                let residual = self.mixer_residual();
                residual.branch(x, self.mixed(), drop_path, pass, |x| {
                    self.mixer().forward(x, &mut cx)
                })
            }
            Half::Feeding => {
                let (Some(residual), Some(layer)) = (
                    &self.feeding.feed_forward_residual,
                    &self.feeding.feed_forward,
                ) else {
                    unreachable!("a half without a layer is none")
                };
                residual.branch(x, "feed_forward", drop_path, pass, |x| {
                    layer.layer().forward(x, &mut cx)
                })
            }
        }
    }
}

/// `[batch, seq, d_model]` → the joined streams that leave the last block.
pub(super) fn forward(stack: &Stack, join: Join, x: Tensor<3>, context: StackContext) -> Tensor<3> {
    let all = (stack.blocks.clone(), context.position.clone());
    let learns = x.is_autodiff() && (x.is_tracked() || !Leaves::of(&all).is_empty());
    if !learns {
        return join.joined(streams(stack, x, context));
    }
    let width = x.dims()[2];
    let both = one_operation(stack, x, context);
    if join == Join::Concatenation {
        return both;
    }
    join.joined([0, width].map(|from| both.clone().narrow(2, from, width)))
}

/// The two streams that leave the last block, by an ordinary pass.
fn streams(stack: &Stack, x: Tensor<3>, context: StackContext) -> [Tensor<3>; 2] {
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
    for (layer, block) in stack.all_wired().enumerate() {
        pass.note_hidden(layer, &second);
        let mut state = states.as_mut().and_then(Iterator::next);
        let past = block.past(state.as_deref(), views.span);
        let view = views.of(past);
        second = pass.block(format_args!("blocks.{layer}"), || {
            let mut y = second.clone();
            for half in block.halves() {
                let context = BlockContext {
                    span: view.span,
                    visible: &view.visible,
                    of_segment: visible,
                    position,
                    prepared: &view.prepared,
                    memory: None,
                    sources: None,
                    state: state.as_deref_mut(),
                    pass,
                };
                match half {
                    Half::Mixing => {
                        let result = block.added(half, y.clone(), context);
                        first = kernel::add(first.clone(), result);
                    }
                    Half::Feeding => {
                        let result = block.added(half, first.clone(), context);
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

/// Both streams side by side, as one operation of the graph that keeps nothing else.
fn one_operation(stack: &Stack, x: Tensor<3>, context: StackContext) -> Tensor<3> {
    let (position, pass) = (context.position, context.pass);
    let mut views = Views::new(&context, &x);
    let view = views.of(Past::Whole);
    let (surroundings, shared) = Surroundings::of(&BlockContext {
        span: view.span,
        visible: &view.visible,
        of_segment: context.visible,
        position,
        prepared: &view.prepared,
        memory: None,
        sources: None,
        state: None,
        pass,
    });
    let plain = (stack.clone().valid(), position.valid());
    let mut leaves = Leaves::default();
    let blocks: Vec<OneBlock> = stack
        .all_wired()
        .enumerate()
        .map(|(layer, block)| {
            let of_block = modules(block, position);
            leaves.extend(Leaves::of(&of_block));
            OneBlock {
                place: block.into(),
                modules: of_block.valid(),
                state: context.state.as_deref().map(|states| states[layer].clone()),
            }
        })
        .collect();
    let kept = pass.losses().len();
    // The streams that are made from the last ones differ from the first in their last digits, which may move a hash.
    let (streams, orders) = pass.noting_orders(|| {
        let context = StackContext {
            position: &plain.1,
            ..context
        };
        streams(&plain.0, kernel::untracked(x.clone()), context)
    });
    let losses = pass.take_losses(kept);
    let [first, second] = streams.map(kernel::untracked);
    let both = Tensor::cat(vec![first, second], 2);
    let dims = both.dims();
    let output = kernel::untracked(packed(both.clone(), &losses));
    let back = Back {
        blocks,
        surroundings,
        pass: pass.again().with_orders(orders),
        losses: losses.len(),
        both,
    };
    let inputs = std::iter::once(x).chain(shared).collect();
    let output = by_hand(inputs, &leaves, output, |gradient| back.run(gradient));
    unpacked(output, dims, losses, pass)
}

/// A block on the way back.
struct OneBlock {
    place: Place,
    modules: Modules,
    state: Option<BlockState>,
}

/// All that the way back needs.
struct Back {
    blocks: Vec<OneBlock>,
    surroundings: Surroundings,
    pass: Pass,
    /// Losses that layers added.
    losses: usize,
    /// Both streams at the end.
    both: Tensor<3>,
}

/// The two streams at a place between layers, and their gradients.
struct Between {
    streams: [Tensor<3>; 2],
    gradients: [Tensor<3>; 2],
}

impl Back {
    fn run(self, gradient: Tensor<3>) -> Made {
        let dims = self.both.dims();
        let width = dims[2] / 2;
        let size = dims.iter().product::<usize>();
        // The gradients of the added losses, the last one first.
        let mut of_losses: Vec<Tensor<3>> = match self.losses {
            0 => Vec::new(),
            count => (0..count)
                .map(|n| gradient.clone().narrow(2, size + n, 1))
                .collect(),
        };
        let gradient = match self.losses {
            0 => gradient,
            _ => gradient.narrow(2, 0, size).reshape(dims),
        };
        let halves = |x: &Tensor<3>| [0, width].map(|from| x.clone().narrow(2, from, width));
        let mut at = Between {
            streams: halves(&self.both),
            gradients: halves(&gradient),
        };
        let mut shared: Vec<Option<Tensor<3>>> = Vec::new();
        let mut parameters = Vec::new();
        for block in self.blocks.into_iter().rev() {
            let made = block.undone(&mut at, &self.surroundings, &self.pass, &mut of_losses);
            shared = added_up(shared, made.inputs);
            parameters.push(made.parameters);
        }
        let [first, second] = at.gradients;
        let mut inputs = vec![Some(first + second)];
        inputs.extend(shared);
        Made {
            inputs,
            parameters: parameters.into_iter().rev().flatten().collect(),
        }
    }
}

impl OneBlock {
    /// Takes the streams and their gradients from the block's end to its beginning; gives the gradients of what all blocks
    /// read and of the block's parameters.
    fn undone(
        self,
        at: &mut Between,
        surroundings: &Surroundings,
        pass: &Pass,
        of_losses: &mut Vec<Tensor<3>>,
    ) -> Made {
        let mut state = self.state;
        let mut inputs = Vec::new();
        let mut parameters: Vec<Option<_>> = Vec::new();
        let name = format!("blocks.{}", self.place.layer());
        let modules = self.modules;
        let halves = with(self.place, &modules).halves();
        for half in halves.rev() {
            let fresh = modules.clone().train();
            let (surroundings, shared) = surroundings.leaves();
            let (read, changed) = match half {
                Half::Mixing => (1, 0),
                Half::Feeding => (0, 1),
            };
            let x = leaf(at.streams[read].clone());
            let again = pass.again();
            let block = with(self.place, &fresh);
            let result = again.within(&name, || {
                surroundings.enter(&fresh.3, state.as_mut(), &again, |context| {
                    block.added(half, x.clone(), context)
                })
            });
            let stream = at.streams[changed].clone() - kernel::untracked(result.clone());
            at.streams[changed] = stream;
            let mut pairs = vec![(result, at.gradients[changed].clone())];
            let losses = again.losses();
            let of_half = of_losses.split_off(of_losses.len() - losses.len());
            let means = losses.into_iter().map(|loss| loss.mean.reshape([1, 1, 1]));
            pairs.extend(means.zip(of_half));
            let gradients = backward_from(pairs);
            if let Some(gradient) = x.grad(&gradients) {
                at.gradients[read] = at.gradients[read].clone() + gradient;
            }
            inputs = added_up(inputs, of_all(&shared, &gradients));
            let found = Leaves::of(&fresh).gradients(&gradients);
            parameters = match parameters.is_empty() {
                true => found,
                // A parameter belongs to one of the halves, what a scheme learns for a layer to attention.
                false => parameters
                    .into_iter()
                    .zip(found)
                    .map(|(a, b)| a.or(b))
                    .collect(),
            };
        }
        Made { inputs, parameters }
    }
}

/// Sums of gradients, of which some may be absent.
fn added_up(sums: Vec<Option<Tensor<3>>>, more: Vec<Option<Tensor<3>>>) -> Vec<Option<Tensor<3>>> {
    if sums.is_empty() {
        return more;
    }
    let both = sums.into_iter().zip(more);
    both.map(|pair| match pair {
        (Some(sum), Some(more)) => Some(sum + more),
        (sum, more) => sum.or(more),
    })
    .collect()
}
