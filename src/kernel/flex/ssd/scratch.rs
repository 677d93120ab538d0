//! Scratch memory for a task's chunk in the backward pass.

use super::HEADS;
use crate::kernel::flex::buffer::{ScratchBuffer, scratch_buffer};

/// Scratch memory for a chunk of a task.
pub struct ChunkScratch {
    /// c·b, its gradient, and, per head, the weights and the products with output gradients, `[len, len]`.
    pub scores: ScratchBuffer,
    pub of_scores: ScratchBuffer,
    pub seen: ScratchBuffer,
    pub products: ScratchBuffer,
    /// For all heads: the written values and the output gradients, which are finally decayed to the chunk's end or
    /// from its beginning, and the gradient that comes back through the state after the chunk, `[len, wide]`.
    pub written: ScratchBuffer,
    pub arriving: ScratchBuffer,
    pub from_later: ScratchBuffer,
    /// Part of v from within the chunk, per head, `[len, d_head]`.
    pub of_x: ScratchBuffer,
    /// Fraction of the states that remains at the chunk's end, one number per head.
    pub ends: [f32; HEADS],
}

impl ChunkScratch {
    pub fn new(len: usize, wide: usize, d_head: usize) -> Self {
        let square = || scratch_buffer(len * len);
        let all = || scratch_buffer(len * wide);
        Self {
            scores: square(),
            of_scores: square(),
            seen: square(),
            products: square(),
            written: all(),
            arriving: all(),
            from_later: all(),
            of_x: scratch_buffer(len * d_head),
            ends: [0.0; HEADS],
        }
    }
}
