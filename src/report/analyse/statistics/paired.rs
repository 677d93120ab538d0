//! The paired t test, for differences from a baseline when both arms ran with the same seeds.
//!
//! Runs with the same seed share data order and masks, so their differences d_i vary less than the runs do. With
//! mean m and standard deviation s of n differences, t = m √n / s has n - 1 degrees of freedom when the
//! differences are normal with mean 0; the two-sided p value is P(|T| ≥ |t|), the interval m ± t* s / √n
//! ("Student", "The probable error of a mean", Biometrika 6, 1908). Nothing here corrects for several arms: see
//! [`super::holm`].
//!
//! Effect sizes: Cohen's d_z = m / s (Cohen, "Statistical Power Analysis for the Behavioral Sciences", 2nd ed.
//! 1988, section 2.3.5) expresses the mean difference in standard deviations of the differences. In small samples it is
//! too large on average. Hedges' g_z = J(n - 1) · d_z removes that bias exactly, with
//! J(v) = Γ(v/2) / (√(v/2) · Γ((v-1)/2)) (Hedges, "Distribution theory for Glass's estimator of effect size and
//! related estimators", Journal of Educational Statistics 6(2), 1981).

use serde::Serialize;
use statrs::function::gamma::ln_gamma;

use super::Interval;
use super::distribution::{critical_t, two_sided_t};
use super::summary::{Moments, finite, moments};

/// Result of the paired t test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Paired {
    /// Number of pairs, at least 2.
    pub pairs: usize,
    /// Mean difference.
    pub mean: f64,
    /// Standard deviation of the differences.
    pub sd: f64,
    /// Student's t; `None` if all differences are equal.
    pub t: Option<f64>,
    /// Degrees of freedom: pairs - 1.
    pub df: f64,
    /// Student's t interval of the mean difference.
    pub interval: Interval,
    /// Two-sided p value; `None` if all differences are equal, because there is then no chance variation to test against.
    pub p: Option<f64>,
    /// Cohen's d_z; `None` if all differences are equal.
    pub d_z: Option<f64>,
    /// Hedges' g_z; `None` if all differences are equal, and for 2 pairs, where no unbiased factor exists.
    pub g_z: Option<f64>,
}

/// Runs the paired t test on the finite differences, with an interval at `level` (such as 0.95).
///
/// Returns `None` for fewer than two finite differences, for a level outside (0, 1), and if a result overflows.
pub fn paired_t(differences: &[f64], level: f64) -> Option<Paired> {
    let moments = moments(&finite(differences.iter().copied()))?;
    let Moments {
        n,
        mean,
        sd: Some(sd),
    } = moments
    else {
        return None;
    };
    let df = (n - 1) as f64;
    let error = sd / (n as f64).sqrt();
    let interval = Interval::around(mean, critical_t(1.0 - level, df)? * error)?;
    let t = ratio(mean, error);
    let d_z = ratio(mean, sd);
    Some(Paired {
        pairs: n,
        mean,
        sd,
        t,
        df,
        interval,
        p: t.map(|t| two_sided_t(t, df)),
        d_z,
        g_z: d_z.and_then(|d| Some(d * small_sample_factor(df)?)),
    })
}

/// Returns Hedges' factor J(df) = Γ(df/2) / (√(df/2) · Γ((df-1)/2)), which makes a standardised mean difference unbiased;
/// `None` unless df > 1.
pub fn small_sample_factor(df: f64) -> Option<f64> {
    let sound = df > 1.0 && df.is_finite();
    sound.then(|| (ln_gamma(df / 2.0) - ln_gamma((df - 1.0) / 2.0)).exp() / (df / 2.0).sqrt())
}

/// Returns a / b; `None` if b is 0 or the ratio is not finite.
pub(super) fn ratio(a: f64, b: f64) -> Option<f64> {
    Some(a / b).filter(|r| b > 0.0 && r.is_finite())
}
