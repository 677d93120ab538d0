//! The backward pass of a reversible stack: from the last block to the first, each layer's input is recovered from its output,
//! and the layer is computed once more, with its own graph.

use super::super::recompute::{
    BlockIndex, BlockModules, OwnedContext, gradients_of_leaves, leaf, loss_in_format, with,
};
use super::super::state::BlockState;
use super::Half;
use crate::kernel;
use crate::kernel::custom_op::{CustomGradients, Leaves, backward_from};
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::Tensor;

/// A block in the backward pass.
pub(super) struct BlockInputs {
    pub place: BlockIndex,
    pub modules: BlockModules,
    pub state: Option<BlockState>,
}

/// The data that the backward pass needs.
pub(super) struct ReversibleBackward {
    pub blocks: Vec<BlockInputs>,
    pub surroundings: OwnedContext,
    pub pass: Pass,
    /// Number of losses that layers added.
    pub losses: usize,
    /// Both output streams, concatenated.
    pub output: Tensor<3>,
}

/// The two streams between two layers, with their gradients.
struct StreamGradients {
    streams: [Tensor<3>; 2],
    gradients: [Tensor<3>; 2],
}

impl ReversibleBackward {
    /// Computes the gradients of all inputs and parameters from the output's gradient.
    pub fn run(self, gradient: Tensor<3>) -> CustomGradients {
        let dims = self.output.dims();
        let width = dims[2] / 2;
        let size = dims.iter().product::<usize>();
        // The gradients of the added losses, in order of computation.
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
        let mut at = StreamGradients {
            streams: halves(&self.output),
            gradients: halves(&gradient),
        };
        let mut shared: Vec<Option<Tensor<3>>> = Vec::new();
        let mut parameters = Vec::new();
        for block in self.blocks.into_iter().rev() {
            let made = block.undo(&mut at, &self.surroundings, &self.pass, &mut of_losses);
            shared = add_gradients(shared, made.inputs);
            parameters.push(made.parameters);
        }
        let [first, second] = at.gradients;
        let mut inputs = vec![Some(first + second)];
        inputs.extend(shared);
        CustomGradients {
            inputs,
            parameters: parameters.into_iter().rev().flatten().collect(),
        }
    }
}

impl BlockInputs {
    /// Takes the streams and their gradients from the block's end back to its beginning. Returns the gradients of the tensors
    /// that all blocks read and of the block's parameters.
    fn undo(
        self,
        at: &mut StreamGradients,
        surroundings: &OwnedContext,
        pass: &Pass,
        of_losses: &mut Vec<Tensor<3>>,
    ) -> CustomGradients {
        let mut state = self.state;
        let mut inputs = Vec::new();
        let mut parameters: Vec<Option<_>> = Vec::new();
        let name = format!("blocks.{}", self.place.layer());
        let modules = self.modules;
        let halves = with(self.place, &modules).halves();
        for half in halves.rev() {
            let fresh = modules.clone().train();
            let (surroundings, shared) = surroundings.with_leaves();
            let (read, changed) = match half {
                Half::Mixer => (1, 0),
                Half::FeedForward => (0, 1),
            };
            let x = leaf(at.streams[read].clone());
            let again = pass.for_recomputation();
            let block = with(self.place, &fresh);
            let result = again.in_network(&name, || {
                surroundings.run_in_context(&fresh.2, state.as_mut(), &again, |context| {
                    block.half_output(half, x.clone(), context)
                })
            });
            let stream = at.streams[changed].clone() - kernel::untracked(result.clone());
            at.streams[changed] = stream;
            let mut pairs = vec![(result, at.gradients[changed].clone())];
            let losses = again.losses();
            let of_half = of_losses.split_off(of_losses.len() - losses.len());
            let format = at.gradients[changed].dtype();
            let means = losses.iter().map(|loss| loss_in_format(loss, format));
            pairs.extend(means.zip(of_half));
            let gradients = backward_from(pairs);
            if let Some(gradient) = x.grad(&gradients) {
                at.gradients[read] = at.gradients[read].clone() + gradient;
            }
            inputs = add_gradients(inputs, gradients_of_leaves(&shared, &gradients));
            let found = Leaves::of_module(&fresh).gradients(&gradients);
            parameters = match parameters.is_empty() {
                true => found,
                // Each parameter belongs to one of the halves; a position scheme's parameters belong to attention.
                false => parameters
                    .into_iter()
                    .zip(found)
                    .map(|(a, b)| a.or(b))
                    .collect(),
            };
        }
        CustomGradients { inputs, parameters }
    }
}

/// Adds gradients pairwise; some may be absent.
fn add_gradients(
    sums: Vec<Option<Tensor<3>>>,
    more: Vec<Option<Tensor<3>>>,
) -> Vec<Option<Tensor<3>>> {
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
