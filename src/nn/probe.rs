//! Readings of a forward pass for `[diagnostics]`: the size of the residual stream after each block and the entropy of attention.
//!
//! Readings are taken from tensors without gradients and leave the pass unchanged, bit for bit. A pass without a probe pays one
//! comparison per block.

use super::branches::ResidualMoments;
use crate::kernel;
use burn::module::ParamId;
use burn::tensor::Tensor;
use std::cell::RefCell;
use std::fmt::Display;

/// The readings that are requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeRequest {
    /// Root mean square of the stream after each block.
    pub activations: bool,
    /// Entropy of the attention weights of each layer.
    pub attention: bool,
}

/// The part of the batch in which attention is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeSample {
    /// Row of the batch.
    pub row: usize,
    /// Number of the row's positions before its padding, if masks do not tell padding apart.
    pub length: Option<usize>,
    /// The stack that `length` applies to, by its name in readings; the whole network if empty.
    pub within: &'static str,
}

/// The readings: names of parts of the model in the order of the computation, each with its value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// Root mean square of the stream after the block, over all positions, padding included.
    pub activation_rms: Vec<(String, f64)>,
    /// Mean entropy of the layer's attention weights in nats, over heads and some queries of one row.
    pub attention_entropy: Vec<(String, f64)>,
}

/// Collector of the readings of one pass.
#[derive(Debug)]
pub struct Probe {
    wanted: ProbeRequest,
    sample: ProbeSample,
    place: RefCell<String>,
    readings: RefCell<Readings>,
    branches: Option<RefCell<ResidualMoments>>,
}

impl Probe {
    /// Creates a probe without readings.
    pub(super) fn new(wanted: ProbeRequest, sample: ProbeSample) -> Self {
        Self {
            wanted,
            sample,
            place: RefCell::default(),
            readings: RefCell::default(),
            branches: None,
        }
    }

    /// Creates a probe that only measures residual connections and adds them to `branches`.
    pub(super) fn of_branches(branches: ResidualMoments) -> Self {
        Self {
            branches: Some(RefCell::new(branches)),
            ..Self::new(ProbeRequest::default(), ProbeSample::default())
        }
    }

    /// Notes a residual connection of the current part.
    pub(super) fn note_branch(&self, skip: ParamId, stream: &Tensor<3>, result: &Tensor<3>) {
        if let Some(branches) = &self.branches {
            let place = self.place.borrow();
            branches.borrow_mut().note(&place, skip, stream, result);
        }
    }

    /// Takes out the measurements of residual connections.
    pub(super) fn take_branches(&self) -> ResidualMoments {
        self.branches
            .as_ref()
            .map(RefCell::take)
            .unwrap_or_default()
    }

    /// Returns the sample in which attention is read; `None` if it is not read.
    pub fn sample(&self) -> Option<ProbeSample> {
        let concerned = self.place.borrow().starts_with(self.sample.within);
        let length = self.sample.length.filter(|_| concerned);
        let sample = ProbeSample {
            length,
            ..self.sample
        };
        self.wanted.attention.then_some(sample)
    }

    /// Notes the attention entropy of the current part; `crossed` marks cross-attention.
    pub fn note_entropy(&self, entropy: f64, crossed: bool) {
        let end = if crossed { ".cross" } else { "" };
        let part = format!("{}{end}", self.place.borrow());
        let mut readings = self.readings.borrow_mut();
        readings.attention_entropy.push((part, entropy));
    }

    /// Reads the output of the current part.
    pub(super) fn read_stream<const D: usize>(&self, x: &Tensor<D>) {
        if self.wanted.activations {
            let squares = kernel::sum_of_squares(&kernel::untracked(x.clone()));
            let count = x.dims().iter().product::<usize>().max(1);
            let rms = (squares / count as f64).sqrt();
            let part = self.place.borrow().clone();
            self.readings.borrow_mut().activation_rms.push((part, rms));
        }
    }

    /// Returns the readings so far.
    pub(super) fn readings(&self) -> Readings {
        self.readings.borrow().clone()
    }

    /// Does `work`, whose readings belong to `part` of the current part.
    pub(super) fn within<T>(&self, part: impl Display, work: impl FnOnce() -> T) -> T {
        let outer = self.place.borrow().clone();
        let inner = match &outer[..] {
            "" => part.to_string(),
            outer => format!("{outer}.{part}"),
        };
        self.place.replace(inner);
        let done = work();
        self.place.replace(outer);
        done
    }
}
