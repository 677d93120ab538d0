//! Rotary position embedding. The output is stored as `[B, S, H, D]`, the layout that the operations around attention
//! use, and returned as a `[B, H, S, D]` view.

use burn::backend::ops::FloatTensorOps;
use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};

use super::buffer::{PIECE_LEN, build_zeroed, contiguous, dims, slice, tensor};
use super::simd::run;

/// Rotates one head at one position.
struct Turn<'a> {
    x: &'a [f32],
    cos: &'a [f32],
    sin: &'a [f32],
    sign: f32,
    interleaved: bool,
    out: &'a mut [f32],
}

impl WithSimd for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let pairs = self.cos.len();
        let (x, rest) = self.x.split_at(2 * pairs);
        let (out, kept) = self.out.split_at_mut(2 * pairs);
        kept.copy_from_slice(rest);
        let angles = self.cos.iter().zip(self.sin);
        if self.interleaved {
            let pairs = x.chunks_exact(2).zip(out.chunks_exact_mut(2));
            for ((x, out), (cos, sin)) in pairs.zip(angles) {
                let sin = sin * self.sign;
                out[0] = x[0] * cos - x[1] * sin;
                out[1] = x[1] * cos + x[0] * sin;
            }
        } else {
            let (first, second) = x.split_at(pairs);
            let (out_first, out_second) = out.split_at_mut(pairs);
            let outs = out_first.iter_mut().zip(out_second);
            let inputs = first.iter().zip(second);
            for (((a, b), (y, z)), (cos, sin)) in inputs.zip(outs).zip(angles) {
                let sin = sin * self.sign;
                *y = a * cos - b * sin;
                *z = b * cos + a * sin;
            }
        }
    }
}

/// Rotates by the angles, or by their negatives.
pub fn forward(
    x: FlexTensor,
    cos: FlexTensor,
    sin: FlexTensor,
    interleaved: bool,
    opposite: bool,
) -> FlexTensor {
    let [batch, heads, seq, d_head] = dims(&x);
    let (cos, sin) = (contiguous(cos), contiguous(sin));
    let [_, pairs] = dims(&cos);
    let x = Flex::float_swap_dims(x, 1, 2);
    // Only the last dimension must be contiguous; the others may have any stride.
    let dense = x.layout().strides()[3] == 1 || d_head <= 1;
    let x = if dense { x } else { contiguous(x) };
    let strides: Vec<usize> = x.layout().strides().iter().map(|&s| s as usize).collect();
    let source = &slice(&x)[x.layout().start_offset()..];
    let width = d_head.max(1);
    let per_piece = (PIECE_LEN / width).max(1);
    let len = batch * heads * seq * d_head;
    let out = build_zeroed(len, per_piece * width, |first, piece| {
        for (i, out) in piece.chunks_exact_mut(width).enumerate() {
            let vector = first / width + i;
            let (head, position) = (vector % heads, vector / heads % seq);
            let row = vector / heads / seq;
            let at = row * strides[0] + position * strides[1] + head * strides[2];
            run(Turn {
                x: &source[at..at + d_head],
                cos: &slice(&cos)[position * pairs..(position + 1) * pairs],
                sin: &slice(&sin)[position * pairs..(position + 1) * pairs],
                sign: if opposite { -1.0 } else { 1.0 },
                interleaved,
                out,
            });
        }
    });
    Flex::float_swap_dims(tensor(out, [batch, seq, heads, d_head]), 1, 2)
}
