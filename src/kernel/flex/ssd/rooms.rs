//! Room for what a task makes of one chunk.

use super::HEADS;
use crate::kernel::flex::buffer::{Room, room};

/// Room for a chunk of a task.
pub struct Rooms {
    /// c·b, its gradient, weights of a head and their products, `[len, len]`.
    pub scores: Room,
    pub of_scores: Room,
    pub seen: Room,
    pub products: Room,
    /// Of all heads what they write and what arrives, decayed to the chunk's end and from its beginning, and what comes back through
    /// the state after it, `[len, wide]`.
    pub written: Room,
    pub arriving: Room,
    pub from_later: Room,
    /// `[len, d_head]`.
    pub of_x: Room,
    /// What is left of states at the chunk's end, one a head.
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
