//! Feed-forward layers that compute some positions after the other (Kitaev et al. 2020, Reformer, section 3): each position
//! is computed by itself, so the result is the same, and no more than a chunk of positions has its inner vectors in memory.
//!
//! All chunks together are one operation of the graph, which keeps the layer's input; on the way back each chunk is computed
//! once more. Dropout inside the layer is keyed by the chunk.

use crate::faults::{LONGEST, TableFaults};
use crate::kernel;
use crate::kernel::by_hand::{Leaves, Made, added, backward_from, by_hand};
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::Tensor;

/// Faults of the key `chunk`.
pub(super) fn faults(chunk: Option<usize>, at: &mut TableFaults) {
    at.count("chunk", chunk.unwrap_or(1), LONGEST);
}

/// The work of a layer that makes a vector of each position.
type Work<M> = fn(&M, Tensor<3>, &Pass) -> Tensor<3>;

/// `work` on `x` `[batch, seq, d_model]`, `chunk` positions after the other; on all at once where that is `None` or there
/// are no more.
pub(super) fn in_chunks<M: Module + 'static>(
    layer: &M,
    x: Tensor<3>,
    chunk: Option<usize>,
    pass: &Pass,
    work: Work<M>,
) -> Tensor<3> {
    let Some(chunk) = chunk.filter(|chunk| *chunk < x.dims()[1]) else {
        return work(layer, x, pass);
    };
    let leaves = Leaves::of(layer);
    if !(x.is_autodiff() && (x.is_tracked() || !leaves.is_empty())) {
        return all(layer, &x, chunk, pass, work);
    }
    let (plain, input) = (layer.valid(), kernel::untracked(x.clone()));
    let y = kernel::untracked(all(&plain, &input, chunk, pass, work));
    let pass = pass.again();
    by_hand(vec![x], &leaves, y, move |gradient, _| {
        let mut inputs = Vec::new();
        let mut parameters = vec![None; Leaves::of(&plain.clone().train()).len()];
        for number in 0..chunks(&input, chunk) {
            let fresh = plain.clone().train();
            let x = piece(&input, number, chunk).autodiff().require_grad();
            let y = one(&fresh, x.clone(), number, &pass, work);
            let gradients = backward_from(vec![(y, piece(&gradient, number, chunk))]);
            let of_input = x.grad(&gradients);
            inputs.push(of_input.unwrap_or_else(|| x.inner().zeros_like()));
            parameters = added(parameters, Leaves::of(&fresh).gradients(&gradients));
        }
        Made {
            inputs: vec![Some(Tensor::cat(inputs, 1))],
            parameters,
        }
    })
}

fn chunks(x: &Tensor<3>, chunk: usize) -> usize {
    x.dims()[1].div_ceil(chunk)
}

/// The positions of a chunk.
fn piece(x: &Tensor<3>, number: usize, chunk: usize) -> Tensor<3> {
    let from = number * chunk;
    let length = chunk.min(x.dims()[1] - from);
    x.clone().narrow(1, from, length)
}

fn one<M>(layer: &M, x: Tensor<3>, number: usize, pass: &Pass, work: Work<M>) -> Tensor<3> {
    pass.part(&format!("chunk {number}"), || work(layer, x, pass))
}

fn all<M>(layer: &M, x: &Tensor<3>, chunk: usize, pass: &Pass, work: Work<M>) -> Tensor<3> {
    let pieces = 0..chunks(x, chunk);
    let each = pieces.map(|number| one(layer, piece(x, number, chunk), number, pass, work));
    Tensor::cat(each.collect(), 1)
}
