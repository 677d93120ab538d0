//! A forward pass beside its inputs: whether it trains, where its random draws come from, and what is read of it.
//!
//! A dropout is keyed by the part of the network that it stands in and by its name there (`blocks.3`, `attention`), as
//! initial weights are drawn by part. Its mask is a function of (seed, step, row of the batch, part, name): the same for
//! every split into micro-batches, after a resume and on every device, and the same in two networks that differ in other
//! parts.

mod dropout;
mod hashed;
mod shares;
pub mod tables;

use super::branches::Branches;
use super::probe::{Probe, Readings, Sample, Wanted};
use super::record::{Keep, Record, Recorded};
use crate::kernel::replay;
use crate::rng::{Purpose, Stream, part};
use burn::module::ParamId;
use burn::tensor::Tensor;
use hashed::Hashed;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::ops::Range;

/// One forward pass through a model.
#[derive(Debug)]
pub struct Pass {
    draws: Option<Draws>,
    /// Coordinates of an evaluation's samples.
    samples: Option<Draws>,
    /// The part of the network at work, as [`part`] folds its path.
    part: Cell<u64>,
    /// Rows that the work at hand makes of each row of the batch.
    of_row: Cell<u64>,
    probe: Option<Probe>,
    record: Option<Record>,
    losses: RefCell<Vec<AddedLoss>>,
    layers: RefCell<Layers>,
    recomputes: bool,
    hashed: Hashed,
    tables: tables::Tables,
}

/// The streams that a task reads beside the last hidden states.
#[derive(Debug, Default)]
struct Layers {
    wanted: Range<usize>,
    found: Vec<Tensor<3>>,
}

/// A loss that a layer adds to the task's: the balance of experts, say.
#[derive(Clone, Debug)]
pub struct AddedLoss {
    /// Its name in journals; layers that add the same one share it.
    pub name: &'static str,
    /// Its mean over what it is measured on, tokens or heads.
    pub mean: Tensor<1>,
    /// The training loss grows by this times the mean; 0 where it is measured only.
    pub coefficient: f64,
}

/// The coordinates of the random draws of a training pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Draws {
    /// The run's seed.
    pub seed: u64,
    /// Optimizer step, from 0.
    pub step: u64,
    /// Row of the step's batch that this micro-batch begins with.
    pub first_row: u64,
}

impl Pass {
    /// A pass without randomness: dropout does nothing.
    pub fn evaluation() -> Self {
        Self {
            draws: None,
            samples: None,
            part: Cell::new(0),
            of_row: Cell::new(1),
            probe: None,
            record: None,
            losses: RefCell::default(),
            layers: RefCell::default(),
            hashed: Hashed::default(),
            tables: tables::Tables::default(),
            recomputes: false,
        }
    }

    /// A training pass whose dropout draws from these coordinates.
    pub fn training(draws: Draws) -> Self {
        Self {
            draws: Some(draws),
            ..Self::evaluation()
        }
    }

    /// Whether it is a training pass.
    pub fn trains(&self) -> bool {
        self.draws.is_some()
    }

    /// The same pass, in which blocks keep their input alone and compute all else anew on the way back.
    #[must_use]
    pub fn recomputing(mut self) -> Self {
        self.recomputes = true;
        self
    }

    /// Whether blocks compute their activations anew on the way back.
    pub fn recomputes(&self) -> bool {
        self.recomputes
    }

    /// A pass that does the present part's work once more: with the same draws, and without what is read on the way.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            draws: self.draws,
            samples: self.samples,
            part: self.part.clone(),
            of_row: self.of_row.clone(),
            hashed: self.hashed.again(),
            tables: self.tables.clone(),
            ..Self::evaluation()
        }
    }

    /// The optimizer step that it is part of, from 0; `None` in an evaluation.
    pub fn step(&self) -> Option<u64> {
        replay::draws();
        self.draws.map(|draws| draws.step)
    }

    /// The same pass, of which this is read; attention in one row of the batch.
    pub fn watched(mut self, wanted: Wanted, sample: Sample) -> Self {
        self.probe = Some(Probe::new(wanted, sample));
        self
    }

    /// The probe that reads the pass, when the step is measured.
    pub fn probe(&self) -> Option<&Probe> {
        self.probe.as_ref()
    }

    /// The same pass, of which scaled residual connections are measured and added to these.
    #[must_use]
    pub fn measuring(mut self, branches: Branches) -> Self {
        self.probe = Some(Probe::of_branches(branches));
        self
    }

    /// Notes the stream and the result of a residual connection with this scale, where they are measured.
    pub fn note_branch(&self, skip: ParamId, stream: &Tensor<3>, result: &Tensor<3>) {
        if let Some(probe) = &self.probe {
            probe.note_branch(skip, stream, result);
        }
    }

    /// Takes the residual connections that were measured.
    pub fn take_branches(&self) -> Branches {
        let probe = self.probe.as_ref();
        probe.map(Probe::take_branches).unwrap_or_default()
    }

    /// The same pass, whose last hidden states are recorded, and what else is kept.
    #[must_use]
    pub fn recorded(mut self, keep: Keep) -> Self {
        self.record = Some(Record::new(keep));
        self
    }

    /// Its record, when it is recorded.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// Takes what was recorded of it.
    pub fn take_recorded(&self) -> Recorded {
        self.record.as_ref().map(Record::take).unwrap_or_default()
    }

    /// Records the stream of the network at work: number 0 is what its first block reads, n what block n − 1 gives.
    pub fn note_hidden<const D: usize>(&self, number: usize, x: &Tensor<D>) {
        if let Some(record) = &self.record {
            record.note_hidden(number, x);
        }
    }

    /// Records the last hidden states of the network at work.
    pub fn note_last<const D: usize>(&self, x: &Tensor<D>) {
        if let Some(record) = &self.record {
            record.note_last(x);
        }
    }

    /// The readings of it.
    pub fn readings(&self) -> Option<Readings> {
        self.probe.as_ref().map(Probe::readings)
    }

    /// Adds `coefficient·mean` to the training loss and has the mean shown under this name.
    ///
    /// In training the task multiplies it by the share of the step's tokens (or images) that are this micro-batch's, so
    /// that the sum over micro-batches is a weighted mean of their means: that of the whole batch where the mean is one
    /// over tokens.
    pub fn add_loss(&self, name: &'static str, mean: Tensor<1>, coefficient: f64) {
        self.losses.borrow_mut().push(AddedLoss {
            name,
            mean,
            coefficient,
        });
    }

    /// The losses that layers have added so far, in the order of the computation.
    pub fn losses(&self) -> Vec<AddedLoss> {
        self.losses.borrow().clone()
    }

    /// Takes back the losses that layers have added after the first `kept`.
    pub fn take_losses(&self, kept: usize) -> Vec<AddedLoss> {
        self.losses.borrow_mut().split_off(kept)
    }

    /// Does the work of a network and gives, beside what it gives, the streams that leave the `wanted` layers, counted
    /// from 1, in their order and with their gradients.
    pub fn with_layers<T>(
        &self,
        wanted: Range<usize>,
        work: impl FnOnce() -> T,
    ) -> (T, Vec<Tensor<3>>) {
        self.layers.borrow_mut().wanted = wanted;
        let done = work();
        (done, self.layers.take().found)
    }

    /// Keeps the stream that leaves layer `number`, counted from 1, where a task reads it.
    pub fn note_layer(&self, number: usize, x: &Tensor<3>) {
        let mut layers = self.layers.borrow_mut();
        if layers.wanted.contains(&number) {
            layers.found.push(x.clone());
        }
    }

    /// Does the work of a network inside the whole, `encoder` say: dropout draws, readings and records belong to it.
    pub fn within<T>(&self, name: impl Display, work: impl FnOnce() -> T) -> T {
        let name = name.to_string();
        match &self.record {
            Some(record) => record.within(&name, || self.at(&name, work)),
            None => self.at(&name, work),
        }
    }

    fn at<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let outer = self.part.replace(part(self.part.get(), name));
        let done = match &self.probe {
            Some(probe) => probe.within(name, work),
            None => work(),
        };
        self.part.set(outer);
        done
    }

    /// Does the work of one layer of a block, `attention` say: dropout draws belong to it, readings to its block.
    pub fn part<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let outer = self.part.replace(part(self.part.get(), name));
        let done = work();
        self.part.set(outer);
        done
    }

    /// Does work over `rows` rows that are made of each row of the batch, one after the other: they draw apart, and
    /// alike for every size of micro-batch.
    pub fn in_rows<T>(&self, rows: usize, work: impl FnOnce() -> T) -> T {
        let outer = self.of_row.replace(self.of_row.get() * rows as u64);
        let done = work();
        self.of_row.set(outer);
        done
    }

    /// Does the work of a block, `blocks.3`, and has the stream that leaves it read.
    pub fn block<const D: usize>(
        &self,
        name: impl Display,
        work: impl FnOnce() -> Tensor<D>,
    ) -> Tensor<D> {
        self.at(&name.to_string(), || {
            let x = work();
            if let Some(probe) = &self.probe {
                probe.read_stream(&x);
            }
            x
        })
    }

    /// The same evaluation, whose samples ([`Self::stream`]) draw from these coordinates.
    #[must_use]
    pub fn sampling(mut self, draws: Draws) -> Self {
        self.samples = Some(draws);
        self
    }

    /// The draws of a sample that is taken inside the pass, for a row of the batch: a function of (seed, step, row of the
    /// step's batch, part of the network), whatever the micro-batches. Dropout rests in an evaluation; samples are drawn
    /// there too.
    pub fn stream(&self, purpose: Purpose, row: usize) -> Stream {
        replay::draws();
        let draws = self.draws.or(self.samples).unwrap_or_default();
        let row = draws.first_row * self.of_row.get() + row as u64;
        Stream::new(draws.seed, purpose, (draws.step, row, self.part.get()))
    }

    /// The draws of all rows of a training step together: a function of (seed, step, part of the network); `None` in an evaluation.
    pub fn stream_of_step(&self, purpose: Purpose) -> Option<Stream> {
        replay::draws();
        let Draws { seed, step, .. } = self.draws?;
        Some(Stream::new(seed, purpose, (step, 0, self.part.get())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network with more dropouts in other parts draws the same mask in this one, so that arms of one seed stay pairs.
    #[test]
    fn a_dropout_is_keyed_by_its_part() {
        let pass = || {
            Pass::training(Draws {
                seed: 3,
                step: 5,
                first_row: 0,
            })
        };
        let residual = |pass: &Pass| pass.within("blocks.1", || pass.key("attention", 0.1));
        let plain = residual(&pass()).map(|key| key.site);
        let other = pass();
        assert!(other.key("embedding", 0.2).is_some());
        other.within("blocks.0", || {
            other.part("feed_forward", || other.key("inner", 0.3))
        });
        assert_eq!(residual(&other).map(|key| key.site), plain);
        let inner = other.within("blocks.1", || {
            other.part("attention", || other.key("weights", 0.1))
        });
        assert_ne!(inner.map(|key| key.site), plain);
        assert!(residual(&Pass::evaluation()).is_none());
    }
}
