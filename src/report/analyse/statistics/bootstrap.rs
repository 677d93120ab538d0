//! Bootstrap intervals of a mean difference. They assume no normal distribution (Efron and Tibshirani, "An
//! Introduction to the Bootstrap", 1993).
//!
//! A resample draws n of the n differences with replacement; the means of all resamples stand for the means that other
//! seeds would have given. The percentile interval takes their α and 1-α quantiles, α = (1 - level) / 2 (section 13.3).
//! BCa, "bias-corrected and accelerated", takes the quantiles
//! Φ(z0 + (z0 ± z) / (1 - a (z0 ± z))), z = Φ⁻¹(1-α), with the bias z0 = Φ⁻¹ of the share of resampled means below
//! the mean (ties count half) and the acceleration a = Σ d³ / (6 (Σ d²)^1.5) of the deviations d from the mean
//! (Efron, "Better bootstrap confidence intervals", JASA 82, 1987; section 14.3). Quantiles between resamples are
//! interpolated (Hyndman and Fan's type 7), as in scipy's `bootstrap`.
//!
//! For up to 10 differences nothing is drawn: all n^n resamples are taken, grouped into the C(2n-1, n) distinct ones,
//! each with its multinomial count (Fisher and Hall, "Bootstrap algorithms for small samples", Journal of
//! Statistical Planning and Inference 27, 1991). More differences are resampled with the caller's random numbers.
//!
//! With few values these intervals are too short: a resample is never wider than the data, and its deviation is
//! smaller by √((n-1)/n) on average. For 5 seeds the t interval is safer.

use serde::Serialize;

use super::Interval;
use super::distribution::{normal_cdf, normal_quantile};
use super::summary::{Moments, finite, moments};

/// Maximum number of differences for which all resamples are taken: 92,378 distinct ones of 10^10.
const MAX_EXACT: usize = 10;
/// Tolerance, relative to the largest deviation, within which a resampled mean counts as equal to the mean up to rounding.
const TIE: f64 = 1e-12;

/// Bootstrap intervals of a mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bootstrap {
    /// The mean of the differences.
    pub mean: f64,
    /// The percentile interval.
    pub percentile: Interval,
    /// The bias-corrected and accelerated interval.
    pub bca: Interval,
    /// Number of resamples drawn; `None` if all were taken.
    pub drawn: Option<usize>,
}

/// Computes bootstrap intervals at `level` of the mean of the finite differences.
///
/// `below(n)` gives a uniform number in 0..n, such as `|n| stream.below(n)`; a resample calls it n times. For up to 10
/// differences it is never called, because all resamples are enumerated. For more, `resamples` (at least 1; 10,000 is
/// common) are drawn. If all differences are equal, both intervals are that single value.
///
/// Returns `None` for fewer than two finite differences, for a level outside (0, 1), and if the mean or its deviations
/// overflow.
pub fn bootstrap(
    differences: &[f64],
    level: f64,
    resamples: usize,
    below: impl FnMut(u64) -> u64,
) -> Option<Bootstrap> {
    let values = finite(differences.iter().copied());
    let Moments { n, mean, sd } = moments(&values)?;
    if n < 2 || !(level > 0.0 && level < 1.0) {
        return None;
    }
    let deviations = centred(&values, mean)?;
    let drawn = (n > MAX_EXACT).then_some(resamples.max(1));
    if sd == Some(0.0) {
        let point = Interval::around(mean, 0.0)?;
        return Some(Bootstrap {
            mean,
            percentile: point,
            bca: point,
            drawn: None,
        });
    }
    let means = match drawn {
        Some(resamples) => Means::draw(&deviations, resamples, below),
        None => Means::all(&deviations),
    };
    let alpha = 0.5 * (1.0 - level);
    let at = |(low, high)| Interval::new(mean + means.quantile(low), mean + means.quantile(high));
    Some(Bootstrap {
        mean,
        percentile: at((alpha, 1.0 - alpha))?,
        bca: at(means.bca_levels(&deviations, alpha))?,
        drawn,
    })
}

/// Returns deviations from the mean that themselves average to 0 up to rounding, even for values far from zero, whose mean is
/// rounded coarsely.
fn centred(values: &[f64], mean: f64) -> Option<Vec<f64>> {
    let rough: Vec<f64> = values.iter().map(|v| v - mean).collect();
    let off = moments(&rough)?.mean;
    Some(rough.iter().map(|d| d - off).collect())
}

/// Resampled means minus the mean of the data, as (value, number of resamples with it), sorted by value.
struct Means(Vec<(f64, f64)>);

impl Means {
    fn sorted(mut means: Vec<(f64, f64)>) -> Self {
        means.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Self(means)
    }

    /// Draws resamples and returns their means.
    fn draw(deviations: &[f64], resamples: usize, mut below: impl FnMut(u64) -> u64) -> Self {
        let n = deviations.len();
        // Clamps the answer of a random source that leaves its range.
        let mut pick = || deviations[(below(n as u64) as usize).min(n - 1)] / n as f64;
        let mut mean = || (0..n).map(|_| pick()).sum::<f64>();
        Self::sorted((0..resamples).map(|_| (mean(), 1.0)).collect())
    }

    /// Returns the means of all n^n resamples.
    fn all(deviations: &[f64]) -> Self {
        let mut means = Vec::new();
        let n = deviations.len();
        let parts: Vec<f64> = deviations.iter().map(|d| d / n as f64).collect();
        choose(&parts, n, (0.0, 1.0), &mut means);
        Self::sorted(means)
    }

    /// Returns the levels of the BCa quantiles, or the percentile levels if the correction is not finite.
    fn bca_levels(&self, deviations: &[f64], alpha: f64) -> (f64, f64) {
        let widest = deviations.iter().fold(0.0, |w: f64, d| w.max(d.abs()));
        let power = |k: i32| deviations.iter().map(|d| (d / widest).powi(k)).sum::<f64>();
        let acceleration = power(3) / (6.0 * power(2).powf(1.5));
        let bias = normal_quantile(self.share_below(TIE * widest));
        let level = |z: f64| {
            let z = bias + z;
            normal_cdf(bias + z / (1.0 - acceleration * z))
        };
        let z = normal_quantile(alpha);
        let levels = (level(z), level(-z));
        if levels.0.is_finite() && levels.1.is_finite() {
            levels
        } else {
            (alpha, 1.0 - alpha)
        }
    }

    /// Returns the share of resampled means below the mean of the data; ties count half.
    fn share_below(&self, tie: f64) -> f64 {
        let weight = |&(mean, count): &(f64, f64)| {
            if mean.abs() <= tie {
                0.5 * count
            } else if mean < 0.0 {
                count
            } else {
                0.0
            }
        };
        self.0.iter().map(weight).sum::<f64>() / self.count()
    }

    fn count(&self) -> f64 {
        self.0.iter().map(|m| m.1).sum()
    }

    /// Returns the type-7 quantile: it interpolates between the sorted means ⌊h⌋ and ⌊h⌋ + 1, counted from 0, with
    /// h = level · (count - 1).
    fn quantile(&self, level: f64) -> f64 {
        let h = level * (self.count() - 1.0);
        let (mut passed, mut low) = (0.0, None);
        for &(mean, count) in &self.0 {
            passed += count;
            if low.is_none() && passed > h.floor() {
                low = Some(mean);
            }
            if let Some(low) = low.filter(|_| passed > h.ceil()) {
                return low + (mean - low) * h.fract();
            }
        }
        self.0.last().map_or(0.0, |m| m.0)
    }
}

/// Collects all ways to draw `left` times from `values`, each as its sum and the number of orders it comes in, continuing
/// from `(sum, orders)`.
fn choose(values: &[f64], left: usize, (sum, orders): (f64, f64), into: &mut Vec<(f64, f64)>) {
    let Some((&value, others)) = values.split_first() else {
        return;
    };
    if others.is_empty() {
        into.push((sum + left as f64 * value, orders));
        return;
    }
    // C(left, times), updated from one `times` to the next; the values are whole, so the divisions are exact.
    let mut ways = 1.0;
    for times in 0..=left {
        let so_far = (sum + times as f64 * value, orders * ways);
        choose(others, left - times, so_far, into);
        ways = ways * (left - times) as f64 / (times + 1) as f64;
    }
}
