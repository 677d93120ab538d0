//! Scratch memory for a task's chunk in the backward pass.

use super::HEADS;
use crate::kernel::flex::buffer::{Room, room};

/// Scratch memory for a chunk of a task.
pub struct Rooms {
    /// c·b, its gradient, and, per head, the weights and the products with output gradients, `[len, len]`.
    pub scores: Room,
    pub of_scores: Room,
    pub seen: Room,
    pub products: Room,
    /// For all heads: the written values and the output gradients, which are finally decayed to the chunk's end or
    /// from its beginning, and the gradient that comes back through the state after the chunk, `[len, wide]`.
    pub written: Room,
    pub arriving: Room,
    pub from_later: Room,
    /// Part of v from within the chunk, per head, `[len, d_head]`.
    pub of_x: Room,
    /// Fraction of the states that remains at the chunk's end, one number per head.
    pub ends: [f32; HEADS],
}

impl Rooms {
    pub fn new(len: usize, wide: usize, d_head: usize) -> Self {
        let square = || room(len * len);
        let all = || room(len * wide);
        Self {
            scores: square(),
            of_scores: square(),
            seen: square(),
            products: square(),
            written: all(),
            arriving: all(),
            from_later: all(),
            of_x: room(len * d_head),
            ends: [0.0; HEADS],
        }
    }
}
