//! A block's outputs besides its state, packed into one tensor because an operation of the graph has one output.

use crate::nn::pass::{AuxiliaryLoss, Pass};
use burn::tensor::{DType, Tensor};

/// Packs an output, the first values that were computed with it (of the same shape) and the added losses into one tensor, in this
/// order; returns the output unchanged if there are no first values and losses.
pub(in crate::stack) fn pack(
    x: Tensor<3>,
    first_values: Option<Tensor<3>>,
    losses: &[AuxiliaryLoss],
) -> Tensor<3> {
    if first_values.is_none() && losses.is_empty() {
        return x;
    }
    let flat = |x: Tensor<3>| {
        let size = x.dims().iter().product::<usize>();
        x.reshape([1, 1, size])
    };
    let format = x.dtype();
    let losses = losses.iter().map(|loss| loss_in_format(loss, format));
    let whole = std::iter::once(x).chain(first_values).map(flat);
    Tensor::cat(whole.chain(losses).collect(), 2)
}

/// The mean of a loss in the number format of a packed output, `[1, 1, 1]`.
pub(in crate::stack) fn loss_in_format(loss: &AuxiliaryLoss, format: DType) -> Tensor<3> {
    loss.mean.clone().cast(format).reshape([1, 1, 1])
}

/// Undoes [`packed`]: returns the output and the first values, if there are any, and adds the losses to the pass again.
pub(in crate::stack) fn unpack(
    x: Tensor<3>,
    dims: [usize; 3],
    has_first_values: bool,
    losses: Vec<AuxiliaryLoss>,
    pass: &Pass,
) -> (Tensor<3>, Option<Tensor<3>>) {
    if !has_first_values && losses.is_empty() {
        return (x, None);
    }
    let size = dims.iter().product::<usize>();
    let behind = if has_first_values { 2 * size } else { size };
    for (number, loss) in losses.into_iter().enumerate() {
        let mean = x.clone().narrow(2, behind + number, 1).reshape([1]);
        pass.add_loss(loss.name, mean, loss.coefficient);
    }
    let part = |from: usize| x.clone().narrow(2, from, size).reshape(dims);
    (part(0), has_first_values.then(|| part(size)))
}
