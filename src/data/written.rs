//! The captions or transcripts behind a held-out split: what a model writes for its images or recordings is compared with them.

use super::batch::{ImageItem, Item, SpeechItem};
use super::{Data, Request, Source, Split, View};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Images or recordings, and for each the captions or transcripts that it may be given.
pub struct Captions {
    source: Arc<dyn Source>,
    /// Numbers of the examples in their source.
    numbers: Vec<u64>,
    /// Of each example one text or more.
    pub references: Vec<Vec<String>>,
}

impl Captions {
    /// Those behind a split of this data, in the order of its examples; `None` where captions are read and not written, or where
    /// there is no such split.
    pub(super) fn behind(
        data: &Data,
        split: Split,
        request: &Request,
        captions: impl Iterator<Item = Vec<String>>,
    ) -> Option<Arc<Self>> {
        if *request.view != View::AsItIs {
            return None;
        }
        let source = Arc::clone(data.source(split).ok()?);
        let numbers = 0..source.len() as u64;
        Some(Arc::new(Self {
            source,
            numbers: numbers.collect(),
            references: captions.collect(),
        }))
    }

    /// Examples in all.
    pub fn len(&self) -> usize {
        self.numbers.len().min(self.references.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those of these numbers.
    #[must_use]
    pub fn chosen(&self, numbers: &[u64]) -> Self {
        let places = || numbers.iter().map(|number| *number as usize);
        Self {
            source: Arc::clone(&self.source),
            numbers: places().map(|place| self.numbers[place]).collect(),
            references: places().map(|n| self.references[n].clone()).collect(),
        }
    }

    /// An image by its place among these.
    ///
    /// # Errors
    /// An image that cannot be read.
    pub fn image(&self, place: usize) -> Result<ImageItem> {
        match self.source.get(self.numbers[place], 0)? {
            Item::Captioned(item) => Ok(item.image),
            Item::Text(_) | Item::Pair(_) | Item::Image(_) | Item::Spoken(_) => {
                Err(Error::run("an image has become something else"))
            }
        }
    }

    /// A recording by its place among these.
    ///
    /// # Errors
    /// A recording that cannot be read.
    pub fn speech(&self, place: usize) -> Result<SpeechItem> {
        match self.source.get(self.numbers[place], 0)? {
            Item::Spoken(item) => Ok(item.speech),
            Item::Text(_) | Item::Pair(_) | Item::Image(_) | Item::Captioned(_) => {
                Err(Error::run("a recording has become something else"))
            }
        }
    }
}
