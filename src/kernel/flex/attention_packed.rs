//! Keys and values packed in the orders in which the products of attention read them. They are copied once for all
//! tiles of queries: the rows of one head are as far apart as all heads are wide, so unpacked they would share a few
//! sets of a core's L1 cache.

use super::attention::Problem;
use super::product::{Packed, PackedRows};
use super::threads;

/// Packed keys and values of a batch row and head in a forward pass.
pub struct PackedHead {
    /// Keys, to be multiplied with queries.
    pub keys: Packed,
    /// Values, to be multiplied with weights.
    pub values: PackedRows,
}

impl PackedHead {
    /// Packs the keys and values of every batch row and key-value head, if more than one tile of queries reads them.
    pub fn pack_all(problem: &Problem, tiles: usize) -> Vec<Self> {
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
