//! Embedding lookup, and gradients added back. Each piece of the table scans all positions in order, so a row's sum
//! has a fixed order and no two threads write the same row.

use burn_flex::FlexTensor;

use super::buffer::{PIECE_LEN, build_zeroed, contiguous, dims, slice, tensor};
use super::cross_entropy::integers;
use super::linear::Sum;
use super::simd::map_in_place;

/// Looks up rows of a table `[V, D]`: ids `[B, S]` to `[B, S, D]`.
pub fn forward(weight: FlexTensor, ids: FlexTensor) -> FlexTensor {
    let weight = contiguous(weight);
    let ([rows, width], [batch, seq]) = (dims(&weight), dims(&ids));
    let ids = integers(ids);
    let step = width.max(1);
    let per_piece = (PIECE_LEN / step).max(1);
    let out = build_zeroed(ids.len() * width, per_piece * step, |first, piece| {
        let ids = &ids[first / step..];
        for (row, &id) in piece.chunks_exact_mut(step).zip(ids) {
            let id = usize::try_from(id).ok().filter(|&id| id < rows);
            let id = id.expect("every id is a row of the table");
            row.copy_from_slice(&slice(&weight)[id * width..(id + 1) * width]);
        }
    });
    tensor(out, [batch, seq, width])
}

/// Returns the gradient of the table, `[rows, D]`.
pub fn backward(ids: FlexTensor, grad: FlexTensor, rows: usize) -> FlexTensor {
    let grad = contiguous(grad);
    let [_, _, width] = dims(&grad);
    let ids = integers(ids);
    let step = width.max(1);
    // Only a few pieces, since each scans all ids.
    let per_piece = (rows / 16).max(PIECE_LEN / step).max(1);
    let out = build_zeroed(rows * width, per_piece * step, |first, piece| {
        let (low, count) = (first / step, piece.len() / step);
        for (&id, row) in ids.iter().zip(slice(&grad).chunks_exact(step)) {
            let id = id as usize;
            if (low..low + count).contains(&id) {
                let at = (id - low) * width;
                map_in_place(Sum, &mut piece[at..at + width], [row]);
            }
        }
    });
    tensor(out, [rows, width])
}
