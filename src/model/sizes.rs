//! What a network is counted in: the blocks of its stacks, and the items of speed and cost.

use crate::stack::ShareConfig;

/// Blocks of the stacks of a network; one stack counts as both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackDepths {
    /// Of that which reads.
    pub reads: usize,
    /// Of that which writes.
    pub writes: usize,
    /// Blocks above the table of the tokens that are written: those of the deeper stack where both read from it.
    pub tokens: usize,
    /// The layers of each that have parameters in common.
    pub share: ShareConfig,
}

/// What speed and cost are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemOf {
    /// Tokens of a text.
    Token,
    /// Tokens of either side of a pair.
    Pair,
    /// Images.
    Image,
}
