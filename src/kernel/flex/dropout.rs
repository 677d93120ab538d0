//! Dropout: random words are generated in registers where they are used and never stored.

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::buffer::{
    PIECE_LEN, ZEROED_PIECE_LEN, build_zeroed, contiguous, in_pieces, slice, slice_mut, tensor,
};
use super::simd::run;
use crate::kernel::DropKey;
use crate::rng::{Purpose, Stream};

/// Number of elements that share 16 blocks of random words; see [`DropKey`].
const GROUP: usize = 64;

/// Computes the factors of whole groups: Philox 4×32-10 with one block per lane, as in [`crate::rng::philox`].
#[inline(always)]
fn groups<S: Simd>(simd: S, key: &DropKey, stream: &Stream, first: u64, out: &mut [f32]) {
    let lanes = S::U32_LANES;
    let (key_words, [low, high]) = stream.key_and_counter();
    let word = |value: u32| simd.splat_u32s(value);
    let mut steps = [0u32; 64];
    (0..64).for_each(|i| steps[i] = i as u32);
    let steps = simd.partial_load_u32s(&steps[..lanes]);
    let (threshold, kept) = (key.threshold(), key.keep_scale());
    for (group, out) in out.chunks_exact_mut(GROUP).enumerate() {
        let mut block = 0;
        while block < 16 {
            let start = (first + group as u64) * 16 + block as u64;
            // The 16 blocks of one group never cross a multiple of 2³².
            let mut c = [
                simd.add_u32s(word(start as u32), steps),
                word((start >> 32) as u32),
                word(low),
                word(high),
            ];
            let mut k = key_words;
            for _ in 0..10 {
                let (low_0, high_0) = simd.widening_mul_u32s(word(0xD251_1F53), c[0]);
                let (low_1, high_1) = simd.widening_mul_u32s(word(0xCD9E_8D57), c[2]);
                c = [
                    simd.xor_u32s(simd.xor_u32s(high_1, c[1]), word(k[0])),
                    low_1,
                    simd.xor_u32s(simd.xor_u32s(high_0, c[3]), word(k[1])),
                    low_0,
                ];
                k = [
                    k[0].wrapping_add(0x9E37_79B9),
                    k[1].wrapping_add(0xBB67_AE85),
                ];
            }
            let width = lanes.min(16 - block);
            for (i, words) in c.into_iter().enumerate() {
                let dropped = simd.less_than_u32s(words, word(threshold));
                let zero = simd.splat_f32s(0.0);
                let factor = simd.select_f32s(dropped, zero, simd.splat_f32s(kept));
                let at = i * 16 + block;
                simd.partial_store_f32s(&mut out[at..at + width], factor);
            }
            block += width;
        }
    }
}

/// Fills in the dropout factors of a row's elements, compiled for the machine's vector registers.
pub struct Factors<'a> {
    /// Key of the dropout.
    pub key: &'a DropKey,
    /// Index of the row in the tensor.
    pub row: usize,
    /// Index of the first element within the row.
    pub first: usize,
    /// Output for the factors.
    pub out: &'a mut [f32],
}

impl WithSimd for Factors<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            key,
            row,
            first,
            out,
        } = self;
        let stream = key.stream(Purpose::Dropout, row);
        let (mut next, mut rest) = (first, out);
        let mut edge = [0.0; GROUP];
        while !rest.is_empty() {
            let (group, skip) = ((next / GROUP) as u64, next % GROUP);
            let whole = rest.len() / GROUP * GROUP;
            let len = if skip == 0 && whole > 0 {
                groups(simd, key, &stream, group, &mut rest[..whole]);
                whole
            } else {
                // The end of one group or the start of another.
                groups(simd, key, &stream, group, &mut edge);
                let len = rest.len().min(GROUP - skip);
                rest[..len].copy_from_slice(&edge[skip..skip + len]);
                len
            };
            next += len;
            rest = &mut rest[len..];
        }
    }
}

/// Multiplies by the dropout factors of single elements, or of whole rows (dimension 0).
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
        in_pieces(elements, PIECE_LEN, work);
        return x;
    }
    let out = build_zeroed(slice(&x).len(), ZEROED_PIECE_LEN, |first, piece| {
        piece.copy_from_slice(&slice(&x)[first..first + piece.len()]);
        work(first, piece);
    });
    tensor(out, shape)
}
