//! Curves of an arm: mean and standard deviation over its runs at each step.
//!
//! Long series are first averaged in bins of equal width, so that a page stays small. If runs end at different steps,
//! the mean is over the runs that reached the step; `n` is their count.

use std::collections::BTreeMap;

use super::statistics::summary::moments;
use crate::report::read::run::Run;

/// One point of an arm's curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Optimizer step at the end of the bin.
    pub step: u64,
    /// Mean over runs.
    pub mean: f64,
    /// Standard deviation over runs; zero for a single one.
    pub sd: f64,
    /// Number of runs with a finite value here.
    pub n: usize,
}

/// Returns the curve of a metric over an arm's runs, with at most about `limit` points.
pub fn curve(runs: &[&Run], split: &str, metric: &str, limit: usize) -> Vec<Band> {
    let series = || runs.iter().map(|run| run.series(split, metric));
    let longest = series().map(<[_]>::len).max().unwrap_or(0);
    let end = series()
        .filter_map(|s| s.last())
        .map(|p| p.step)
        .max()
        .unwrap_or(0);
    let width = if longest > limit {
        end.div_ceil(limit.max(1) as u64).max(1)
    } else {
        1
    };
    let mut bins: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for points in series() {
        let mut own: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for point in points.iter().filter(|p| p.value.is_finite()) {
            let bin = own
                .entry(point.step.div_ceil(width).saturating_mul(width).min(end))
                .or_default();
            *bin = (bin.0 + point.value, bin.1 + 1.0);
        }
        own.into_iter()
            .for_each(|(step, (sum, n))| bins.entry(step).or_default().push(sum / n));
    }
    let band = |(step, values): (u64, Vec<f64>)| {
        let finite: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        let s = moments(&finite)?;
        Some(Band {
            step,
            mean: s.mean,
            sd: s.sd.unwrap_or(0.0),
            n: s.n,
        })
    };
    bins.into_iter().filter_map(band).collect()
}
