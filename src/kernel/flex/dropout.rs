//! Dropout: random words made in registers where they are used, never stored.

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::buffer::{PIECE, contiguous, in_pieces, output, slice, slice_mut, tensor};
use super::simd::run;
use crate::kernel::DropKey;
use crate::rng::Purpose;

/// Fills the dropout factors of a row's elements, compiled for the machine's registers.
pub struct Factors<'a> {
    /// Which dropout.
    pub key: &'a DropKey,
    /// Row of the tensor.
    pub row: usize,
    /// First element within the row.
    pub first: usize,
    /// Where the factors go.
    pub out: &'a mut [f32],
}

impl WithSimd for Factors<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.key.fill(self.row, self.first, self.out);
    }
}

/// Multiplies by the factors of single elements, or of whole rows (dimension 0).
pub fn forward(x: FlexTensor, key: DropKey, rows: bool) -> FlexTensor {
    let mut x = contiguous(x);
    let shape = x.layout().shape().clone();
    let per_row = slice(&x).len() / shape[0].max(1);
    let factors: Vec<f32> = (0..shape[0])
        .map(|row| key.factor(key.stream(Purpose::DropPath, row).block(0)[0]))
        .collect();
    let work = |first: usize, piece: &mut [f32]| {
        let mut at = first;
        let mut buffer = [0.0; 1024];
        let mut rest = piece;
        while !rest.is_empty() {
            let (row, element) = (at / per_row, at % per_row);
            let len = rest.len().min(per_row - element);
            let len = if rows { len } else { len.min(buffer.len()) };
            let (now, later) = rest.split_at_mut(len);
            if rows {
                now.iter_mut().for_each(|x| *x *= factors[row]);
            } else {
                run(Factors {
                    key: &key,
                    row,
                    first: element,
                    out: &mut buffer[..len],
                });
                now.iter_mut().zip(&buffer).for_each(|(x, f)| *x *= f);
            }
            at += len;
            rest = later;
        }
    };
    if let Some(elements) = slice_mut(&mut x) {
        in_pieces(elements, PIECE, work);
        return x;
    }
    let mut out = output(slice(&x).len());
    in_pieces(&mut out, PIECE, |first, piece| {
        piece.copy_from_slice(&slice(&x)[first..first + piece.len()]);
        work(first, piece);
    });
    tensor(out, shape)
}
