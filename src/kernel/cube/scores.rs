//! A score as the kernels of attention make it, and where the scores of a query lie: scale, soft cap and bias, and the keys
//! that a unit works on, by the blocks of random words that dropout reads.

use cubecl::prelude::*;

use super::activation::bounded_tanh;
use super::structure::{Place, Rules, Sizes, line_number};

/// What is added to scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Added {
    /// Nothing.
    Nothing,
    /// A number for each distance, `[H, distances]`.
    ByDistance,
    /// A number for each pair, `[1, H, Q, K]`.
    Shared,
    /// One for each pair and row, `[B, H, Q, K]`.
    Own,
}

/// What the kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// Which rules of visibility there are.
    pub rules: Rules,
    /// What is added.
    pub added: Added,
    /// Whether scores are bounded.
    pub capped: bool,
    /// Whether weights are dropped.
    pub drops: bool,
    /// Whether the key of the dropout is in a table.
    pub replayed: bool,
    /// Whether the gradient of what is added is written.
    pub wants_added: bool,
    /// Units of a cube.
    pub units: u32,
}

/// Numbers of the formula.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Factors {
    /// Of the raw score.
    pub scale: f32,
    /// Bound of the score.
    pub cap: f32,
    /// Distance between rows of scores.
    pub distance: u32,
    /// The same of their gradients.
    pub gradient_distance: u32,
}

/// A score before what is added to it, and its slope by the raw score.
#[derive(CubeType, Clone, Copy)]
pub struct Score {
    /// The score.
    pub value: f32,
    /// The slope.
    pub slope: f32,
}

/// The score of a raw one.
#[cube]
pub fn score_of(
    raw: f32,
    place: &Place,
    key: u32,
    bias: &[f32],
    sizes: &Sizes,
    factors: &Factors,
    #[comptime] form: Form,
) -> Score {
    let mut value = raw * factors.scale;
    let mut slope = factors.scale;
    if comptime!(form.capped) {
        let t = bounded_tanh(value / factors.cap);
        value = t * factors.cap;
        slope *= 1.0f32 - t * t;
    }
    match comptime!(form.added) {
        Added::Nothing => {}
        Added::ByDistance => {
            let distances = sizes.queries + sizes.keys - 1;
            let diagonal = key + sizes.queries - 1 - place.query;
            value += bias[(place.head * distances + diagonal) as usize];
        }
        Added::Shared => {
            let query = place.head * sizes.queries + place.query;
            value += bias[(query * sizes.keys + key) as usize];
        }
        Added::Own => {
            let query = line_number(place, sizes);
            value += bias[(query * sizes.keys + key) as usize];
        }
    }
    Score { value, slope }
}

/// A query's scores, where they lie.
#[derive(CubeType, Clone, Copy)]
pub struct Line {
    /// Its first element within its row of the batch, by which dropout counts.
    pub element: u32,
    /// First block of random words of the keys at hand.
    pub first: u32,
    /// Behind the last one.
    pub last: u32,
}

/// The blocks of 64 elements that hold keys from `start` to `end` of a query: a unit works on a sixteenth of one.
#[cube]
pub fn line_of(place: &Place, start: u32, end: u32, sizes: &Sizes) -> Line {
    let element = (place.head * sizes.queries + place.query) * sizes.keys;
    let first = (element + start) / 64;
    let mut last = first;
    if end > start {
        last = (element + end - 1) / 64 + 1;
    }
    Line {
        element,
        first: first * 16,
        last: last * 16,
    }
}

/// The key of element `number` of a block of words, or the one behind the last of the block of attention.
#[cube]
pub fn key_of(line: &Line, block: u32, #[comptime] number: u32, sizes: &Sizes) -> u32 {
    let element = block / 16 * 64 + block % 16 + 16 * number;
    let mut key = sizes.last_key;
    if element >= line.element + sizes.first_key {
        key = min(element - line.element, sizes.last_key);
    }
    key
}
