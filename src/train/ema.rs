//! A moving average of the weights (Polyak and Juditsky 1992): s ← ds + (1 − d)θ after every step.
//!
//! The average is a module of its own, without gradients and with dropout off, so evaluation uses it in
//! the weights' place without exchanging anything. Float parameters are averaged, but for those that do not learn: of equal
//! values a rounded mean may be another value. There is no correction for the start, which is the initial weights.

use super::parameters;
use super::verdict::Verdict;
use crate::kernel::{self, Decision};
use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// Averaged weights.
#[derive(Clone, Debug)]
pub struct Ema<M> {
    decay: f64,
    average: M,
}

impl<M: Module> Ema<M> {
    /// An average that starts at the model's weights; `decay` in [0, 1).
    pub fn new(decay: f64, model: &M) -> Self {
        Self {
            decay,
            average: model.valid(),
        }
    }

    /// An average that continues from saved weights.
    pub fn from_average(decay: f64, average: M) -> Self {
        Self { decay, average }
    }

    /// Takes the weights after a step into the average.
    pub fn update(self, model: &M) -> Self {
        let mut blend = Blend {
            decay: self.decay,
            weights: parameters::moving(model),
            decision: None,
        };
        Self {
            decay: self.decay,
            average: self.average.map(&mut blend),
        }
    }

    /// [`Self::update`] by a step whose numbers are on its device: the average stays what it was where that is not taken.
    pub fn update_if(self, model: &M, verdict: &Verdict) -> Self {
        let mut blend = Blend {
            decay: self.decay,
            weights: parameters::moving(model),
            decision: Some(verdict.decision()),
        };
        Self {
            decay: self.decay,
            average: kernel::together(|| self.average.map(&mut blend)),
        }
    }

    /// The averaged model, in evaluation mode.
    pub fn model(&self) -> &M {
        &self.average
    }

    /// d above.
    pub fn decay(&self) -> f64 {
        self.decay
    }
}

struct Blend<'a> {
    decay: f64,
    weights: GradientsParams,
    decision: Option<&'a Decision>,
}

impl ModuleMapper for Blend<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(weight) = self.weights.remove::<D>(param.id) else {
            return param;
        };
        let (id, average, mapper) = param.consume();
        let average = match self.decision {
            Some(decision) => kernel::moved_among(average, weight, self.decay, decision),
            None => average * self.decay + weight * (1.0 - self.decay),
        };
        Param::from_mapped_value(id, average, mapper)
    }
}
