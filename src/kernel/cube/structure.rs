//! Which keys a query sees, evaluated in the kernel. The structure of [`crate::kernel::Visibility`] is a few numbers
//! per row and head instead of a tensor of pairs, or the ranges of each query for a pattern. [`super::numbers`]
//! encodes them.

use cubecl::prelude::*;

/// The visibility rules that apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    pub(super) causal: bool,
    pub(super) lengths: bool,
    pub(super) prefix: bool,
    pub(super) window: bool,
    pub(super) documents: bool,
    pub(super) pattern: bool,
}

impl Rules {
    /// Returns whether a query sees every key of its range, or every key at a fixed step.
    pub fn are_ranges(self) -> bool {
        !self.documents && !self.pattern
    }
}

/// Sizes of attention and of the present block, and the offset of each rule's numbers.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Sizes {
    /// Number of query heads.
    pub heads: u32,
    /// Number of queries of a head.
    pub queries: u32,
    /// Number of keys.
    pub keys: u32,
    /// Position of the first query.
    pub offset: u32,
    /// First query of the block.
    pub first_query: u32,
    /// Number of queries of a head in the block.
    pub block_queries: u32,
    /// First key of the block.
    pub first_key: u32,
    /// Key after the block's last.
    pub last_key: u32,
    /// Number of queries of the block in all rows and heads.
    pub lines: u32,
    prefix_at: u32,
    window_at: u32,
    documents_at: u32,
    pattern_at: u32,
}

/// A query and its range of keys in the block. It sees all keys of the range except those that documents, dilation or
/// a pattern hide.
#[derive(CubeType, Clone, Copy)]
pub struct Place {
    /// Index of the row in the batch.
    pub row: u32,
    /// Query head.
    pub head: u32,
    /// The query, counted from the first one of the pass.
    pub query: u32,
    position: u32,
    /// First key; it never decreases from a query to the next.
    pub start: u32,
    /// Key after the last one; it never decreases from a query to the next.
    pub end: u32,
    /// Distance between visible keys (dilation).
    pub step: u32,
    documents_at: u32,
    own: i32,
    first_range: u32,
    last_range: u32,
}

/// Returns the index of a query among all of the pass, ordered by row, head, query.
#[cube]
pub fn line_number(place: &Place, sizes: &Sizes) -> u32 {
    (place.row * sizes.heads + place.head) * sizes.queries + place.query
}

/// Returns the place of query `number` of a block.
#[cube]
pub fn place_of(number: u32, structure: &[i32], sizes: &Sizes, #[comptime] rules: Rules) -> Place {
    let query = sizes.first_query + number % sizes.block_queries;
    let head = number / sizes.block_queries % sizes.heads;
    let row = number / sizes.block_queries / sizes.heads;
    place_in(row, head, query, structure, sizes, rules)
}

/// Returns the place of a query of a head of a row.
#[cube]
pub fn place_in(
    row: u32,
    head: u32,
    query: u32,
    structure: &[i32],
    sizes: &Sizes,
    #[comptime] rules: Rules,
) -> Place {
    let position = sizes.offset + query;
    let mut start = sizes.first_key;
    let mut end = sizes.last_key;
    let mut step = 1u32;
    if comptime!(rules.causal) {
        let mut last = position + 1;
        if comptime!(rules.prefix) {
            last = max(last, structure[(sizes.prefix_at + row) as usize] as u32);
        }
        end = min(end, last);
    }
    if comptime!(rules.lengths) {
        end = min(end, structure[row as usize] as u32);
    }
    if comptime!(rules.window) {
        let at = sizes.window_at + 3 * head;
        let before = structure[at as usize] as u32;
        let after = structure[(at + 1) as usize] as u32;
        step = structure[(at + 2) as usize] as u32;
        start = max(start, position - min(before, position));
        end = min(end, position + after + 1);
    }
    let documents_at = sizes.documents_at + row * sizes.keys;
    let mut own = 0i32;
    if comptime!(rules.documents) {
        own = structure[(documents_at + position) as usize];
    }
    let mut first_range = 0u32;
    let mut last_range = 0u32;
    if comptime!(rules.pattern) {
        let by_row = structure[sizes.pattern_at as usize] as u32;
        let by_head = structure[(sizes.pattern_at + 1) as usize] as u32;
        let of_head = (row * by_row + head * by_head) * sizes.queries;
        let at = sizes.pattern_at + 2 + of_head + query;
        first_range = structure[at as usize] as u32;
        last_range = structure[(at + 1) as usize] as u32;
    }
    Place {
        row,
        head,
        query,
        position,
        start: min(start, end),
        end,
        step,
        documents_at,
        own,
        first_range,
        last_range,
    }
}

/// Returns whether the query sees a key.
#[cube]
pub fn sees(place: &Place, key: u32, structure: &[i32], #[comptime] rules: Rules) -> bool {
    let mut seen = key >= place.start && key < place.end;
    if comptime!(rules.window) {
        let low = min(key, place.position);
        let high = max(key, place.position);
        seen = seen && (high - low) % place.step == 0;
    }
    if comptime!(rules.documents) {
        if seen {
            seen = structure[(place.documents_at + key) as usize] == place.own;
        }
    }
    if comptime!(rules.pattern) {
        if seen {
            seen = false;
            let mut range = place.first_range;
            while range < place.last_range {
                let first = structure[range as usize] as u32;
                let last = structure[(range + 1) as usize] as u32;
                seen = seen || (key >= first && key < last);
                range += 2;
            }
        }
    }
    seen
}
