//! Scratch memory for a task's chunk in the backward pass.

use crate::kernel::flex::buffer::{ScratchBuffer, scratch_buffer};

/// Scratch memory for a chunk of a task.
pub struct ChunkScratch {
    /// The products k·k and q·k, and their gradients, `[len, len]`.
    pub of_keys: ScratchBuffer,
    pub of_queries: ScratchBuffer,
    pub to_keys: ScratchBuffer,
    pub to_queries: ScratchBuffer,
    /// Per head: the weights of positions for each other, and the products with output gradients, `[len, len]`.
    pub weighed: ScratchBuffer,
    pub products: ScratchBuffer,
    /// For all heads: u, y and the output gradients, which are finally decayed to the chunk's end or from its
    /// beginning, and the gradient that comes back through the state after the chunk, `[len, wide]`.
    pub corrections: ScratchBuffer,
    pub changes: ScratchBuffer,
    pub arriving: ScratchBuffer,
    pub from_later: ScratchBuffer,
    /// Per head: w, and the gradient of u, `[len, d_head]`.
    pub errors: ScratchBuffer,
    pub of_corrections: ScratchBuffer,
    /// Fraction of the states that remains at the chunk's end, one number per head.
    pub ends: Vec<f32>,
}

impl ChunkScratch {
    pub fn new(len: usize, wide: usize, d_head: usize) -> Self {
        let square = || scratch_buffer(len * len);
        let all = || scratch_buffer(len * wide);
        let one = || scratch_buffer(len * d_head);
        Self {
            of_keys: square(),
            of_queries: square(),
            to_keys: square(),
            to_queries: square(),
            weighed: square(),
            products: square(),
            corrections: all(),
            changes: all(),
            arriving: all(),
            from_later: all(),
            errors: one(),
            of_corrections: one(),
            ends: Vec::with_capacity(wide / d_head),
        }
    }
}
