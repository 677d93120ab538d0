//! A block of one stream by itself, computed anew: a function of its parameters, its input and data without gradients, which shares no
//! tensor with other blocks, keeps no state and adds no loss. The blocks of a Swin Transformer are such.

use super::{gradients_of, leaf};
use crate::kernel;
use crate::kernel::by_hand::{Leaves, by_hand};
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::Tensor;

/// The work of a block `M` on its input, with data `C` beside it.
pub type Work<M, C> = fn(&M, Tensor<3>, &C, &Pass) -> Tensor<3>;

/// `[batch, seq, d]` → the same shape: the work of a block, which keeps its input alone where the pass says so.
pub fn forward<M, C>(block: &M, x: Tensor<3>, data: &C, pass: &Pass, work: Work<M, C>) -> Tensor<3>
where
    M: Module + 'static,
    C: Clone + Send + 'static,
{
    if !(pass.recomputes() && x.is_autodiff()) {
        return work(block, x, data, pass);
    }
    let leaves = Leaves::of(block);
    if leaves.is_empty() && !x.is_tracked() {
        return work(block, x, data, pass);
    }
    let (plain, input) = (block.valid(), kernel::untracked(x.clone()));
    let y = kernel::untracked(work(&plain, input.clone(), data, pass));
    let (data, pass) = (data.clone(), pass.again());
    by_hand(vec![x], &leaves, y, move |gradient, _| {
        let (block, x) = (plain.train(), leaf(input));
        let y = work(&block, x.clone(), &data, &pass);
        gradients_of(&block, &x, &[], vec![(y, gradient)])
    })
}
