//! A short convolution from plain tensor operations: shifted copies, one per tap. It serves devices without kernels
//! and is the reference for the kernel.

use burn::tensor::activation::silu;
use burn::tensor::{Tensor, TensorData};

use super::{ShortConvolution, available_positions};
use crate::kernel::recurrent::Sequences;

/// Same as the public function.
pub fn short_convolution(convolution: ShortConvolution, sequences: &Sequences) -> Tensor<3> {
    let ([batch, seq, channels, taps], device) = (convolution.dims(), convolution.x.device());
    let earlier = taps - 1;
    let before = match convolution.before {
        Some(before) => before.reshape([batch, earlier, channels]),
        None => Tensor::zeros([batch, earlier, channels], (&device, convolution.x.dtype())),
    };
    let padded = Tensor::cat(vec![before, convolution.x], 1);
    let mut y: Option<Tensor<3>> = None;
    for tap in 0..taps {
        let weight = convolution.weight.clone().narrow(1, tap, 1);
        let weight = weight.reshape([1, 1, channels]);
        let back = earlier - tap;
        let mut x = padded.clone().narrow(1, tap, seq);
        if back > 0 && sequences.begins.is_some() {
            let rows =
                (0..batch).flat_map(|row| available_positions(sequences, [row, seq], earlier));
            let seen = rows.map(|reach| f32::from(u8::from(back <= reach)));
            let seen = TensorData::new(seen.collect::<Vec<f32>>(), [batch, seq, 1]);
            let seen: Tensor<3> = Tensor::from_data(seen, &device);
            x = x * seen.cast(convolution.weight.dtype());
        }
        let term = x * weight;
        y = Some(match y {
            Some(y) => y + term,
            None => term,
        });
    }
    let Some(mut y) = y else {
        unreachable!("a convolution has a tap")
    };
    if let Some(bias) = convolution.bias {
        y = y + bias.reshape([1, 1, channels]);
    }
    match convolution.silu {
        true => silu(y),
        false => y,
    }
}
