//! The captions or transcripts of a held-out split, with which the model's output for its images or
//! recordings is compared.

use super::batch::{ImageItem, Item, SpeechItem};
use super::{Data, Request, Source, Split, View};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Images or recordings, each with its reference captions or transcripts.
pub struct Captions {
    source: Arc<dyn Source>,
    /// Numbers of the examples in their source.
    numbers: Vec<u64>,
    /// Reference texts of each example, at least one.
    pub references: Vec<Vec<String>>,
}

impl Captions {
    /// Adds the captions of each held-out split to the data; `texts` returns the references of each example
    /// of a split. Does nothing if texts are inputs of the model rather than its output.
    pub(super) fn attach(
        data: &mut Data,
        request: &Request,
        texts: impl Fn(Split) -> Vec<Vec<String>>,
    ) {
        if !matches!(request.view, View::Plain | View::Ctc) {
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

    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        self.numbers.len().min(self.references.len())
    }

    /// Whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the examples at these positions.
    #[must_use]
    pub fn select(&self, numbers: &[u64]) -> Self {
        let places = || numbers.iter().map(|number| *number as usize);
        Self {
            source: Arc::clone(&self.source),
            numbers: places().map(|place| self.numbers[place]).collect(),
            references: places().map(|n| self.references[n].clone()).collect(),
        }
    }

    /// Returns the image at position `place`.
    ///
    /// # Errors
    /// If the image cannot be read.
    pub fn image(&self, place: usize) -> Result<ImageItem> {
        match self.source.get(self.numbers[place], 0)? {
            Item::Captioned(item) => Ok(item.image),
            Item::Text(_) | Item::Pair(_) | Item::Image(_) | Item::Spoken(_) => {
                Err(Error::run("the source did not return an image"))
            }
        }
    }

    /// Returns the recording at position `place`.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn speech(&self, place: usize) -> Result<SpeechItem> {
        match self.source.get(self.numbers[place], 0)? {
            Item::Spoken(item) => Ok(item.speech),
            Item::Text(_) | Item::Pair(_) | Item::Image(_) | Item::Captioned(_) => {
                Err(Error::run("the source did not return a recording"))
            }
        }
    }
}
