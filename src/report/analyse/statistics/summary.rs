//! Summary of a sample: location, spread, and the t interval of its mean.
//!
//! With n values, mean m and sample standard deviation s (n - 1 in the denominator), the standard error of the
//! mean is s / √n and its interval at a level is m ± t · s / √n, where t is the two-sided critical value of
//! Student's t with n - 1 degrees of freedom ("Student", "The probable error of a mean", Biometrika 6, 1908). The
//! interval holds for normal values, and nearly so for others as n grows.

use serde::Serialize;

use super::Interval;
use super::distribution::critical_t;

/// Summary of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of finite values, at least 1.
    pub n: usize,
    /// Mean of the finite values.
    pub mean: f64,
    /// Sample standard deviation (n - 1 in the denominator); `None` for a single value.
    pub sd: Option<f64>,
    /// Median: the middle value, or the mean of the two middle ones.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Standard error of the mean, sd / √n; `None` for a single value.
    pub standard_error: Option<f64>,
    /// Student's t interval of the mean; `None` for a single value or a level outside (0, 1).
    pub interval: Option<Interval>,
}

/// Summarises the finite values at a confidence `level` such as 0.95.
///
/// Values that are not finite are left out and not counted. Returns `None` if no value is left, or if the mean or
/// deviation overflows.
pub fn summarize(values: impl IntoIterator<Item = f64>, level: f64) -> Option<Summary> {
    let mut values = finite(values);
    let Moments { n, mean, sd } = moments(&values)?;
    values.sort_unstable_by(f64::total_cmp);
    let standard_error = sd.map(|sd| sd / (n as f64).sqrt());
    let interval = standard_error.and_then(|error| {
        let t = critical_t(1.0 - level, (n - 1) as f64)?;
        Interval::around(mean, t * error)
    });
    Some(Summary {
        n,
        mean,
        sd,
        median: f64::midpoint(values[(n - 1) / 2], values[n / 2]),
        min: values[0],
        max: values[n - 1],
        standard_error,
        interval,
    })
}

/// Count, mean and standard deviation.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// Number of values, at least 1.
    pub n: usize,
    /// Mean of the values.
    pub mean: f64,
    /// Sample standard deviation; `None` for a single value, and exactly 0 if and only if all values are equal.
    pub sd: Option<f64>,
}

/// Returns the finite values.
pub(super) fn finite(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    values.into_iter().filter(|v| v.is_finite()).collect()
}

/// Computes mean and standard deviation of finite values in two passes, without overflow in the squares. Returns `None`
/// without values, or if a result overflows.
pub fn moments(values: &[f64]) -> Option<Moments> {
    let n = values.len();
    let first = *values.first()?;
    if values.iter().all(|&v| v == first) {
        let sd = (n > 1).then_some(0.0);
        return Some(Moments { n, mean: first, sd });
    }
    let count = n as f64;
    let sum: f64 = values.iter().sum();
    let rough = if sum.is_finite() {
        sum / count
    } else {
        values.iter().map(|v| v / count).sum()
    };
    let left: f64 = values.iter().map(|v| v - rough).sum();
    let mean = rough + if left.is_finite() { left / count } else { 0.0 };
    let widest = values.iter().fold(0.0, |w: f64, v| w.max((v - mean).abs()));
    let squares: f64 = values.iter().map(|v| ((v - mean) / widest).powi(2)).sum();
    let sd = widest * (squares / (count - 1.0)).sqrt();
    let sound = mean.is_finite() && sd.is_finite();
    sound.then_some(Moments {
        n,
        mean,
        sd: Some(sd),
    })
}
