//! Scratch memory for a task's chunk in the backward pass.

use crate::kernel::flex::buffer::{Room, room};

/// Scratch memory for a chunk of a task.
pub struct Rooms {
    /// The products k·k and q·k, and their gradients, `[len, len]`.
    pub of_keys: Room,
    pub of_queries: Room,
    pub to_keys: Room,
    pub to_queries: Room,
    /// Per head: the weights of positions for each other, and the products with output gradients, `[len, len]`.
    pub weighed: Room,
    pub products: Room,
    /// For all heads: u, y and the output gradients, which are finally decayed to the chunk's end or from its
    /// beginning, and the gradient that comes back through the state after the chunk, `[len, wide]`.
    pub corrections: Room,
    pub changes: Room,
    pub arriving: Room,
    pub from_later: Room,
    /// Per head: w, and the gradient of u, `[len, d_head]`.
    pub errors: Room,
    pub of_corrections: Room,
    /// Fraction of the states that remains at the chunk's end, one number per head.
    pub ends: Vec<f32>,
}

impl Rooms {
    pub fn new(len: usize, wide: usize, d_head: usize) -> Self {
        let square = || room(len * len);
        let all = || room(len * wide);
        let one = || room(len * d_head);
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
