//! Tails and quantiles of the normal and of Student's t distribution, built on the special functions of `statrs`.
//!
//! Unlike the distributions of `statrs`, p values keep their relative precision near 1 and near 0, and no argument
//! panics. Relative errors of the two-sided tail against mpmath: 1e-14 up to 9 degrees of freedom, 2e-12 at 999, 1e-9
//! at 100,000.

use std::f64::consts::{PI, SQRT_2};

use statrs::function::beta::checked_beta_reg;
use statrs::function::erf::erfc_inv;
use statrs::function::gamma::{checked_gamma_ur, ln_gamma};

/// Returns P(|T| ≥ |t|) of Student's t with `df` > 0 degrees of freedom.
///
/// Computed as I_x(df/2, 1/2) with x = df / (df + t²), and as 1 - I_{1-x}(1/2, df/2) near t = 0, where x is 1 up to rounding
/// (Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964, 26.7.1 and 26.5.2).
pub(super) fn two_sided_t(t: f64, df: f64) -> f64 {
    let square = t * t;
    let tail = if square < 1.0 {
        checked_beta_reg(0.5, df / 2.0, square / (df + square)).map(|body| 1.0 - body)
    } else {
        checked_beta_reg(df / 2.0, 0.5, df / (df + square))
    };
    tail.unwrap_or(1.0).clamp(0.0, 1.0)
}

/// Returns the t with P(|T| ≥ t) = `alpha`; `None` unless 0 < alpha < 1 and df > 0.
///
/// Uses Newton's method from the normal distribution's value. The tail is convex and heavier than the normal's, so the
/// iterates rise to the root and stop there.
pub(super) fn critical_t(alpha: f64, df: f64) -> Option<f64> {
    if !(alpha > 0.0 && alpha < 1.0 && df > 0.0 && df.is_finite()) {
        return None;
    }
    let scale = (ln_gamma((df + 1.0) / 2.0) - ln_gamma(df / 2.0)).exp() / (df * PI).sqrt();
    let mut t = -normal_quantile(0.5 * alpha);
    loop {
        let density = scale * (1.0 + t * t / df).powf(-0.5 * (df + 1.0));
        let step = (two_sided_t(t, df) - alpha) / (2.0 * density);
        if !step.is_finite() {
            return None;
        }
        if step <= f64::EPSILON * t {
            return Some(t + step);
        }
        t += step;
    }
}

/// Returns P(Z ≤ z) of the standard normal: half of Q(1/2, z²/2) below 0 (Abramowitz and Stegun 1964, 6.5.17). The
/// `erfc` of statrs 0.19 has relative errors of 1e-10 at 0.5; this function's are 1e-14.
pub(super) fn normal_cdf(z: f64) -> f64 {
    let half_square = (0.5 * z * z).min(1e6);
    // `checked_gamma_ur` refuses only z = 0.
    let tail = 0.5 * checked_gamma_ur(0.5, half_square).unwrap_or(1.0);
    if z < 0.0 { tail } else { 1.0 - tail }
}

/// Returns the z with P(Z ≤ z) = p, for 0 < p < 1; infinite at the ends.
pub(super) fn normal_quantile(p: f64) -> f64 {
    -SQRT_2 * erfc_inv(2.0 * p)
}
