//! The statistics of ablations over a few seeds: pure functions of numbers, without runs, files or metrics.
//!
//! | question | file | method |
//! |---|---|---|
//! | what did an arm reach? | [`summary`] | mean, standard deviation, Student's t interval |
//! | does it differ from the baseline, by seed? | [`paired`] | paired t test, d_z, g_z |
//! | the same without assuming a normal distribution? | [`bootstrap`] | BCa and percentile intervals |
//! | the same when the seeds differ? | [`independent`] | Welch's t test, Hedges' g |
//! | is it still true with several arms? | [`holm`] | Holm's step-down correction |
//! | how many seeds would settle it? | [`power`] | power of the t test |
//! | does it diverge more often? | [`rates`] | Wilson's interval, Fisher's exact test |
//! | does it learn faster? | [`curve`] | area under the curve, steps to a value |
//! | all arms at once | [`contrast`] | the above, and a verdict |
//!
//! Three rules hold throughout. Values that are not finite are left out: a run that diverged is no large value but
//! an event of its own, and the caller counts it ([`rates`]). A quantity that the data cannot give is `None`; no
//! NaN and no infinity comes out. Differences are arm minus baseline.

pub mod bootstrap;
pub mod contrast;
pub mod curve;
mod distribution;
pub mod holm;
pub mod independent;
pub mod paired;
pub mod power;
pub mod rates;
pub mod summary;

use serde::Serialize;

/// The level of the confidence intervals that are shown.
pub const LEVEL: f64 = 0.95;

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// None when an end is beyond a float.
    fn new(low: f64, high: f64) -> Option<Self> {
        (low.is_finite() && high.is_finite()).then_some(Self { low, high })
    }

    /// `middle` ± `reach`; none when an end is beyond a float.
    fn around(middle: f64, reach: f64) -> Option<Self> {
        Self::new(middle - reach, middle + reach)
    }
}

/// Which values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Losses, perplexities, error rates.
    Lower,
    /// Accuracies, BLEU.
    Higher,
}

impl Direction {
    /// Whether `value` is as good as `target` or better.
    fn reaches(self, value: f64, target: f64) -> bool {
        match self {
            Self::Lower => value <= target,
            Self::Higher => value >= target,
        }
    }
}

/// A p value: three decimals, `<0.001` below.
pub fn p_value(p: f64) -> String {
    if p < 0.001 {
        "<0.001".into()
    } else {
        format!("{p:.3}")
    }
}
