//! The part of a step's batch that one process computes.
//!
//! A process reads only its own examples. Two things depend on the whole step: the widths that rows are
//! padded to, and the counts that loss sums are divided by. They form the [`Extent`] of a share. Processes
//! join their extents before the first micro-batch of a step; a single process is the whole step.

use super::batch::{Batch, Item};
use super::collate::{Widths, collate};
use super::order::SampleRef;
use super::{Source, weighted_source};
use crate::error::{Error, Result};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Range;
use std::sync::OnceLock;
use std::thread::available_parallelism;

/// Numbers in the serialized form of an [`Extent`].
const NUMBERS: usize = Widths::LEN + 4;

/// Maximum number of threads that make examples.
const MOST_THREADS: usize = 16;

/// Padded widths and counts over the rows of a step, or over some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extent {
    widths: Widths,
    scored: usize,
    weight: f64,
    second: usize,
    tokens: usize,
}

/// The micro-batches of a step that one process computes.
pub struct Share {
    batches: Vec<Batch>,
    /// Examples of the batches, if their rows are padded.
    items: Vec<Item>,
    samples: Vec<u64>,
    extent: Extent,
    epoch: Option<f64>,
}

/// Makes the examples in order. An example depends only on its numbers, so threads may share the work.
fn examples(source: &dyn Source, taken: &[SampleRef]) -> Result<Vec<Item>> {
    let example = |taken: &SampleRef| source.get(taken.sample, taken.draw);
    let costly = source.is_costly() && taken.len() > 1;
    match costly.then(threads).flatten() {
        Some(threads) => {
            let made: Vec<_> = threads.install(|| taken.par_iter().map(example).collect());
            made.into_iter().collect()
        }
        None => taken.iter().map(example).collect(),
    }
}

/// The threads that make examples, separate from those that compute; `None` if the system cannot start any.
fn threads() -> Option<&'static ThreadPool> {
    static THREADS: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let made = THREADS.get_or_init(|| {
        let cores = available_parallelism().map_or(1, usize::from);
        let threads = ThreadPoolBuilder::new().num_threads(cores.min(MOST_THREADS));
        threads
            .thread_name(|i| format!("examples {i}"))
            .build()
            .ok()
    });
    made.as_ref()
}

impl Extent {
    /// Returns the extent of both sets of rows together.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        Self {
            widths: self.widths.elementwise_max(other.widths),
            scored: self.scored + other.scored,
            weight: self.weight + other.weight,
            second: self.second + other.second,
            tokens: self.tokens + other.tokens,
        }
    }

    /// Serializes the extent, for other processes.
    pub fn to_bytes(self) -> Vec<u8> {
        let counts = [self.scored, self.second, self.tokens];
        let numbers = self.widths.to_array().into_iter().chain(counts);
        let numbers = numbers.map(|n| n as u64).chain([self.weight.to_bits()]);
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    /// Reads an extent that another process sent.
    ///
    /// # Errors
    /// If the bytes are not those of [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (numbers, rest) = bytes.as_chunks();
        let numbers = numbers.iter().map(|n| u64::from_le_bytes(*n));
        let numbers: Vec<u64> = numbers.collect();
        match <[u64; NUMBERS]>::try_from(numbers) {
            Ok([widths @ .., scored, second, tokens, weight]) if rest.is_empty() => Ok(Self {
                widths: Widths::from_array(widths.map(|n| n as usize)),
                scored: scored as usize,
                weight: f64::from_bits(weight),
                second: second as usize,
                tokens: tokens as usize,
            }),
            _ => Err(Error::run("a rank did not send the counts of its rows")),
        }
    }
}

impl Share {
    /// Reads the examples of the micro-batches `share`, of `rows` examples each, out of the examples `taken`
    /// by a step.
    ///
    /// # Errors
    /// If an example cannot be read.
    pub(super) fn read(
        source: &dyn Source,
        taken: &[SampleRef],
        rows: usize,
        step: u64,
        share: Range<usize>,
    ) -> Result<Self> {
        let place = |part: usize| (part * rows).min(taken.len());
        let own = &taken[place(share.start)..place(share.end)];
        let items = examples(source, own)?;
        let widths = Widths::of(&items);
        let weights = source.class_weights();
        let parts = items.chunks(rows).zip(own.chunks(rows));
        let batches = parts.zip(share).map(|((items, taken), part)| {
            let content = collate(items, widths);
            Batch {
                samples: taken.iter().map(|t| t.sample).collect(),
                rows: items.len(),
                first_row: part * rows,
                scored: content.scored(),
                class_weights: weights.cloned(),
                weight: weights.map_or(0.0, |weights| {
                    weighted_source::total_weight(&content, weights)
                }),
                second: content.second(),
                tokens: content.tokens(),
                step_scored: 0,
                step_weight: 0.0,
                step_second: 0,
                step_tokens: 0,
                step_rows: 0,
                step,
                steps: 0,
                begins: taken.iter().map(|t| t.begins_text).collect(),
                split: source.split(),
                watch: None,
                recompute: false,
                keeps_sums_on_device: false,
                content,
            }
        });
        let batches: Vec<Batch> = batches.collect();
        let sum = |count: fn(&Batch) -> usize| batches.iter().map(count).sum();
        Ok(Self {
            extent: Extent {
                widths,
                scored: sum(|batch| batch.scored),
                weight: batches.iter().map(|batch| batch.weight).sum(),
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

    /// Sample numbers of the whole step.
    pub fn samples(&self) -> &[u64] {
        &self.samples
    }

    /// Returns the same share with the number of passes over the source after its step.
    pub(super) fn with_epoch(self, epoch: f64) -> Self {
        Self {
            epoch: Some(epoch),
            ..self
        }
    }

    /// Returns the passes over the source at the end of the step: 1.5 in the middle of the second one.
    pub fn epoch(&self) -> Option<f64> {
        self.epoch
    }

    /// Returns the extent of these rows.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Returns the micro-batches of a step that consists only of this share.
    pub fn as_whole_step(self) -> Vec<Batch> {
        let extent = self.extent;
        self.in_step(extent)
    }

    /// Returns the micro-batches as part of a step with this extent.
    pub fn in_step(mut self, step: Extent) -> Vec<Batch> {
        let mut items = self.items.as_slice();
        for batch in &mut self.batches {
            if step.widths != self.extent.widths && !items.is_empty() {
                let (own, others) = items.split_at(batch.rows);
                batch.content = collate(own, step.widths);
                items = others;
            }
            batch.step_scored = step.scored;
            batch.step_weight = step.weight;
            batch.step_second = step.second;
            batch.step_tokens = step.tokens;
            batch.step_rows = self.samples.len();
        }
        self.batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::batch::ImageItem;

    /// Images whose pixels are their sample and draw numbers; those from `broken` on cannot be read.
    struct Numbered {
        costly: bool,
        broken: u64,
    }

    impl Source for Numbered {
        fn len(&self) -> usize {
            1000
        }

        fn get(&self, sample: u64, draw: u64) -> Result<Item> {
            if sample >= self.broken {
                return Err(Error::run(format!("image {sample} is damaged")));
            }
            Ok(Item::Image(ImageItem {
                pixels: vec![sample as f32, draw as f32],
                shape: [1, 1, 2],
                label: 0,
                mixed: None,
                views: None,
            }))
        }

        fn is_costly(&self) -> bool {
            self.costly
        }
    }

    #[test]
    fn several_threads_make_what_one_makes() {
        let taken: Vec<SampleRef> = (0..100).map(|n| SampleRef::independent(7 * n, n)).collect();
        let made = |costly, broken| examples(&Numbered { costly, broken }, &taken);
        let (one, several) = (made(false, 1000).unwrap(), made(true, 1000).unwrap());
        assert!(one.len() == 100 && one == several);
        // If several images cannot be read, the error is about the first one.
        let fault = made(true, 350).unwrap_err().to_string();
        assert!(fault.contains("image 350 is damaged"), "{fault}");
    }
}
