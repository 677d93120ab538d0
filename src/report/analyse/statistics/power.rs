//! "How many seeds would settle this?": the power of the two-sided t test, and the smallest sample size that reaches it.
//!
//! Under an effect the t statistic is T = (Z + δ) / S with Z standard normal, v S² chi-square with v degrees of
//! freedom, and noncentrality δ: d_z √n for n pairs, d √(n/2) for two arms of n (Cohen 1988, chapter 2; Johnson,
//! Kotz and Balakrishnan, "Continuous Univariate Distributions", vol. 2, 2nd ed. 1995, chapter 31). So
//! power = P(|T| > t*) = E[Φ(δ - t* S) + Φ(-δ - t* S)].
//!
//! The expectation is a trapezoidal sum over y = ln S, which converges exponentially for analytic functions that
//! decay on both sides (Trefethen and Weideman, "The exponentially convergent trapezoidal rule", SIAM Review 56(3),
//! 2014); relative errors are below 1e-11, against integrals of 30 digits (tests). The usual series (Lenth,
//! algorithm AS 243, Applied Statistics 38, 1989) starts at exp(-δ²/2), which underflows to 0 from δ = 39; two or
//! three seeds with a clear effect exceed that.
//!
//! A caveat for every such number: the effect is the one OBSERVED, which is itself uncertain and, if picked because it
//! looked good, too large. Take the answer as an order of magnitude.

use super::distribution::{critical_t, normal_cdf, normal_quantile};

/// Maximum noncentrality; larger ones are clamped to it, because the sum's cost grows with δ and the power there is 1 in
/// practice.
const LARGEST_DELTA: f64 = 1000.0;

/// Returns the power of the paired t test with `pairs` pairs at level `alpha` if the true effect is `d_z`.
///
/// Returns `None` for fewer than two pairs, for an effect that is not finite and for an alpha outside (0, 1).
pub fn paired_power(d_z: f64, pairs: usize, alpha: f64) -> Option<f64> {
    let df = pairs.checked_sub(1)? as f64;
    power(d_z * (pairs as f64).sqrt(), df, alpha)
}

/// Returns the power of the t test between two arms of `n` independent runs each, if the true effect is `d`: difference of
/// means over the common standard deviation. `None` as for [`paired_power`].
pub fn independent_power(d: f64, n: usize, alpha: f64) -> Option<f64> {
    let df = 2.0 * n.checked_sub(1)? as f64;
    power(d * (n as f64 / 2.0).sqrt(), df, alpha)
}

/// Returns the smallest number of pairs, from 2 to `most`, whose paired t test has at least the power `target`. `None`
/// if `most` pairs have less power, or if an argument is invalid.
pub fn pairs_needed(d_z: f64, alpha: f64, target: f64, most: usize) -> Option<usize> {
    let guess = guess(d_z, alpha, target, 1.0)?;
    smallest(guess, most, |n| {
        Some(paired_power(d_z, n, alpha)? >= target)
    })
}

/// Returns the smallest number of runs per arm, from 2 to `most`, whose unpaired t test has at least the power `target`;
/// `None` as for [`pairs_needed`].
pub fn runs_needed(d: f64, alpha: f64, target: f64, most: usize) -> Option<usize> {
    let guess = guess(d, alpha, target, 2.0)?;
    smallest(guess, most, |n| {
        Some(independent_power(d, n, alpha)? >= target)
    })
}

/// Returns an approximate sample size to start the search from: k ((z_α/2 + z_β) / d)² + z_α/2² / 2k with normal quantiles
/// and k = `arms` (Guenther, "Sample size formulas for normal theory t tests", The American Statistician 35(4), 1981).
/// `None` unless alpha and target are in (0, 1).
fn guess(d: f64, alpha: f64, target: f64, arms: f64) -> Option<f64> {
    let inside = |p: f64| p > 0.0 && p < 1.0;
    let z = -normal_quantile(0.5 * alpha);
    let normal = (z + normal_quantile(target)) / d;
    (inside(alpha) && inside(target)).then_some(arms * normal * normal + z * z / (2.0 * arms))
}

/// Returns the smallest n from 2 to `most` that is enough, searched step by step from the guess; power rises with n.
fn smallest(guess: f64, most: usize, enough: impl Fn(usize) -> Option<bool>) -> Option<usize> {
    let mut n = (guess as usize).min(most).max(2);
    if n > most {
        return None;
    }
    if enough(n)? {
        while n > 2 && enough(n - 1)? {
            n -= 1;
        }
        return Some(n);
    }
    while n < most {
        n += 1;
        if enough(n)? {
            return Some(n);
        }
    }
    None
}

/// Returns P(|T| > t*) with noncentrality `delta`.
fn power(delta: f64, df: f64, alpha: f64) -> Option<f64> {
    let critical = critical_t(alpha, df)?;
    if !delta.is_finite() {
        return None;
    }
    let delta = delta.abs().min(LARGEST_DELTA);
    // The density of y is proportional to exp(v (y - (e^2y - 1) / 2)), below e^-36 of its peak outside these ends.
    let reach = 36.0 / df;
    let (low, high) = (-(reach + reach.sqrt()), reach.sqrt());
    // The step is half the narrowest feature: the density is about 1/√(2v) wide, the step of Φ about 1/δ. The error falls
    // as exp(-2π² · 2²) with that; the density's decay on the left requires 1/9.
    let steps = ((high - low) * 2.0 * delta.max((2.0 * df).sqrt()).max(4.5)).ceil();
    let (mut total, mut hit) = (0.0, 0.0);
    for i in 0..=steps as usize {
        let y = low + (high - low) * i as f64 / steps;
        let weight = (df * (y - 0.5 * (2.0 * y).exp_m1())).exp();
        let s = y.exp();
        total += weight;
        hit += weight * (normal_cdf(delta - critical * s) + normal_cdf(-delta - critical * s));
    }
    Some((hit / total).clamp(0.0, 1.0))
}
