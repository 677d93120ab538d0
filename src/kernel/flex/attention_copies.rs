//! Keys and values in the orders in which the products of attention read them: copied once for all tiles of queries, since
//! rows of one head lie as far apart as all heads are wide, and share a few sets of a core's first cache.

use super::attention::Problem;
use super::product::{Packed, PackedRows};
use super::threads;

/// Keys and values of a batch row and head in a forward pass.
pub struct Copies {
    /// Keys, with which queries are multiplied.
    pub keys: Packed,
    /// Values, with which weights are.
    pub values: PackedRows,
}

impl Copies {
    /// Those of every batch row and head of keys, when more than one tile of queries reads them.
    pub fn of_all(problem: &Problem, tiles: usize) -> Vec<Self> {
        let [batch, heads, n_k, _] = problem.k.dims;
        let pieces = if tiles > 1 { batch * heads } else { 0 };
        let copy = |piece: usize| {
            let [row, head] = [piece / heads, piece % heads];
            Self {
                keys: Packed::new(problem.k.rows(row, head, 0, n_k).transposed()),
                values: PackedRows::new(problem.v.rows(row, head, 0, n_k)),
            }
        };
        threads::map(0..pieces, copy)
    }
}
