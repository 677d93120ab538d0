//! How fast arms learn, on one yardstick for all of them: the mean height of the curve over the steps that all runs
//! have, and the steps until a value is first reached.
//!
//! The mean height is the area under the curve divided by its width, in the metric's own unit
//! ([`crate::report::analyse::statistics::curve`]). A run that never reaches the value has no steps; how many did is told
//! beside the mean, since a mean over the lucky ones alone flatters.

use super::arms::Arm;
use super::metrics::better;
use super::statistics::curve::{common_range, mean_height, steps_to_reach};
use super::statistics::rates::Rate;
use super::statistics::summary::{Summary, summarize};
use super::statistics::{Direction, LEVEL};
use crate::report::read::run::Run;

/// The steps and the value that the learning of all arms is measured by.
#[derive(Clone, Debug)]
pub struct Yardstick {
    split: &'static str,
    metric: String,
    better: Direction,
    /// The steps that all counted runs cover; none when they share none.
    pub range: Option<(f64, f64)>,
    /// The value that is to be reached.
    pub target: Option<f64>,
}

/// How fast one run or the runs of an arm learn.
#[derive(Clone, Copy, Debug)]
pub struct Learning {
    /// Mean height of the curve over the common steps.
    pub area: Option<Summary>,
    /// Steps until the value was reached, over the runs that did.
    pub reach: Option<Summary>,
    /// Runs that did, of those with a curve.
    pub reached: Rate,
}

impl Yardstick {
    /// The yardstick for the runs that count in any arm.
    pub fn over(
        runs: &[Run],
        arms: &[Arm],
        (split, metric): (&'static str, &str),
        target: Option<f64>,
    ) -> Self {
        let mut yardstick = Self {
            split,
            metric: metric.to_string(),
            better: better(metric),
            range: None,
            target,
        };
        let counted = arms.iter().flat_map(|arm| &arm.counted);
        let curves: Vec<Vec<(u64, f64)>> = counted
            .map(|&m| yardstick.curve(&runs[m]))
            .filter(|curve| !curve.is_empty())
            .collect();
        yardstick.range = common_range(curves.iter().map(Vec::as_slice));
        yardstick
    }

    /// Mean height of a run's curve.
    pub fn area(&self, run: &Run) -> Option<f64> {
        mean_height(&self.curve(run), self.range?)
    }

    /// Steps that a run took to the value.
    pub fn reach(&self, run: &Run) -> Option<f64> {
        steps_to_reach(&self.curve(run), self.target?, self.better)
    }

    /// The learning of some runs.
    pub fn learning<'r>(&self, runs: impl Iterator<Item = &'r Run> + Clone) -> Learning {
        let steps: Vec<f64> = runs.clone().filter_map(|run| self.reach(run)).collect();
        let curves = runs.clone().filter(|run| !self.curve(run).is_empty());
        Learning {
            area: summarize(runs.clone().filter_map(|run| self.area(run)), LEVEL),
            reached: Rate {
                events: steps.len(),
                n: curves.count(),
            },
            reach: summarize(steps, LEVEL),
        }
    }

    fn curve(&self, run: &Run) -> Vec<(u64, f64)> {
        let series = run.series(self.split, &self.metric);
        series.iter().map(|p| (p.step, p.value)).collect()
    }
}
