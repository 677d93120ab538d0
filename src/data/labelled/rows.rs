//! Encoded texts with the rows that they were read from.

use super::examples::Labelled;
use super::tables::Row;
use crate::data::{Item, Origin, Source, Split};
use crate::error::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A source of the examples of a split, in the order of their rows.
pub(super) struct Rows {
    items: Labelled,
    origins: Vec<Origin>,
}

impl Rows {
    /// Attaches the origins of rows to encoded texts. The texts themselves are only kept for held-out splits.
    pub(super) fn of(items: Labelled, rows: &[(PathBuf, Row)]) -> Self {
        let keeps = items.split != Split::Train;
        let mut file: Arc<Path> = Path::new("").into();
        let origins = rows.iter().map(|(path, row)| {
            if *file != **path {
                file = path.as_path().into();
            }
            let texts = std::iter::once(&row.text).chain(&row.pair);
            let texts = texts.filter(|_| keeps).cloned().collect();
            Origin::of_row(&file, row.line, texts)
        });
        let origins = origins.collect();
        Self { items, origins }
    }
}

impl Source for Rows {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        self.items.get(sample, draw)
    }

    fn origin(&self, sample: u64) -> Option<&Origin> {
        self.origins.get(sample as usize)
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.items)
    }
}
