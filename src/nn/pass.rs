//! The circumstances of a forward pass: whether it trains, where its random draws come from, and what is read from it.
//!
//! A dropout is keyed by the part of the network that contains it and by its name there (`blocks.3`, `attention`), as are initial
//! weights. Its mask is a function of (seed, step, row of the batch, part, name): the same for every split into micro-batches,
//! after a resume and on every device, and the same in two networks that differ in other parts.

mod dropout;
mod orders;
pub mod tables;
mod token_shares;

use super::branches::ResidualMoments;
use super::probe::{Probe, ProbeRequest, ProbeSample, Readings};
use super::record::{Record, RecordSelection, RecordedValues};
use crate::kernel::replay;
use crate::rng::{Purpose, Stream, part_coordinate};
use burn::module::ParamId;
use burn::tensor::Tensor;
use orders::OrderCache;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::ops::Range;

/// One forward pass through a model.
#[derive(Debug)]
pub struct Pass {
    draws: Option<Draws>,
    /// Coordinates of the samples that an evaluation draws.
    samples: Option<Draws>,
    /// The current part of the network: the hash that [`part`] makes of its path.
    part: Cell<u64>,
    /// Number of rows that the current work derives from each row of the batch.
    derived_rows: Cell<u64>,
    probe: Option<Probe>,
    record: Option<Record>,
    losses: RefCell<Vec<AuxiliaryLoss>>,
    layers: RefCell<InnerLayers>,
    recomputes: bool,
    hashed: OrderCache,
    tables: tables::Tables,
}

/// Outputs of inner layers that a task reads beside the last hidden states.
#[derive(Debug, Default)]
struct InnerLayers {
    wanted: Range<usize>,
    found: Vec<Tensor<3>>,
}

/// A loss that a layer adds to the task's loss, for example for the load balance of experts.
#[derive(Clone, Debug)]
pub struct AuxiliaryLoss {
    /// Name of the loss in journals; layers that add the same loss share it.
    pub name: &'static str,
    /// Mean of the loss over the tokens or heads that it is measured on.
    pub mean: Tensor<1>,
    /// The training loss grows by this times the mean; 0 if the loss is only measured.
    pub coefficient: f64,
}

/// The coordinates of the random draws of a training pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Draws {
    /// The run's seed.
    pub seed: u64,
    /// Optimizer step, from 0.
    pub step: u64,
    /// Row of the step's batch at which this micro-batch begins.
    pub first_row: u64,
}

impl Pass {
    /// Creates a pass without randomness: dropout does nothing.
    pub fn evaluation() -> Self {
        Self {
            draws: None,
            samples: None,
            part: Cell::new(0),
            derived_rows: Cell::new(1),
            probe: None,
            record: None,
            losses: RefCell::default(),
            layers: RefCell::default(),
            hashed: OrderCache::default(),
            tables: tables::Tables::default(),
            recomputes: false,
        }
    }

    /// Creates a training pass whose dropout draws from these coordinates.
    pub fn training(draws: Draws) -> Self {
        Self {
            draws: Some(draws),
            ..Self::evaluation()
        }
    }

    /// Whether this is a training pass.
    pub fn is_training(&self) -> bool {
        self.draws.is_some()
    }

    /// Returns the same pass, in which blocks keep only their input and recompute the rest in the backward pass.
    #[must_use]
    pub fn with_recomputation(mut self) -> Self {
        self.recomputes = true;
        self
    }

    /// Whether blocks recompute their activations in the backward pass.
    pub fn recomputes(&self) -> bool {
        self.recomputes
    }

    /// Returns a pass that repeats the work of the current part with the same draws, but without probe, record and added losses.
    #[must_use]
    pub fn for_recomputation(&self) -> Self {
        Self {
            draws: self.draws,
            samples: self.samples,
            part: self.part.clone(),
            derived_rows: self.derived_rows.clone(),
            hashed: self.hashed.for_recomputation(),
            tables: self.tables.clone(),
            ..Self::evaluation()
        }
    }

    /// Returns the optimizer step of the pass, from 0; `None` in an evaluation.
    pub fn step(&self) -> Option<u64> {
        replay::refuse_random_draws();
        self.draws.map(|draws| draws.step)
    }

    /// Returns the same pass with a probe that takes the `wanted` readings; attention is read in one row of the batch.
    pub fn with_probe(mut self, wanted: ProbeRequest, sample: ProbeSample) -> Self {
        self.probe = Some(Probe::new(wanted, sample));
        self
    }

    /// Returns the probe that reads the pass, if the step is measured.
    pub fn probe(&self) -> Option<&Probe> {
        self.probe.as_ref()
    }

    /// Returns the same pass, which also measures scaled residual connections and adds them to `branches`.
    #[must_use]
    pub fn with_branch_measurement(mut self, branches: ResidualMoments) -> Self {
        self.probe = Some(Probe::of_branches(branches));
        self
    }

    /// Notes the stream and the result of the residual connection with this scale, if connections are measured.
    pub fn note_branch(&self, skip: ParamId, stream: &Tensor<3>, result: &Tensor<3>) {
        if let Some(probe) = &self.probe {
            probe.note_branch(skip, stream, result);
        }
    }

    /// Takes out the measurements of the residual connections.
    pub fn take_branches(&self) -> ResidualMoments {
        let probe = self.probe.as_ref();
        probe.map(Probe::take_branches).unwrap_or_default()
    }

    /// Returns the same pass, which records its last hidden states and what `keep` asks for.
    #[must_use]
    pub fn with_record(mut self, keep: RecordSelection) -> Self {
        self.record = Some(Record::new(keep));
        self
    }

    /// Returns the record, if the pass is recorded.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// Takes out the recorded values.
    pub fn take_recorded(&self) -> RecordedValues {
        self.record.as_ref().map(Record::take).unwrap_or_default()
    }

    /// Records a hidden state of the current network: number 0 is the input of its first block, n the output of block n − 1.
    pub fn note_hidden<const D: usize>(&self, number: usize, x: &Tensor<D>) {
        if let Some(record) = &self.record {
            record.note_hidden(number, x);
        }
    }

    /// Records the last hidden states of the current network.
    pub fn note_last<const D: usize>(&self, x: &Tensor<D>) {
        if let Some(record) = &self.record {
            record.note_last(x);
        }
    }

    /// Returns the readings of the probe, if there is one.
    pub fn readings(&self) -> Option<Readings> {
        self.probe.as_ref().map(Probe::readings)
    }

    /// Adds `coefficient·mean` to the training loss and reports the mean under this name.
    ///
    /// In training the task multiplies it by this micro-batch's share of the step's tokens (or images), so that the sum over
    /// micro-batches is a weighted mean of their means. If the mean is one over tokens, that is the mean of the whole batch.
    pub fn add_loss(&self, name: &'static str, mean: Tensor<1>, coefficient: f64) {
        self.losses.borrow_mut().push(AuxiliaryLoss {
            name,
            mean,
            coefficient,
        });
    }

    /// Returns the losses that layers have added so far, in the order of the computation.
    pub fn losses(&self) -> Vec<AuxiliaryLoss> {
        self.losses.borrow().clone()
    }

    /// Removes and returns the losses that layers have added after the first `kept`.
    pub fn take_losses(&self, kept: usize) -> Vec<AuxiliaryLoss> {
        self.losses.borrow_mut().split_off(kept)
    }

    /// Does the work of a network and returns its result together with the outputs of the `wanted` layers, counted from 1, in
    /// their order and with their gradients.
    pub fn with_layers<T>(
        &self,
        wanted: Range<usize>,
        work: impl FnOnce() -> T,
    ) -> (T, Vec<Tensor<3>>) {
        self.layers.borrow_mut().wanted = wanted;
        let done = work();
        (done, self.layers.take().found)
    }

    /// Keeps the output of layer `number`, counted from 1, if a task reads it.
    pub fn note_layer(&self, number: usize, x: &Tensor<3>) {
        let mut layers = self.layers.borrow_mut();
        if layers.wanted.contains(&number) {
            layers.found.push(x.clone());
        }
    }

    /// Does the work of a network inside the whole model, for example `encoder`: its dropout draws, readings and records belong
    /// to it.
    pub fn in_network<T>(&self, name: impl Display, work: impl FnOnce() -> T) -> T {
        let name = name.to_string();
        match &self.record {
            Some(record) => record.within(&name, || self.at(&name, work)),
            None => self.at(&name, work),
        }
    }

    fn at<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let outer = self.part.replace(part_coordinate(self.part.get(), name));
        let done = match &self.probe {
            Some(probe) => probe.within(name, work),
            None => work(),
        };
        self.part.set(outer);
        done
    }

    /// Does the work of one layer of a block, for example `attention`: dropout draws belong to it, readings to its block.
    pub fn in_part<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let outer = self.part.replace(part_coordinate(self.part.get(), name));
        let done = work();
        self.part.set(outer);
        done
    }

    /// Does work over `rows` consecutive rows that are derived from each row of the batch. Each of them has its own draws, which
    /// do not depend on the size of micro-batches.
    pub fn with_derived_rows<T>(&self, rows: usize, work: impl FnOnce() -> T) -> T {
        let outer = self
            .derived_rows
            .replace(self.derived_rows.get() * rows as u64);
        let done = work();
        self.derived_rows.set(outer);
        done
    }

    /// Does the work of a block, for example `blocks.3`, and lets the probe read its output.
    pub fn in_block<const D: usize>(
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

    /// Returns the same evaluation, whose samples ([`Self::stream`]) draw from these coordinates.
    #[must_use]
    pub fn with_samples(mut self, draws: Draws) -> Self {
        self.samples = Some(draws);
        self
    }

    /// Returns the random stream of a sample that is taken inside the pass, for a row of the batch. It is a function of (seed,
    /// step, row of the step's batch, part of the network), whatever the micro-batches. Evaluations draw samples, too, although
    /// dropout is off.
    pub fn stream(&self, purpose: Purpose, row: usize) -> Stream {
        replay::refuse_random_draws();
        let draws = self.draws.or(self.samples).unwrap_or_default();
        let row = draws.first_row * self.derived_rows.get() + row as u64;
        Stream::new(draws.seed, purpose, (draws.step, row, self.part.get()))
    }

    /// Returns the random stream shared by all rows of a training step: a function of (seed, step, part); `None` in an
    /// evaluation.
    pub fn stream_of_step(&self, purpose: Purpose) -> Option<Stream> {
        replay::refuse_random_draws();
        let Draws { seed, step, .. } = self.draws?;
        Some(Stream::new(seed, purpose, (step, 0, self.part.get())))
    }
}

#[cfg(test)]
mod tests;
