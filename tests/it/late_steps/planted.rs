//! Examples that make a step bad, or that have nothing to score.

use formwork::data::batch::Item;
use formwork::data::{NOT_SCORED, Source, Split};
use formwork::error::Result;
use std::ops::Range;
use std::sync::Arc;

/// A source in which some examples are replaced.
pub(super) struct Planted {
    source: Arc<dyn Source>,
    /// Range of draws, counted from 0, in which examples are changed.
    at: Range<u64>,
    change: fn(&mut Item),
}

impl Planted {
    /// Images of which one has NaN pixels.
    pub(super) fn without_numbers(source: Arc<dyn Source>, at: u64) -> Arc<dyn Source> {
        let change = |item: &mut Item| {
            if let Item::Image(image) = item {
                image.pixels.fill(f32::NAN);
            }
        };
        let at = at..at + 1;
        Arc::new(Self { source, at, change })
    }

    /// Texts of which some have no targets.
    pub(super) fn without_targets(source: Arc<dyn Source>, at: Range<u64>) -> Arc<dyn Source> {
        let change = |item: &mut Item| {
            if let Item::Text(text) = item {
                text.targets.fill(NOT_SCORED);
            }
        };
        Arc::new(Self { source, at, change })
    }
}

impl Source for Planted {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let mut item = self.source.get(sample, draw)?;
        if self.at.contains(&draw) {
            (self.change)(&mut item);
        }
        Ok(item)
    }

    fn split(&self) -> Split {
        self.source.split()
    }

    fn is_endless(&self) -> bool {
        self.source.is_endless()
    }
}
