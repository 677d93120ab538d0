//! What a few seeds can tell: mean and sample standard deviation, and Student's t interval on paired runs.
//!
//! Runs with the same seed share data order and masks, so their differences vary less than the runs do:
//! with d_i = b_i - a_i, the interval is mean(d) ± t(0.975, n-1) · sd(d) / √n and the two-sided p value is
//! 2 · P(T > |mean(d)| √n / sd(d)) (Student, "The probable error of a mean", 1908). Nothing here corrects
//! for testing several arms.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A sample in short.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Sample standard deviation (n - 1 in the denominator); none for a single value.
    pub sd: Option<f64>,
}

/// The mean of paired differences with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Paired {
    /// Number of pairs, at least 2.
    pub pairs: usize,
    /// Mean difference.
    pub mean: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Two-sided p value; none when every difference is exactly zero.
    pub p: Option<f64>,
}

/// Summarises the finite values; none when there are none, or their sum is beyond a float.
pub fn summarize(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
    let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    if !mean.is_finite() {
        return None;
    }
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let sd = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
    Some(Summary { n, mean, sd })
}

/// The paired t test of differences; none with fewer than two finite ones.
pub fn paired_t(differences: &[f64]) -> Option<Paired> {
    let Summary {
        n,
        mean,
        sd: Some(sd),
    } = summarize(differences.iter().copied())?
    else {
        return None;
    };
    if !mean.is_finite() || !sd.is_finite() {
        return None;
    }
    let standard_error = sd / (n as f64).sqrt();
    let student = StudentsT::new(0.0, 1.0, (n - 1) as f64).ok()?;
    let reach = student.inverse_cdf(0.975) * standard_error;
    let p = match (standard_error > 0.0, mean == 0.0) {
        (true, _) => Some((2.0 * student.cdf(-(mean / standard_error).abs())).min(1.0)),
        (false, true) => None,
        (false, false) => Some(0.0),
    };
    Some(Paired {
        pairs: n,
        mean,
        low: mean - reach,
        high: mean + reach,
        p,
    })
}
