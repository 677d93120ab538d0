//! The learning-rate range test: a few steps at rising rates, and the loss of each (Smith 2017, "Cyclical learning rates",
//! section 3.3).

use super::config::TrainConfig;
use super::gradients;
use crate::data::{Source, loader};
use crate::error::{Error, Result};
use crate::task::Trained;
use burn::optim::ModuleOptimizer;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The share of a smoothed loss that the losses before a step have.
const KEPT: f64 = 0.95;

/// A smoothed loss of so many times the least one ends the test: it has diverged.
const DIVERGED: f64 = 4.0;

/// Rates that a test may have: below them no weight of a 32-bit number moves, above them none is left. Their quotients are
/// far from the ends of floating-point numbers.
pub const RATES: RangeInclusive<f64> = 1e-12..=1e3;

/// Rates of a test: from the first to the last, each step the same times the one before.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Rate of the first step.
    pub from: f64,
    /// Rate of the last step.
    pub to: f64,
    /// Steps.
    pub steps: u64,
}

/// A step of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Its rate.
    pub lr: f64,
    /// Its loss in nats, before the weights moved.
    pub loss: f64,
    /// The mean of the losses so far, of which older ones fade.
    pub smooth: f64,
}

impl Range {
    /// The rate of a step, counted from 0.
    pub fn lr(&self, step: u64) -> f64 {
        let last = self.steps.saturating_sub(1).max(1);
        self.from * (self.to / self.from).powf(step as f64 / last as f64)
    }
}

/// Trains at the rates of `range` until the loss diverges.
///
/// # Errors
/// Data that cannot be read.
pub fn test<M: Trained>(
    mut model: M,
    mut optimizer: ModuleOptimizer,
    config: &TrainConfig,
    (source, seed): (Arc<dyn Source>, u64),
    range: Range,
) -> Result<Vec<Tried>> {
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
        mean = KEPT * mean + (1.0 - KEPT) * loss;
        let smooth = mean / (1.0 - KEPT.powi(step as i32 + 1));
        let lr = range.lr(step);
        tried.push(Tried { lr, loss, smooth });
        least = least.min(smooth);
        if smooth > DIVERGED * least {
            break;
        }
        carried = gradient.output.state.take();
        gradient.clip(&model, config.clip_norm);
        model = model.optimize(&mut optimizer, lr.into(), gradient.gradients);
    }
    Ok(tried)
}

/// What a test says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// The rate at which the smoothed loss falls fastest by the rate's logarithm.
    pub steepest: f64,
    /// The rate of the least smoothed loss.
    pub least: f64,
}

/// The advice of a test; none where the loss never fell.
pub fn advice(tried: &[Tried]) -> Option<Advice> {
    let least = tried.iter().min_by(|a, b| a.smooth.total_cmp(&b.smooth))?;
    let falling: Vec<&Tried> = tried.iter().take_while(|t| t.lr <= least.lr).collect();
    let slope =
        |pair: &[&Tried]| (pair[1].smooth - pair[0].smooth) / (pair[1].lr / pair[0].lr).ln();
    // The first steps' smoothed loss is theirs alone and jumps.
    let settled = falling.get(falling.len() / 10..)?;
    let steepest = settled
        .windows(2)
        .min_by(|a, b| slope(a).total_cmp(&slope(b)))
        .filter(|pair| slope(pair) < 0.0)?;
    Some(Advice {
        steepest: steepest[1].lr,
        least: least.lr,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(loss: impl Fn(f64) -> f64) -> Vec<Tried> {
        let range = Range {
            from: 1e-6,
            to: 1.0,
            steps: 61,
        };
        let tried = (0..61).map(|step| {
            let lr = range.lr(step);
            let loss = loss(lr.log10());
            Tried {
                lr,
                loss,
                smooth: loss,
            }
        });
        tried.collect()
    }

    #[test]
    fn rates_rise_by_the_same_factor() {
        let range = Range {
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
        // A fall in the form of a logistic curve around 1e-3, a rise behind 1e-1.
        let loss =
            |at: f64| 2.0 - 1.0 / (1.0 + (-4.0 * (at + 3.0)).exp()) + 5.0 * (at + 1.0).max(0.0);
        let advice = advice(&curve(loss)).unwrap();
        assert!((advice.steepest.log10() + 3.0).abs() < 0.11, "{advice:?}");
        assert!((advice.least.log10() + 1.0).abs() < 0.06, "{advice:?}");
        assert_eq!(super::advice(&curve(|at| at)), None);
        assert_eq!(super::advice(&[]), None);
    }
}
