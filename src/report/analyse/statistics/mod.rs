//! Statistics for ablations over a few seeds: pure functions of numbers, without runs, files or metrics.
//!
//! | question | file | method |
//! |---|---|---|
//! | what value did an arm reach? | [`summary`] | mean, standard deviation, Student's t interval |
//! | does it differ from the baseline, by seed? | [`paired`] | paired t test, d_z, g_z |
//! | the same without assuming a normal distribution? | [`bootstrap`] | BCa and percentile intervals |
//! | the same when the seeds differ? | [`independent`] | Welch's t test, Hedges' g |
//! | is it still true with several arms? | [`holm`] | Holm's step-down correction |
//! | how many seeds would settle it? | [`power`] | power of the t test |
//! | does it diverge more often? | [`rates`] | Wilson's interval, Fisher's exact test |
//! | does it learn faster? | [`curve`] | area under the curve, steps to a value |
//! | all arms at once | [`contrast`] | the above, and a verdict |
//!
//! Three rules hold throughout. Values that are not finite are left out: a run that diverged is not a large value but a
//! separate event, which the caller counts ([`rates`]). A quantity that the data cannot give is `None`; no NaN and no
//! infinity is returned. Differences are arm minus baseline.

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

/// Level of the confidence intervals that are shown.
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
    /// Returns the interval; `None` if an end is not finite.
    fn new(low: f64, high: f64) -> Option<Self> {
        (low.is_finite() && high.is_finite()).then_some(Self { low, high })
    }

    /// Returns `middle` ± `reach`; `None` if an end is not finite.
    fn around(middle: f64, reach: f64) -> Option<Self> {
        Self::new(middle - reach, middle + reach)
    }
}

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Lower is better: losses, perplexities, error rates.
    Lower,
    /// Higher is better: accuracies, BLEU.
    Higher,
}

impl Direction {
    /// Whether `value` is at least as good as `target`.
    fn reaches(self, value: f64, target: f64) -> bool {
        match self {
            Self::Lower => value <= target,
            Self::Higher => value >= target,
        }
    }
}

/// Formats a p value with three decimals, or as `<0.001`.
pub fn p_value(p: f64) -> String {
    if p < 0.001 {
        "<0.001".into()
    } else {
        format!("{p:.3}")
    }
}
