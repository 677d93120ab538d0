//! Room for what a task makes of one chunk on the way back.

use crate::kernel::flex::buffer::{Room, room};

/// Room for a chunk of a task.
pub struct Rooms {
    /// k·k and q·k, and their gradients, `[len, len]`.
    pub of_keys: Room,
    pub of_queries: Room,
    pub to_keys: Room,
    pub to_queries: Room,
    /// Of one head: what positions weigh for each other, and products of what arrives, `[len, len]`.
    pub weighed: Room,
    pub products: Room,
    /// Of all heads u and y, and what arrives at results, in the end decayed to the chunk's end and from its beginning; and what
    /// comes back through the state after it, `[len, wide]`.
    pub corrections: Room,
    pub changes: Room,
    pub arriving: Room,
    pub from_later: Room,
    /// Of one head w, and what arrives at u, `[len, d_head]`.
    pub errors: Room,
    pub of_corrections: Room,
    /// What is left of states at the chunk's end, one a head.
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
