//! The learning rate range test: a few steps at rising rates, and the loss of each (Smith 2017, "Cyclical learning
//! rates", section 3.3).

use super::config::TrainConfig;
use super::gradients;
use crate::data::{Source, loader};
use crate::error::{Error, Result};
use crate::task::TrainableModel;
use burn::optim::ModuleOptimizer;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Weight of the earlier losses in the smoothed loss.
const SMOOTHING: f64 = 0.95;

/// A smoothed loss above this multiple of the lowest one ends the test: training has diverged.
const DIVERGENCE_FACTOR: f64 = 4.0;

/// Rates that a test may use: below them no 32-bit weight changes, above them no weight survives. Their quotients are
/// far from the limits of floating-point numbers.
pub const RATES: RangeInclusive<f64> = 1e-12..=1e3;

/// Learning rates of a test, in geometric progression from the first to the last.
#[derive(Clone, Copy, Debug)]
pub struct RateRange {
    /// Learning rate of the first step.
    pub from: f64,
    /// Learning rate of the last step.
    pub to: f64,
    /// Number of steps.
    pub steps: u64,
}

/// A step of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestStep {
    /// Learning rate of the step.
    pub lr: f64,
    /// Loss of the step in nats, before the weights are updated.
    pub loss: f64,
    /// Exponential moving average of the losses so far.
    pub smooth: f64,
}

impl RateRange {
    /// Returns the learning rate of a step, counted from 0.
    pub fn lr(&self, step: u64) -> f64 {
        let last = self.steps.saturating_sub(1).max(1);
        self.from * (self.to / self.from).powf(step as f64 / last as f64)
    }
}

/// Trains at the rates of `range` until the loss diverges.
///
/// # Errors
/// If the data cannot be read.
pub fn run_test<M: TrainableModel>(
    mut model: M,
    mut optimizer: ModuleOptimizer,
    config: &TrainConfig,
    (source, seed): (Arc<dyn Source>, u64),
    range: RateRange,
) -> Result<Vec<TestStep>> {
    let order = config.order(seed);
    let mut stream = loader::train_stream(source, order, config.micro_batch_size(), 0);
    let mut carried = config.carry_state.then(|| model.empty_state()).flatten();
    let (mut tried, mut mean, mut least) = (Vec::new(), 0.0, f64::INFINITY);
    for step in 0..range.steps {
        let Some(batches) = stream.next() else {
            return Err(Error::run("the training data ended before the last step"));
        };
        let mut batches = batches?;
        for batch in &mut batches {
            batch.steps = range.steps;
            batch.recompute = config.recompute;
        }
        let mut gradient = gradients::accumulate_from(&model, batches, carried.as_ref());
        let loss = gradient.output.loss.mean();
        if !loss.is_finite() || !gradient.norm.is_finite() {
            break;
        }
        mean = SMOOTHING * mean + (1.0 - SMOOTHING) * loss;
        let smooth = mean / (1.0 - SMOOTHING.powi(step as i32 + 1));
        let lr = range.lr(step);
        tried.push(TestStep { lr, loss, smooth });
        least = least.min(smooth);
        if smooth > DIVERGENCE_FACTOR * least {
            break;
        }
        carried = gradient.output.state.take();
        gradient.clip(&model, config.clip_norm);
        model = model.optimize(&mut optimizer, lr.into(), gradient.gradients);
    }
    Ok(tried)
}

/// Learning rates that a test suggests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuggestedRates {
    /// Rate at which the smoothed loss falls fastest with the logarithm of the rate.
    pub steepest: f64,
    /// Rate of the lowest smoothed loss.
    pub at_lowest_loss: f64,
}

/// Returns the advice of a test; `None` if the loss never fell.
pub fn suggest_rates(tried: &[TestStep]) -> Option<SuggestedRates> {
    let least = tried.iter().min_by(|a, b| a.smooth.total_cmp(&b.smooth))?;
    let falling: Vec<&TestStep> = tried.iter().take_while(|t| t.lr <= least.lr).collect();
    let slope =
        |pair: &[&TestStep]| (pair[1].smooth - pair[0].smooth) / (pair[1].lr / pair[0].lr).ln();
    // The smoothed loss of the first steps depends on only a few losses and jumps.
    let settled = falling.get(falling.len() / 10..)?;
    let steepest = settled
        .windows(2)
        .min_by(|a, b| slope(a).total_cmp(&slope(b)))
        .filter(|pair| slope(pair) < 0.0)?;
    Some(SuggestedRates {
        steepest: steepest[1].lr,
        at_lowest_loss: least.lr,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(loss: impl Fn(f64) -> f64) -> Vec<TestStep> {
        let range = RateRange {
            from: 1e-6,
            to: 1.0,
            steps: 61,
        };
        let tried = (0..61).map(|step| {
            let lr = range.lr(step);
            let loss = loss(lr.log10());
            TestStep {
                lr,
                loss,
                smooth: loss,
            }
        });
        tried.collect()
    }

    #[test]
    fn rates_rise_by_the_same_factor() {
        let range = RateRange {
            from: 1e-6,
            to: 1.0,
            steps: 7,
        };
        for step in 0..7 {
            let wanted = 10f64.powi(step - 6);
            assert!((range.lr(step as u64) / wanted - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn the_steepest_fall_and_the_least_loss() {
        // A fall like a logistic curve around 1e-3, then a rise above 1e-1.
        let loss =
            |at: f64| 2.0 - 1.0 / (1.0 + (-4.0 * (at + 3.0)).exp()) + 5.0 * (at + 1.0).max(0.0);
        let advice = suggest_rates(&curve(loss)).unwrap();
        assert!((advice.steepest.log10() + 3.0).abs() < 0.11, "{advice:?}");
        assert!(
            (advice.at_lowest_loss.log10() + 1.0).abs() < 0.06,
            "{advice:?}"
        );
        assert_eq!(super::suggest_rates(&curve(|at| at)), None);
        assert_eq!(super::suggest_rates(&[]), None);
    }
}
