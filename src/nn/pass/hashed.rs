//! Hashing in a pass: draws that all rows share, and the orders of positions that came of it.

use super::Pass;
use crate::kernel::sorted_chunks::SortedChunks;
use crate::rng::{Purpose, Stream};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Orders of positions, by the parts of the network that sorted them.
pub type Orders = BTreeMap<u64, SortedChunks>;

/// The orders of a pass.
#[derive(Debug, Default)]
pub(super) struct Hashed {
    /// Those that layers have sorted, while they are noted.
    noted: RefCell<Option<Orders>>,
    /// Those that layers take in place of sorting anew.
    given: Option<Arc<Orders>>,
}

impl Hashed {
    /// Those of a pass that does the same work once more.
    pub(super) fn again(&self) -> Self {
        Self {
            noted: RefCell::default(),
            given: self.given.clone(),
        }
    }
}

impl Pass {
    /// The draws of what all rows share. Those that are redrawn are in training a function of (seed, step, part of the
    /// network); all others, and those of an evaluation, of the part alone.
    pub fn shared_stream(&self, purpose: Purpose, redrawn: bool) -> Stream {
        let draws = self.draws.filter(|_| redrawn).unwrap_or_default();
        Stream::new(draws.seed, purpose, (draws.step, 0, self.part.get()))
    }

    /// The order of the hashed positions of the present part: as it was given, or as `make` sorts them.
    ///
    /// A hash has jumps. What computes a layer a second time from inputs that rounding has moved takes the order of the first
    /// time, so that each query meets the same keys.
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

    /// Does `work`, and gives the orders that its layers sorted beside what it gives.
    pub fn noting_orders<T>(&self, work: impl FnOnce() -> T) -> (T, Orders) {
        let outer = self.hashed.noted.replace(Some(Orders::new()));
        let done = work();
        (done, self.hashed.noted.replace(outer).unwrap_or_default())
    }

    /// The same pass, whose layers take these orders.
    #[must_use]
    pub fn with_orders(mut self, orders: Orders) -> Self {
        self.hashed.given = Some(Arc::new(orders));
        self
    }
}
