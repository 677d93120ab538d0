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
    /// Puts those behind each held-out split into the data, `texts` for each example of one; none where texts are read and not
    /// written.
    pub(super) fn put(
        data: &mut Data,
        request: &Request,
        texts: impl Fn(Split) -> Vec<Vec<String>>,
    ) {
        if !matches!(request.view, View::AsItIs | View::Aligned) {
            return;
        }
        for split in [Split::Valid, Split::Test] {
            let Ok(source) = data.source(split) else {
                continue;
            };
            let captions = Self {
                source: Arc::clone(source),
                numbers: (0..source.len() as u64).collect(),
                references: texts(split),
            };
            *data.captions.get_mut(split) = Some(Arc::new(captions));
        }
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
