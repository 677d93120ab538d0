//! Products with vectors by distance, spread to scores and gathered back. A block's queries, or its keys, are
//! multiplied with the rows of a table that the block reaches; a score takes the product with its diagonal's row. In
//! the other direction, the scores of a query, or of a key, whose diagonals read the same row are summed, in their
//! order.

use std::ops::Range;

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::kernel::cube::blocks::Block;
use crate::kernel::cube::launch::{SpacedRows, empty, units};

/// A block of attention and the rows of a table that it reaches.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Reach {
    /// Number of queries of a head in the block.
    queries: u32,
    /// Number of keys in the block.
    keys: u32,
    /// The diagonal of its first key and first query, among all of the pass. It decreases by one per query.
    diagonal: u32,
    /// Distance between rows of scores.
    distance: u32,
    /// First row that the block reaches.
    first_row: u32,
    /// Number of rows that the block reaches.
    rows: u32,
    /// Distance between the products of successive queries or keys.
    product_distance: u32,
    /// Offset of the rows' ranges of diagonals in the numbers.
    ranges_at: u32,
}

/// Adds to each score the product of its query, or of its key, with the row of its diagonal.
#[cube(launch)]
fn spread(
    scores: &mut Tensor<f32>,
    products: &Tensor<f32>,
    numbers: &[i32],
    reach: Reach,
    lines: u32,
    #[comptime] of_keys: bool,
) {
    let unit = ABSOLUTE_POS as u32;
    let line = unit / reach.keys;
    if line >= lines {
        terminate!();
    }
    let key = unit % reach.keys;
    let query = line % reach.queries;
    let row = numbers[(reach.diagonal + key - query) as usize] as u32 - reach.first_row;
    let mut from = line;
    if comptime!(of_keys) {
        from = line / reach.queries * reach.keys + key;
    }
    let at = (line * reach.distance + key) as usize;
    scores[at] += products[(from * reach.product_distance + row) as usize];
}

/// Sums, for each query or key and each row, the scores whose diagonals read the row.
#[cube(launch)]
fn gathered(
    scores: &Tensor<f32>,
    out: &mut [f32],
    numbers: &[i32],
    reach: Reach,
    #[comptime] of_keys: bool,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= out.len() as u32 {
        terminate!();
    }
    let line = unit / reach.rows;
    let range = reach.ranges_at + 2 * (reach.first_row + unit % reach.rows);
    let low = numbers[range as usize] as u32;
    let high = numbers[(range + 1) as usize] as u32;
    let mut sum = 0.0f32;
    if comptime!(of_keys) {
        let key = line % reach.keys;
        let first_line = line / reach.keys * reach.queries;
        // Query i is on diagonal top − i.
        let top = reach.diagonal + key;
        let start = max(top + 1, high) - high;
        let end = min(max(top + 1, low) - low, reach.queries);
        for query in start..end {
            sum += scores[((first_line + query) * reach.distance + key) as usize];
        }
    } else {
        // Key j is on diagonal base + j.
        let base = reach.diagonal - line % reach.queries;
        let start = max(low, base) - base;
        let end = min(max(high, base) - base, reach.keys);
        for key in start..end {
            sum += scores[(line * reach.distance + key) as usize];
        }
    }
    out[unit as usize] = sum;
}

/// The device data that maps diagonals to table rows, with the sizes of the pass.
pub struct Numbers {
    /// The row of each diagonal, then for each row its first diagonal and the one after its last.
    pub numbers: CubeTensor,
    /// Number of diagonals.
    pub diagonals: usize,
    /// Number of queries of a head in the pass.
    pub queries: usize,
}

/// The side of the scores that is multiplied with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Queries, or outputs.
    Queries,
    /// Keys.
    Keys,
}

impl Numbers {
    fn reach(
        &self,
        block: &Block,
        rows: &Range<usize>,
        distance: usize,
        products: usize,
    ) -> ReachLaunch {
        let diagonal = block.keys.start + self.queries - 1 - block.queries.start;
        ReachLaunch::new(
            block.queries.len() as u32,
            block.keys.len() as u32,
            diagonal as u32,
            distance as u32,
            rows.start as u32,
            rows.len() as u32,
            products as u32,
            self.diagonals as u32,
        )
    }

    /// Adds to a block's scores the products of its queries or keys with these rows of a table.
    pub fn spread(
        &self,
        block: &Block,
        rows: &Range<usize>,
        products: SpacedRows,
        scores: &SpacedRows,
        side: Side,
    ) {
        let (scores, distance) = scores;
        let keys = block.keys.len();
        let lines = scores.meta.shape().num_elements() / keys;
        let (cubes, dim) = units(scores, lines * keys);
        spread::launch(
            &scores.client,
            cubes,
            dim,
            scores.clone().into_tensor_arg(),
            products.0.into_tensor_arg(),
            self.numbers.clone().into_buffer_arg(),
            self.reach(block, rows, *distance, products.1),
            lines as u32,
            side == Side::Keys,
        );
    }

    /// Returns the sums of a block's scores by query or key and table row, `[B, H, queries or keys, rows]`.
    pub fn gathered(
        &self,
        block: &Block,
        rows: &Range<usize>,
        scores: &SpacedRows,
        [batch, heads]: [usize; 2],
        side: Side,
    ) -> CubeTensor {
        let (scores, distance) = scores;
        let each = match side {
            Side::Queries => block.queries.len(),
            Side::Keys => block.keys.len(),
        };
        let out = empty(scores, [batch, heads, each, rows.len()]);
        let (cubes, dim) = units(scores, batch * heads * each * rows.len());
        gathered::launch(
            &scores.client,
            cubes,
            dim,
            scores.clone().into_tensor_arg(),
            out.clone().into_buffer_arg(),
            self.numbers.clone().into_buffer_arg(),
            self.reach(block, rows, *distance, 0),
            side == Side::Keys,
        );
        out
    }
}
