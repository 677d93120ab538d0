//! Welch's t test: compares two arms whose seeds differ, without assuming equal variances.
//!
//! With e_i² = s_i² / n_i, t = (m_2 - m_1) / √(e_1² + e_2²) is compared to Student's t with
//! v = (e_1² + e_2²)² / (e_1⁴ / (n_1 - 1) + e_2⁴ / (n_2 - 1)) degrees of freedom (Welch, "The generalization of
//! 'Student's' problem when several different population variances are involved", Biometrika 34, 1947).
//!
//! Effect size: d = (m_2 - m_1) / √((s_1² + s_2²) / 2), Cohen's d with the average variance (Cohen 1988, section
//! 2.3.2), and Hedges' g = J(v') · d with J of [`super::paired::small_sample_factor`] and
//! v' = (n_1 - 1)(n_2 - 1)(s_1² + s_2²)² / ((n_2 - 1) s_1⁴ + (n_1 - 1) s_2⁴) (Delacre, Lakens, Ley, Liu and Leys,
//! "Why Hedges' g*s based on the non-pooled standard deviation should be reported with Welch's t-test", 2021). Below
//! v' = 2, which two values on each side give, J falls to 0 and g says nothing about d.

use serde::Serialize;

use super::Interval;
use super::distribution::{critical_t, two_sided_t};
use super::paired::{ratio, small_sample_factor};
use super::summary::{Moments, finite, moments};

/// Result of Welch's test of an arm against a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Independent {
    /// Number of values of the baseline, at least 2.
    pub n_baseline: usize,
    /// Number of values of the arm, at least 2.
    pub n_arm: usize,
    /// Mean of the arm minus mean of the baseline.
    pub difference: f64,
    /// Welch's t; `None` if neither side varies.
    pub t: Option<f64>,
    /// Welch's degrees of freedom; n_1 + n_2 - 2 if neither side varies.
    pub df: f64,
    /// Confidence interval of the difference.
    pub interval: Interval,
    /// Two-sided p value; `None` if neither side varies, because there is then no chance variation to test against.
    pub p: Option<f64>,
    /// Cohen's d with the average variance; `None` if neither side varies.
    pub d: Option<f64>,
    /// Hedges' g with the average variance; `None` if neither side varies or v' is below 2.
    pub g: Option<f64>,
}

/// Minimum degrees of freedom for the small-sample correction of an effect: those of three pairs.
const LEAST_DF: f64 = 2.0;

/// Runs Welch's t test on the finite values, with an interval at `level` (such as 0.95).
///
/// Returns `None` if a side has fewer than two finite values, for a level outside (0, 1), and if a result overflows.
pub fn welch_t(baseline: &[f64], arm: &[f64], level: f64) -> Option<Independent> {
    let (m1, s1, n1) = sample(baseline)?;
    let (m2, s2, n2) = sample(arm)?;
    let (df1, df2) = (n1 - 1.0, n2 - 1.0);
    let difference = m2 - m1;
    let (e1, e2) = (s1 / n1.sqrt(), s2 / n2.sqrt());
    let error = e1.hypot(e2);
    let df = satterthwaite((e1, df1), (e2, df2));
    let t = ratio(difference, error);
    let d = ratio(difference, s1.hypot(s2) / std::f64::consts::SQRT_2);
    let df_of_d = satterthwaite((s1, df1), (s2, df2));
    let factor = small_sample_factor(df_of_d).filter(|_| df_of_d >= LEAST_DF);
    Some(Independent {
        n_baseline: n1 as usize,
        n_arm: n2 as usize,
        difference,
        t,
        df,
        interval: Interval::around(difference, critical_t(1.0 - level, df)? * error)?,
        p: t.map(|t| two_sided_t(t, df)),
        d,
        g: d.and_then(|d| Some(d * factor?)),
    })
}

/// Returns mean, standard deviation and count of the finite values; `None` for fewer than two.
fn sample(values: &[f64]) -> Option<(f64, f64, f64)> {
    let Moments { n, mean, sd } = moments(&finite(values.iter().copied()))?;
    Some((mean, sd?, n as f64))
}

/// Returns the degrees of freedom of the sum of two squared deviations a² and b² with u and v degrees of freedom:
/// (a² + b²)² / (a⁴/u + b⁴/v) (Satterthwaite, "An approximate distribution of estimates of variance components", 1946);
/// u + v if both vanish. The result lies between min(u, v) and u + v.
fn satterthwaite((a, u): (f64, f64), (b, v): (f64, f64)) -> f64 {
    let larger = a.max(b);
    if larger == 0.0 {
        return u + v;
    }
    let (a, b) = ((a / larger).powi(2), (b / larger).powi(2));
    (a + b).powi(2) / (a * a / u + b * b / v)
}
