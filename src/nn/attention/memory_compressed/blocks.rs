//! The compressed keys that each query sees.

use crate::kernel::{KeyPattern, Query};
use std::ops::Range;
use std::sync::Arc;

/// In a causal stack, the keys of blocks that end at or before a query; otherwise those of all blocks that contain more than
/// padding.
#[derive(Debug)]
pub(super) struct CompressedMask {
    pub factor: usize,
    /// Number of keys before those of blocks; all queries see them.
    pub null: usize,
    pub causal: bool,
    pub lengths: Option<Arc<[usize]>>,
    pub prefix: Option<Arc<[usize]>>,
}

impl CompressedMask {
    /// Returns how many of the first keys a query of a row sees.
    fn visible_keys(&self, row: usize, position: usize, keys: usize) -> usize {
        let of_row = |all: &Option<Arc<[usize]>>| all.as_ref().map(|all| all[row]);
        let blocks = match self.causal {
            // The source of a prefix language model sees all of itself.
            true => (position + 1).max(of_row(&self.prefix).unwrap_or(0)) / self.factor,
            false => of_row(&self.lengths).map_or(keys, |length| length.div_ceil(self.factor)),
        };
        blocks.saturating_add(self.null).min(keys)
    }
}

impl KeyPattern for CompressedMask {
    fn keys_of_query(&self, query: Query, keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        see(0..self.visible_keys(query.row, query.position, keys));
    }

    fn keys_of_queries(
        &self,
        [row, _]: [usize; 2],
        positions: Range<usize>,
        keys: usize,
        see: &mut dyn FnMut(Range<usize>),
    ) {
        see(0..self.visible_keys(row, positions.end.saturating_sub(1), keys));
    }

    fn by_row(&self) -> bool {
        self.prefix.is_some() || (!self.causal && self.lengths.is_some())
    }
}
