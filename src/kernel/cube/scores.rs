//! Attention scores inside the kernels: scale, soft cap and bias of a score, the location of a query's scores, and
//! the keys a unit works on, grouped by the blocks of random words that dropout reads.

use cubecl::prelude::*;

use super::activation::bounded_tanh;
use super::structure::{Place, Rules, Sizes, line_number};

/// The kind of bias added to scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Added {
    /// No bias.
    Nothing,
    /// One number per head and distance, `[H, distances]`.
    ByDistance,
    /// One number per query-key pair, shared by all batch rows, `[1, H, Q, K]`.
    Shared,
    /// One number per query-key pair and batch row, `[B, H, Q, K]`.
    Own,
}

/// Compile-time parameters of the attention kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The visibility rules that apply.
    pub rules: Rules,
    /// The kind of bias.
    pub added: Added,
    /// Whether scores are soft-capped.
    pub capped: bool,
    /// Whether weights are dropped.
    pub drops: bool,
    /// Whether the dropout key is read from a table.
    pub replayed: bool,
    /// Whether the bias gradient is written.
    pub wants_added: bool,
    /// Number of units of a cube.
    pub units: u32,
}

/// Numeric parameters of the score formula.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Factors {
    /// Factor of the raw score.
    pub scale: f32,
    /// Soft cap of the score.
    pub cap: f32,
    /// Distance between rows of scores.
    pub distance: u32,
    /// Distance between rows of score gradients.
    pub gradient_distance: u32,
}

/// A score before softmax, and its derivative with respect to the raw score.
#[derive(CubeType, Clone, Copy)]
pub struct Score {
    /// The score, including the bias.
    pub value: f32,
    /// The derivative.
    pub slope: f32,
}

/// Computes the score of a raw one.
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

/// The location of a query's scores.
#[derive(CubeType, Clone, Copy)]
pub struct Line {
    /// Index of its first element within its batch row, which dropout counts by.
    pub element: u32,
    /// First block of random words of the keys in range.
    pub first: u32,
    /// End (exclusive) of the blocks of random words.
    pub last: u32,
}

/// Returns the word blocks of the groups of 64 elements that hold the keys `start..end` of a query. A unit handles
/// one block, a sixteenth of a group.
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

/// Returns the key of element `number` of a word block, or the key after the attention block's last if it is outside.
#[cube]
pub fn key_of(line: &Line, block: u32, #[comptime] number: u32, sizes: &Sizes) -> u32 {
    let element = block / 16 * 64 + block % 16 + 16 * number;
    let mut key = sizes.last_key;
    if element >= line.element + sizes.first_key {
        key = min(element - line.element, sizes.last_key);
    }
    key
}
