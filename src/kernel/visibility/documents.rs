//! Documents packed into one row that do not see each other.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::Query;
use crate::kernel::replay;

/// The document of each key, `[rows, keys]`; a query belongs to the document of the key at its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    pub(super) numbers: Arc<[i32]>,
    pub(super) keys: usize,
    /// Smallest and largest document number of each [`BLOCK`] of keys of a row.
    bounds: Arc<[[i32; 2]]>,
    /// The same numbers in the buffer that a replayed step reads.
    replayed: Option<Replayed>,
}

/// Numbers in a buffer that the host writes before each replay of a step. Two are equal if they are the same buffer.
#[derive(Clone, Debug)]
struct Replayed(Arc<Tensor<2, Int>>);

impl PartialEq for Replayed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Replayed {}

/// Number of keys that share a pair of bounds.
const BLOCK: usize = 64;

impl Documents {
    /// Creates the documents of rows of `keys` positions from arbitrary document numbers.
    pub fn new(numbers: &[i32], keys: usize) -> Self {
        assert!(
            keys > 0 && numbers.len().is_multiple_of(keys),
            "whole rows of documents"
        );
        let blocks = numbers.chunks(keys).flat_map(|row| row.chunks(BLOCK));
        Self {
            numbers: numbers.into(),
            keys,
            bounds: blocks.map(bounds).collect(),
            replayed: None,
        }
    }

    /// Like [`Self::new`], for the rows of a batch: in a replayed step, each replay reads the documents of its own
    /// batch.
    pub fn from_batch(numbers: &[i32], keys: usize, device: &Device) -> Self {
        let own = Self::new(numbers, keys);
        let data = TensorData::new(numbers.to_vec(), own.dims());
        let replayed = replay::fixed_integers(&data, &device.clone().without_autodiff());
        Self {
            replayed: replayed.map(|numbers| Replayed(Arc::new(numbers))),
            ..own
        }
    }

    /// Returns the numbers `[rows, keys]` that a replayed step reads; `None` in any other step.
    pub fn replayed(&self) -> Option<&Tensor<2, Int>> {
        self.replayed.as_ref().map(|numbers| &*numbers.0)
    }

    /// Returns the numbers of rows and keys.
    pub fn dims(&self) -> [usize; 2] {
        [self.numbers.len() / self.keys, self.keys]
    }

    /// Returns the documents of a row. A step that reads them here cannot be replayed: a recording would keep those
    /// of one batch.
    pub fn row(&self, row: usize) -> &[i32] {
        if self.replayed.is_some() {
            replay::refuse("one of its layers reads the documents of a batch on the host");
        }
        &self.numbers[row * self.keys..][..self.keys]
    }

    /// Returns the bounds of a row's blocks.
    fn blocks(&self, row: usize) -> &[[i32; 2]] {
        let blocks = self.keys.div_ceil(BLOCK);
        &self.bounds[row * blocks..][..blocks]
    }

    /// Masks keys of other documents than the query's.
    pub(super) fn mask_scores<T: Copy>(
        &self,
        query: Query,
        from: usize,
        scores: &mut [T],
        hidden: T,
    ) {
        if scores.is_empty() {
            return;
        }
        let numbers = self.row(query.row);
        let own = numbers[query.position];
        let mut blocks = from / BLOCK..=(from + scores.len() - 1) / BLOCK;
        if blocks.all(|block| self.blocks(query.row)[block] == [own; 2]) {
            return;
        }
        for (score, number) in scores.iter_mut().zip(&numbers[from..]) {
            *score = if *number == own { *score } else { hidden };
        }
    }

    /// Returns `keys` without whole blocks at its ends of which no query at `positions` sees a key.
    pub(super) fn narrow(
        &self,
        row: usize,
        positions: Range<usize>,
        keys: Range<usize>,
    ) -> Range<usize> {
        let [low, high] = bounds(&self.row(row)[positions]);
        let blocks = self.blocks(row);
        let foreign = |key: usize| {
            let [smallest, largest] = blocks[key / BLOCK];
            largest < low || smallest > high
        };
        let Range { mut start, mut end } = keys;
        while start < end && foreign(start) {
            start = (start / BLOCK + 1) * BLOCK;
        }
        while start < end && foreign(end - 1) {
            end = (end - 1) / BLOCK * BLOCK;
        }
        start.min(end)..end
    }
}

/// Returns the smallest and the largest of some numbers.
fn bounds(numbers: &[i32]) -> [i32; 2] {
    let each = numbers.iter();
    each.fold([i32::MAX, i32::MIN], |[low, high], &x| {
        [low.min(x), high.max(x)]
    })
}
