//! Feed-forward layers that compute chunks of positions one after the other (Kitaev et al. 2020, Reformer, section 3). Each
//! position is independent, so the result is the same, and only one chunk of positions at a time has its inner vectors in memory.
//!
//! All chunks together are one operation of the autodiff graph, which keeps only the layer's input; each chunk is recomputed in
//! the backward pass. Dropout inside the layer is keyed by the chunk.

use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel;
use crate::kernel::custom_op::{CustomGradients, Leaves, add_gradients, backward_from, custom_op};
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::Tensor;

/// Reports faults of the setting `chunk`.
pub(super) fn faults(chunk: Option<usize>, at: &mut TableFaults) {
    at.count("chunk", chunk.unwrap_or(1), MAX_POSITIONS);
}

/// The computation of a position-wise layer.
type LayerFn<M> = fn(&M, Tensor<3>, &Pass) -> Tensor<3>;

/// Applies `work` to `x` `[batch, seq, d_model]`, `chunk` positions at a time; to all at once if `chunk` is `None` or not smaller
/// than their number.
pub(super) fn in_chunks<M: Module + 'static>(
    layer: &M,
    x: Tensor<3>,
    chunk: Option<usize>,
    pass: &Pass,
    work: LayerFn<M>,
) -> Tensor<3> {
    let Some(chunk) = chunk.filter(|chunk| *chunk < x.dims()[1]) else {
        return work(layer, x, pass);
    };
    let leaves = Leaves::of_module(layer);
    if !(x.is_autodiff() && (x.is_tracked() || !leaves.is_empty())) {
        return run_all(layer, &x, chunk, pass, work);
    }
    let (plain, input) = (layer.valid(), kernel::untracked(x.clone()));
    let y = kernel::untracked(run_all(&plain, &input, chunk, pass, work));
    let pass = pass.for_recomputation();
    custom_op(vec![x], &leaves, y, move |gradient, _| {
        let mut inputs = Vec::new();
        let mut parameters = vec![None; Leaves::of_module(&plain.clone().train()).len()];
        for number in 0..chunk_count(&input, chunk) {
            let fresh = plain.clone().train();
            let x = chunk_at(&input, number, chunk).autodiff().require_grad();
            let y = run_chunk(&fresh, x.clone(), number, &pass, work);
            let gradients = backward_from(vec![(y, chunk_at(&gradient, number, chunk))]);
            let of_input = x.grad(&gradients);
            inputs.push(of_input.unwrap_or_else(|| x.inner().zeros_like()));
            parameters = add_gradients(parameters, Leaves::of_module(&fresh).gradients(&gradients));
        }
        CustomGradients {
            inputs: vec![Some(Tensor::cat(inputs, 1))],
            parameters,
        }
    })
}

fn chunk_count(x: &Tensor<3>, chunk: usize) -> usize {
    x.dims()[1].div_ceil(chunk)
}

/// Returns the positions of chunk `number`.
fn chunk_at(x: &Tensor<3>, number: usize, chunk: usize) -> Tensor<3> {
    let from = number * chunk;
    let length = chunk.min(x.dims()[1] - from);
    x.clone().narrow(1, from, length)
}

fn run_chunk<M>(
    layer: &M,
    x: Tensor<3>,
    number: usize,
    pass: &Pass,
    work: LayerFn<M>,
) -> Tensor<3> {
    pass.in_part(&format!("chunk {number}"), || work(layer, x, pass))
}

fn run_all<M>(layer: &M, x: &Tensor<3>, chunk: usize, pass: &Pass, work: LayerFn<M>) -> Tensor<3> {
    let pieces = 0..chunk_count(x, chunk);
    let each =
        pieces.map(|number| run_chunk(layer, chunk_at(x, number, chunk), number, pass, work));
    Tensor::cat(each.collect(), 1)
}
