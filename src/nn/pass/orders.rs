//! Hashing in a pass: draws that all rows share, and the resulting orders of positions.

use super::Pass;
use crate::kernel::sorted_chunks::SortedChunks;
use crate::rng::{Purpose, Stream};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Orders of positions, keyed by the part of the network that sorted them.
pub type Orders = BTreeMap<u64, SortedChunks>;

/// The orders of positions of a pass.
#[derive(Debug, Default)]
pub(super) struct OrderCache {
    /// Orders that layers have sorted, while they are being noted.
    noted: RefCell<Option<Orders>>,
    /// Orders that layers use instead of sorting again.
    given: Option<Arc<Orders>>,
}

impl OrderCache {
    /// Returns the orders for a pass that repeats the same work.
    pub(super) fn for_recomputation(&self) -> Self {
        Self {
            noted: RefCell::default(),
            given: self.given.clone(),
        }
    }
}

impl Pass {
    /// Returns the random stream for draws that all rows share. If `redrawn`, it is in training a function of (seed, step, part
    /// of the network). Otherwise, and in an evaluation, it depends only on the part.
    pub fn shared_stream(&self, purpose: Purpose, redrawn: bool) -> Stream {
        let draws = self.draws.filter(|_| redrawn).unwrap_or_default();
        Stream::new(draws.seed, purpose, (draws.step, 0, self.part.get()))
    }

    /// Returns the order of the hashed positions of the current part: the given one, or the one that `make` sorts.
    ///
    /// A hash is discontinuous. Recomputing a layer from inputs that differ by rounding could sort differently, so the
    /// recomputation uses the order of the first time and each query meets the same keys.
    pub fn order(&self, make: impl FnOnce() -> SortedChunks) -> SortedChunks {
        let part = self.part.get();
        let given = self
            .hashed
            .given
            .as_ref()
            .and_then(|orders| orders.get(&part));
        if let Some(order) = given {
            return order.clone();
        }
        let order = make();
        if let Some(noted) = &mut *self.hashed.noted.borrow_mut() {
            noted.insert(part, order.clone());
        }
        order
    }

    /// Does `work` and returns its result together with the orders that its layers sorted.
    pub fn noting_orders<T>(&self, work: impl FnOnce() -> T) -> (T, Orders) {
        let outer = self.hashed.noted.replace(Some(Orders::new()));
        let done = work();
        (done, self.hashed.noted.replace(outer).unwrap_or_default())
    }

    /// Returns the same pass, whose layers use these orders.
    #[must_use]
    pub fn with_orders(mut self, orders: Orders) -> Self {
        self.hashed.given = Some(Arc::new(orders));
        self
    }
}
