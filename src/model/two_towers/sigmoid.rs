//! Scores of two towers whose pairs are classified one by one (Zhai et al. 2023, SigLIP, section 3.2): exp(t)·cosine + b.
//!
//! A batch has many more pairs that do not belong together than pairs that do. The bias starts low, so that an untrained network
//! predicts that no pair belongs together, and its first steps need not correct that. Unlike the scale of the softmax
//! (`logit_scale` of [`super::TwoTowers`]), t is unbounded.

use crate::faults::TableFaults;
use crate::nn::init::Init;
use crate::nn::role::{BIAS, Roles};
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// Initial bias if `logit_bias` is absent. Source: Zhai et al. 2023, section 3.2.
const LOGIT_BIAS: f64 = -10.0;
/// Maximum absolute bias: beyond it, cosines times the largest initial factor, 100, cannot change a decision.
const MAX_BIAS: f64 = 100.0;

/// Places of the parameters of [`SigmoidScale`].
pub const ROLES: Roles = Roles::new(
    "SigmoidScale",
    &[("logit_scale", BIAS), ("logit_bias", BIAS)],
);

/// Factor and bias that turn cosines into scores.
#[derive(Module, Debug)]
pub struct SigmoidScale {
    /// Logarithm of the factor on cosines, `[1]`.
    pub logit_scale: Param<Tensor<1>>,
    /// Bias added to the scaled cosines, `[1]`.
    pub logit_bias: Param<Tensor<1>>,
}

impl SigmoidScale {
    pub(super) fn new(temperature: f64, bias: f64, init: &Init) -> Self {
        Self {
            logit_scale: init.vector(1, -temperature.ln() as f32),
            logit_bias: init.vector(1, bias as f32),
        }
    }
}

/// Returns the initial bias for scores with a bias; `None` for others.
pub(super) fn initial_bias(given: Option<f64>, biased: bool) -> Option<f64> {
    biased.then(|| given.unwrap_or(LOGIT_BIAS))
}

/// Checks `logit_bias`, for scores with or without a bias.
pub(super) fn faults(given: Option<f64>, biased: bool, at: &mut TableFaults) {
    let Some(bias) = given else { return };
    if !(-MAX_BIAS..=MAX_BIAS).contains(&bias) {
        let rule = format!("logit_bias = {bias:?} is not between -{MAX_BIAS} and {MAX_BIAS}");
        at.fault(&["logit_bias"], rule);
    }
    if !biased {
        let rule = format!(
            "logit_bias = {bias:?} has no effect with [task] loss = \"softmax\", which does not change if all scores are shifted \
             equally; remove it or set loss = \"sigmoid\""
        );
        at.fault(&["logit_bias", "task.loss"], rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_begin_as_in_the_paper() {
        assert_eq!(initial_bias(None, true), Some(-10.0));
        assert_eq!(initial_bias(Some(0.0), true), Some(0.0));
        assert_eq!(initial_bias(Some(-3.0), false), None);
    }
}
