//! How fast arms learn, measured the same way for all of them: the mean height of the curve over the steps that all
//! runs have, and the number of steps until a target value is first reached.
//!
//! The mean height is the area under the curve divided by its width, in the metric's own unit
//! ([`crate::report::analyse::statistics::curve`]). A run that never reaches the target has no step count. The number of
//! runs that reached it is shown beside the mean, because a mean over only those runs is too optimistic.

use super::arms::Arm;
use super::metrics::direction;
use super::statistics::curve::{common_range, mean_height, steps_to_reach};
use super::statistics::rates::Rate;
use super::statistics::summary::{Summary, summarize};
use super::statistics::{Direction, LEVEL};
use crate::report::read::run::Run;

/// Common step range and target value used to measure how fast all arms learn.
#[derive(Clone, Debug)]
pub struct LearningReference {
    split: &'static str,
    metric: String,
    better: Direction,
    /// Range of steps that all counted runs cover; `None` if they share none.
    pub range: Option<(f64, f64)>,
    /// Target value to reach.
    pub target: Option<f64>,
}

/// Learning speed of one run or of an arm's runs.
#[derive(Clone, Copy, Debug)]
pub struct Learning {
    /// Mean height of the curve over the common step range.
    pub area: Option<Summary>,
    /// Steps until the target was reached, over the runs that reached it.
    pub reach: Option<Summary>,
    /// Number of runs that reached the target, out of the runs with a curve.
    pub reached: Rate,
}

impl LearningReference {
    /// Builds the yardstick from the runs that count in any arm.
    pub fn over(
        runs: &[Run],
        arms: &[Arm],
        (split, metric): (&'static str, &str),
        target: Option<f64>,
    ) -> Self {
        let mut yardstick = Self {
            split,
            metric: metric.to_string(),
            better: direction(metric),
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

    /// Returns the mean height of a run's curve over the common step range.
    pub fn area(&self, run: &Run) -> Option<f64> {
        mean_height(&self.curve(run), self.range?)
    }

    /// Returns the number of steps a run took to reach the target.
    pub fn reach(&self, run: &Run) -> Option<f64> {
        steps_to_reach(&self.curve(run), self.target?, self.better)
    }

    /// Summarises how fast the given runs learn.
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
