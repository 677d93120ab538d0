//! Recomputation of a single block that is a function of its parameters, its input, and data without gradients. Such a block
//! shares no tensor with other blocks, keeps no state and adds no loss: for example the blocks of a Swin Transformer.

use super::{backward_block, leaf};
use crate::kernel;
use crate::kernel::custom_op::{Leaves, custom_op};
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::Tensor;

/// The computation of a block `M` on its input, with additional data `C`.
pub type BlockFn<M, C> = fn(&M, Tensor<3>, &C, &Pass) -> Tensor<3>;

/// Runs the block: `[batch, seq, d]` → the same shape. If the pass says so, the block keeps only its input and is recomputed.
pub fn recompute_block<M, C>(
    block: &M,
    x: Tensor<3>,
    data: &C,
    pass: &Pass,
    work: BlockFn<M, C>,
) -> Tensor<3>
where
    M: Module + 'static,
    C: Clone + Send + 'static,
{
    if !(pass.recomputes() && x.is_autodiff()) {
        return work(block, x, data, pass);
    }
    let leaves = Leaves::of_module(block);
    if leaves.is_empty() && !x.is_tracked() {
        return work(block, x, data, pass);
    }
    let (plain, input) = (block.valid(), kernel::untracked(x.clone()));
    let y = kernel::untracked(work(&plain, input.clone(), data, pass));
    let (data, pass) = (data.clone(), pass.for_recomputation());
    custom_op(vec![x], &leaves, y, move |gradient, _| {
        let (block, x) = (plain.train(), leaf(input));
        let y = work(&block, x.clone(), &data, &pass);
        backward_block(&block, &x, &[], vec![(y, gradient)])
    })
}
