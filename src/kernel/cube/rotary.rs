//! Rotary position embedding: each element is combined with its partner, read from the tensor's own strides.

use burn::backend::TensorMetadata;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{contiguous, empty, units};

#[cube(launch)]
fn rotated(
    x: &Tensor<f32>,
    cos: &[f32],
    sin: &[f32],
    out: &mut [f32],
    heads: u32,
    seq: u32,
    d_head: u32,
    pairs: u32,
    direction: f32,
    #[comptime] interleaved: bool,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= out.len() as u32 {
        terminate!();
    }
    let dimension = unit % d_head;
    let position = unit / d_head % seq;
    let head = unit / d_head / seq % heads;
    let row = unit / d_head / seq / heads;
    let start = row as usize * x.stride(0) + head as usize * x.stride(1);
    let start = start + position as usize * x.stride(2);
    let own = x[start + dimension as usize * x.stride(3)];
    let mut y = own;
    if dimension < 2 * pairs {
        let mut pair = dimension % pairs;
        let mut second = dimension >= pairs;
        let mut partner = (dimension + pairs) % (2 * pairs);
        if comptime!(interleaved) {
            pair = dimension / 2;
            second = dimension % 2 == 1;
            partner = dimension ^ 1;
        }
        let other = x[start + partner as usize * x.stride(3)];
        let at = (position * pairs + pair) as usize;
        let turn = sin[at] * direction;
        y = own * cos[at] + other * select(second, turn, -turn);
    }
    out[unit as usize] = y;
}

/// Rotates the first dimensions of every head by the angles, or by their negatives.
pub fn forward(
    x: CubeTensor,
    cos: CubeTensor,
    sin: CubeTensor,
    interleaved: bool,
    opposite: bool,
) -> CubeTensor {
    let (cos, sin) = (contiguous(cos), contiguous(sin));
    let [batch, heads, seq, d_head] = x.shape().dims();
    let pairs = cos.shape()[1];
    let out = empty(&x, [batch, heads, seq, d_head]);
    if pairs == 0 {
        return contiguous(x);
    }
    let (cubes, dim) = units(&x, batch * heads * seq * d_head);
    let client = x.client.clone();
    rotated::launch(
        &client,
        cubes,
        dim,
        x.into_tensor_arg(),
        cos.into_buffer_arg(),
        sin.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        heads as u32,
        seq as u32,
        d_head as u32,
        pairs as u32,
        if opposite { -1.0 } else { 1.0 },
        interleaved,
    );
    out
}
