//! Adapters for Burn: sources as `Dataset`s.

use std::sync::Arc;

use burn::data::dataset::{Dataset, DatasetError};

use super::{Item, Source};

/// A source as Burn's `Dataset`.
#[derive(Clone)]
pub struct Items(pub Arc<dyn Source>);

impl Dataset<Item> for Items {
    fn get(&self, index: usize) -> std::result::Result<Item, DatasetError> {
        assert!(index < self.0.len(), "example {index} of {}", self.0.len());
        self.0
            .get(index as u64, index as u64)
            .map_err(DatasetError::new)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
