//! The seams to Burn: sources as `Dataset`s, training and evaluation as `DataLoader`s.
//!
//! Batches stay on the host; the task makes tensors on its device, so moving a loader to a device
//! changes nothing.

use std::sync::Arc;

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::{Dataset, DatasetError};
use burn::tensor::Device;

use super::loader::{self, Batch, BatchSize};
use super::{Item, Source, Split};
use crate::error::Result;

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

/// Training steps `from_step..to_step` as one pass, micro-batch by micro-batch.
#[derive(Clone)]
pub struct TrainLoader {
    /// What to learn from.
    pub source: Arc<dyn Source>,
    /// The experiment's seed.
    pub seed: u64,
    /// How large a step is.
    pub size: BatchSize,
    /// Examples of a micro-batch.
    pub micro_batch_size: usize,
    /// Steps already done.
    pub from_step: u64,
    /// Steps done at the end.
    pub to_step: u64,
}

impl TrainLoader {
    /// Examples of a step, where steps are counted in tokens on average.
    fn items_of_a_step(&self) -> usize {
        let items = match self.size {
            BatchSize::Items(items) => items,
            BatchSize::Tokens(budget) => {
                let some = self.source.len().clamp(1, 1000);
                let tokens: usize = (0..some as u64).map(|i| self.source.size(i)).sum();
                budget * some / tokens.max(1)
            }
        };
        items.max(1)
    }
}

impl DataLoader<Batch> for TrainLoader {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch> + 'a> {
        let steps = loader::train_stream(
            Arc::clone(&self.source),
            self.seed,
            self.size,
            self.micro_batch_size,
            self.from_step,
        );
        let count = self.to_step.saturating_sub(self.from_step) as usize;
        let batches = steps.take(count).flat_map(|step| match step {
            Ok(batches) => batches.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        Box::new(Pass::new(batches, self.num_items()))
    }

    fn num_items(&self) -> usize {
        self.to_step.saturating_sub(self.from_step) as usize * self.items_of_a_step()
    }

    fn to_device(&self, _device: &Device) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(self.clone())
    }

    /// Whole steps: those that begin in the range.
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Batch>> {
        let step = |item: usize| self.from_step + item.div_ceil(self.items_of_a_step()) as u64;
        Arc::new(Self {
            from_step: step(start).min(self.to_step),
            to_step: step(end).min(self.to_step),
            ..self.clone()
        })
    }
}

/// A whole split in order, or a range of it.
#[derive(Clone)]
pub struct EvalLoader {
    /// What to evaluate on.
    pub source: Arc<dyn Source>,
    /// Examples of a batch.
    pub batch_size: usize,
}

impl DataLoader<Batch> for EvalLoader {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch> + 'a> {
        let batches = loader::eval_batches(Arc::clone(&self.source), self.batch_size);
        Box::new(Pass::new(batches, self.num_items()))
    }

    fn num_items(&self) -> usize {
        self.source.len()
    }

    fn to_device(&self, _device: &Device) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(self.clone())
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Batch>> {
        let source = Part {
            source: Arc::clone(&self.source),
            start: start as u64,
            len: end.min(self.source.len()).saturating_sub(start),
        };
        Arc::new(Self {
            source: Arc::new(source),
            ..self.clone()
        })
    }
}

/// Some consecutive examples of a source.
struct Part {
    source: Arc<dyn Source>,
    start: u64,
    len: usize,
}

impl Source for Part {
    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        self.source.get(self.start + sample, self.start + draw)
    }

    fn size(&self, sample: u64) -> usize {
        self.source.size(self.start + sample)
    }

    fn split(&self) -> Split {
        self.source.split()
    }
}

/// One pass, counting examples.
struct Pass<I> {
    batches: I,
    done: usize,
    total: usize,
}

impl<I> Pass<I> {
    fn new(batches: I, total: usize) -> Self {
        Self {
            batches,
            done: 0,
            total,
        }
    }
}

impl<I: Iterator<Item = Result<Batch>>> Iterator for Pass<I> {
    type Item = std::result::Result<Batch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        if let Ok(batch) = &batch {
            self.done += batch.rows;
        }
        Some(batch.map_err(DatasetError::new))
    }
}

impl<I: Iterator<Item = Result<Batch>>> DataLoaderIterator<Batch> for Pass<I> {
    fn progress(&self) -> Progress {
        Progress::new(self.done, self.total, Some("items".into()))
    }
}
