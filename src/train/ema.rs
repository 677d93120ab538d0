//! A moving average of the weights (Polyak and Juditsky 1992): s ← ds + (1 − d)θ after every step.
//!
//! The average is a separate module, without gradients and with dropout off, so evaluation uses it in place of the
//! weights without exchanging anything. Float parameters are averaged, except for frozen ones: the rounded mean of
//! equal values may be a different value. There is no bias correction for the start, which is the initial weights.
//!
//! d is constant or depends on the number of the step: schedule-free training averages all steps
//! ([`crate::train::optim::schedule_free`]), and the average of a teacher comes to rest as d approaches 1.

use super::optim::Averaging;
use super::parameters;
use super::verdict::Verdict;
use crate::kernel::{self, StepDecision};
use crate::task::is_copied_to_average;
use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use std::f64::consts::PI;

/// The decay d.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DecayRule {
    /// The same d for all steps, in [0, 1).
    Constant(f64),
    /// d of an average that is the teacher of the weights: from d of the first step to 1 along a half cosine over
    /// `steps` steps (Grill et al. 2020, BYOL, section 3.2; Caron et al. 2021, DINO, section 3.1).
    Teacher {
        /// d of the first step.
        from: f64,
        /// Steps of the whole training.
        steps: u64,
    },
    /// d of the average that an optimizer prescribes.
    OptimizerAverage(Averaging),
}

impl From<f64> for DecayRule {
    fn from(decay: f64) -> Self {
        Self::Constant(decay)
    }
}

impl DecayRule {
    /// Returns d of step `time`, counted from 1.
    fn decay(self, time: u64) -> f64 {
        match self {
            Self::Constant(decay) => decay,
            Self::Teacher { from, steps } => {
                let done = time.saturating_sub(1).min(steps) as f64 / steps.max(1) as f64;
                1.0 - (1.0 - from) * (1.0 + (PI * done).cos()) / 2.0
            }
            Self::OptimizerAverage(averaging) => averaging.decay(time),
        }
    }
}

/// A moving average of a model's weights.
#[derive(Clone, Debug)]
pub struct Ema<M> {
    rule: DecayRule,
    /// Steps in the average.
    taken: u64,
    average: M,
}

impl<M: Module> Ema<M> {
    /// Starts an average at the model's weights.
    pub fn new(rule: impl Into<DecayRule>, model: &M) -> Self {
        Self::from_average(rule, 0, model.valid())
    }

    /// Continues a saved average of `taken` steps.
    pub fn from_average(rule: impl Into<DecayRule>, taken: u64, average: M) -> Self {
        Self {
            rule: rule.into(),
            taken,
            average,
        }
    }

    /// Blends the weights after a step into the average.
    pub fn update(self, model: &M) -> Self {
        let taken = self.taken + 1;
        let mut blend = Blend {
            decay: self.rule.decay(taken),
            latest: false,
            weights: parameters::trainable_values(model),
            decision: None,
        };
        Self {
            rule: self.rule,
            taken,
            average: self.average.map(&mut blend),
        }
    }

    /// [`Self::update`] for a step whose numbers are on the device: the average is unchanged if the step is not taken.
    pub fn update_if(self, model: &M, verdict: &Verdict) -> Self {
        let taken = self.taken + 1;
        let mut blend = Blend {
            decay: self.rule.decay(taken),
            latest: false,
            weights: parameters::trainable_values(model),
            decision: Some(verdict.decision()),
        };
        Self {
            rule: self.rule,
            taken,
            average: kernel::batch_launches(|| self.average.map(&mut blend)),
        }
    }

    /// Returns the averaged model, in evaluation mode.
    pub fn model(&self) -> &M {
        &self.average
    }
}

struct Blend<'a> {
    decay: f64,
    /// Whether the current field is copied instead of averaged.
    latest: bool,
    weights: GradientsParams,
    decision: Option<&'a StepDecision>,
}

impl ModuleMapper for Blend<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.latest = is_copied_to_average(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.latest = false;
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(weight) = self.weights.remove::<D>(param.id) else {
            return param;
        };
        let (id, average, mapper) = param.consume();
        let decay = if self.latest { 0.0 } else { self.decay };
        let average = match self.decision {
            Some(decision) => kernel::mean_step_batched(average, weight, decay, decision),
            None => average * decay + weight * (1.0 - decay),
        };
        Param::from_mapped_value(id, average, mapper)
    }
}
