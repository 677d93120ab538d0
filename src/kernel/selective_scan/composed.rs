//! The selective scan from plain tensor operations, one position after the other, for devices without kernels and as
//! the reference for the kernels.

use burn::tensor::Tensor;
use burn::tensor::activation::silu;

use super::Scan;
use crate::kernel::composed::softplus;
use crate::kernel::composed::steps::{StepChange, Steps};
use crate::kernel::recurrent::Sequences;

/// Same as the public function, but always returns the state.
pub fn selective_scan(scan: Scan, sequences: &Sequences) -> (Tensor<3>, Tensor<2>) {
    let [batch, seq, channels, n] = scan.dims();
    let device = scan.u.device();
    let decay = scan.decay.unsqueeze_dim::<3>(0);
    let skip = scan.skip.unsqueeze_dim::<2>(0);
    let mut h = match scan.state {
        Some(state) => state.reshape([batch, n, channels]).swap_dims(1, 2),
        None => Tensor::zeros([batch, channels, n], (&device, scan.u.dtype())),
    };
    let mut outputs = Vec::with_capacity(seq);
    for at in 0..seq {
        let steps = Steps::at(sequences, [batch, seq], at);
        h = steps.reset_beginning(h);
        let of = |x: &Tensor<3>| x.clone().narrow(1, at, 1).squeeze_dim::<2>(1);
        let (u, delta) = (of(&scan.u), softplus(of(&scan.raw)));
        let directions = of(&scan.directions);
        let [b, c] = [0, n].map(|from| directions.clone().narrow(1, from, n).unsqueeze_dim(1));
        let written = (delta.clone() * u.clone()).unsqueeze_dim::<3>(2) * b;
        let next = (delta.unsqueeze_dim(2) * decay.clone()).exp() * h.clone() + written;
        let y: Tensor<2> = (next.clone() * c).sum_dim(2).squeeze_dim(2);
        let gate = of(&scan.gate);
        let y = (y + skip.clone() * u) * silu(gate);
        outputs.push(steps.zero_ended(y).unsqueeze_dim::<3>(1));
        h = steps.hold_ended(StepChange {
            before: h,
            after: next,
        });
    }
    let state = h.swap_dims(1, 2).reshape([batch, n * channels]);
    (Tensor::cat(outputs, 1), state)
}
