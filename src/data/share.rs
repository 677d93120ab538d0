//! The part of a step's batch that one process computes.
//!
//! A process reads its own examples alone. Two things are known of the whole step only: the widths that rows are filled up
//! to, and the counts that sums of losses are divided by. They are its [`Extent`]; processes join theirs before the first
//! micro-batch of a step, and a process alone is the whole step.

use super::Source;
use super::batch::{Batch, Item};
use super::collate::{Widths, collate};
use super::order::Taken;
use crate::error::{Error, Result};
use std::ops::Range;

/// Numbers of an [`Extent`].
const NUMBERS: usize = Widths::NUMBERS + 3;

/// What all rows of a step have in common, of some of them or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    widths: Widths,
    scored: usize,
    second: usize,
    tokens: usize,
}

/// The micro-batches of a step that one process computes.
pub struct Share {
    batches: Vec<Batch>,
    /// The examples of the batches, where their rows are filled up.
    items: Vec<Item>,
    samples: Vec<u64>,
    extent: Extent,
    epoch: Option<f64>,
}

impl Extent {
    /// The extent of both.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self {
            widths: self.widths.joined(other.widths),
            scored: self.scored + other.scored,
            second: self.second + other.second,
            tokens: self.tokens + other.tokens,
        }
    }

    /// The numbers as bytes, for other processes.
    pub fn to_bytes(self) -> Vec<u8> {
        let counts = [self.scored, self.second, self.tokens];
        let numbers = self.widths.numbers().into_iter().chain(counts);
        numbers.flat_map(|n| (n as u64).to_le_bytes()).collect()
    }

    /// The numbers that another process sent.
    ///
    /// # Errors
    /// Other bytes than those of [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (numbers, rest) = bytes.as_chunks();
        let numbers = numbers.iter().map(|n| u64::from_le_bytes(*n) as usize);
        let numbers: Vec<usize> = numbers.collect();
        match <[usize; NUMBERS]>::try_from(numbers) {
            Ok([source, target, first, last, scored, second, tokens]) if rest.is_empty() => {
                Ok(Self {
                    widths: Widths::from_numbers([source, target, first, last]),
                    scored,
                    second,
                    tokens,
                })
            }
            _ => Err(Error::run("a rank sent no counts of its rows")),
        }
    }
}

impl Share {
    /// Of the examples `taken` by a step those of the micro-batches `share`, which have `rows` examples each.
    ///
    /// # Errors
    /// Examples that cannot be read.
    pub(super) fn read(
        source: &dyn Source,
        taken: &[Taken],
        rows: usize,
        step: u64,
        share: Range<usize>,
    ) -> Result<Self> {
        let place = |part: usize| (part * rows).min(taken.len());
        let own = &taken[place(share.start)..place(share.end)];
        let items = own.iter().map(|t| source.get(t.sample, t.draw));
        let items = items.collect::<Result<Vec<Item>>>()?;
        let widths = Widths::of(&items);
        let parts = items.chunks(rows).zip(own.chunks(rows));
        let batches = parts.zip(share).map(|((items, taken), part)| {
            let content = collate(items, widths);
            Batch {
                samples: taken.iter().map(|t| t.sample).collect(),
                rows: items.len(),
                first_row: part * rows,
                scored: content.scored(),
                second: content.second(),
                tokens: content.tokens(),
                step_scored: 0,
                step_second: 0,
                step_tokens: 0,
                step_rows: 0,
                step,
                steps: 0,
                begins: taken.iter().map(|t| t.begins).collect(),
                split: source.split(),
                watch: None,
                recompute: false,
                unread: false,
                content,
            }
        });
        let batches: Vec<Batch> = batches.collect();
        let sum = |count: fn(&Batch) -> usize| batches.iter().map(count).sum();
        Ok(Self {
            extent: Extent {
                widths,
                scored: sum(|batch| batch.scored),
                second: sum(|batch| batch.second),
                tokens: sum(|batch| batch.tokens),
            },
            items: match items.first() {
                Some(Item::Image(_)) => Vec::new(),
                _ => items,
            },
            samples: taken.iter().map(|t| t.sample).collect(),
            epoch: None,
            batches,
        })
    }

    /// The examples of the whole step.
    pub fn samples(&self) -> &[u64] {
        &self.samples
    }

    /// The same share, with the passes over the source that are made once its step is taken.
    pub(super) fn until(self, epoch: f64) -> Self {
        Self {
            epoch: Some(epoch),
            ..self
        }
    }

    /// Passes over the source at the end of the step: 1.5 in the middle of the second one.
    pub fn epoch(&self) -> Option<f64> {
        self.epoch
    }

    /// The extent of these rows.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// The micro-batches of a step that is no more than this.
    pub fn alone(self) -> Vec<Batch> {
        let extent = self.extent;
        self.of(extent)
    }

    /// The micro-batches, as a part of a step with this extent.
    pub fn of(mut self, step: Extent) -> Vec<Batch> {
        let mut items = self.items.as_slice();
        for batch in &mut self.batches {
            if step.widths != self.extent.widths && !items.is_empty() {
                let (own, others) = items.split_at(batch.rows);
                batch.content = collate(own, step.widths);
                items = others;
            }
            batch.step_scored = step.scored;
            batch.step_second = step.second;
            batch.step_tokens = step.tokens;
            batch.step_rows = self.samples.len();
        }
        self.batches
    }
}
