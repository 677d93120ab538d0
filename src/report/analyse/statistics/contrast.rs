//! Contrasts of all arms of an ablation with its baseline: the test that the seeds allow, corrected for the number of
//! arms, and a verdict in plain English.
//!
//! 1. Values of the same seed are paired. With two or more common seeds the test is the paired t test
//!    ([`super::paired`]). Otherwise it is Welch's if both sides have two values ([`super::independent`]), and else there
//!    is a difference without a test.
//! 2. The p values of all tested arms are corrected together ([`super::holm`]). An arm whose differences are all equal
//!    (it repeats the baseline, or lies equally far from it for every seed) has no p value and does not count as a test.
//!    Differences that only the rounding of their values separates count as equal: 0.8 - 0.6 and 0.4 - 0.2.
//! 3. A corrected p of at most alpha gives a verdict, by the sign of the difference. Above it the question is open, and
//!    the answer to "how many seeds would settle it" is the sample size at which the observed effect, the shown Hedges' g_z
//!    or g, has power 0.8 at alpha / (number of tests): the strictest level that Holm's procedure may require of this arm.
//!    It is therefore always more than the seeds at hand. For two seeds the effect has no such estimate, so there is no
//!    answer. Failing to reject never means "the same".

use std::collections::BTreeMap;
use std::fmt;

use rayon::prelude::*;
use serde::Serialize;

use super::bootstrap::{Bootstrap, bootstrap};
use super::holm::holm;
use super::independent::{Independent, welch_t};
use super::paired::{Paired, paired_t};
use super::power::{pairs_needed, runs_needed};
use super::summary::moments;
use super::{Direction, Interval};
use crate::rng::{Purpose, Stream};

/// The power at which a question counts as settled: the convention of Cohen 1988, section 2.4.
pub const POWER: f64 = 0.8;
/// Maximum number of seeds searched; more are reported as "more than 1000".
pub const MOST_SEEDS: usize = 1000;
/// Rounding error of a difference, relative to the larger value: half an epsilon each for the two values (k correct of n),
/// and the rest for sums over batches, means over runs and the difference itself.
const ROUNDING: f64 = 4.0 * f64::EPSILON;
/// Number of bootstrap resamples for more than ten differences, as is common with scipy and R's `boot`.
const RESAMPLES: usize = 10_000;

/// The error rate and direction by which verdicts are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criteria {
    /// Probability of any false verdict over all arms, in (0, 1); intervals are at level 1 - alpha.
    pub alpha: f64,
    /// Direction in which the metric improves.
    pub better: Direction,
}

/// The test that the seeds allow.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Student's paired t test on the differences of common seeds.
    Paired(Paired),
    /// Welch's t test on all values of both sides.
    Unpaired(Independent),
    /// No test: too few values.
    Untested,
}

/// The comparison of an arm with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contrast {
    /// Number of seeds for which both sides have finite values.
    pub pairs: usize,
    /// Arm minus baseline: the mean over common seeds, or the difference of means if there is no common seed. `None` if a
    /// side has no finite value.
    pub difference: Option<f64>,
    /// The test and its effect sizes.
    pub test: Test,
    /// Bootstrap intervals of the paired difference. They assume no normal distribution, but are too short for few seeds.
    /// The random numbers are always the same.
    pub bootstrap: Option<Bootstrap>,
    /// Two-sided p value, uncorrected; `None` for an arm that is not tested.
    pub p: Option<f64>,
    /// The p value after Holm's correction over all tested arms.
    pub p_holm: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Contrast {
    /// Returns the confidence interval of the difference, at level 1 − alpha.
    pub fn interval(&self) -> Option<Interval> {
        match &self.test {
            Test::Paired(t) => Some(t.interval),
            Test::Unpaired(t) => Some(t.interval),
            Test::Untested => None,
        }
    }

    /// Returns the contrast with its difference but without a test, for the given reason.
    #[must_use]
    pub fn untested(self, reason: Reason) -> Self {
        Self {
            test: Test::Untested,
            bootstrap: None,
            p: None,
            p_holm: None,
            verdict: Verdict::NotTested(reason),
            ..self
        }
    }

    /// Whether the test is paired, so that the effect is in standard deviations of the paired differences.
    pub fn is_paired(&self) -> bool {
        matches!(self.test, Test::Paired(_))
    }

    /// Returns the effect size in standard deviations, corrected for small samples: g_z for paired arms, else g.
    pub fn effect(&self) -> Option<f64> {
        match &self.test {
            Test::Paired(t) => t.g_z,
            Test::Unpaired(t) => t.g,
            Test::Untested => None,
        }
    }
}

/// The verdict on an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Significantly better than the baseline.
    Better,
    /// Significantly worse than the baseline.
    Worse,
    /// The difference may be chance.
    NotSettled {
        /// Number of seeds per arm that would settle the question if the true effect were the observed one; `None` for more
        /// than [`MOST_SEEDS`].
        needed: Option<usize>,
    },
    /// The difference may be chance, and there are too few seeds to estimate the effect.
    Open,
    /// The arm was not tested.
    NotTested(Reason),
}

/// Why an arm was not tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The baseline or the arm has no finite value.
    NoValues,
    /// Fewer than two common seeds, and fewer than two values on a side.
    TooFewSeeds,
    /// Every difference is 0: the setting has no effect on the metric.
    Identical,
    /// The difference is the same for every seed, so there is no chance to test against: a coarse metric, or one
    /// that does not depend on the seed.
    NoSpread,
    /// A result overflows, or alpha is outside (0, 1).
    OutOfRange,
    /// The runs were trained for different numbers of steps, other than planned.
    OtherSteps,
    /// The runs' inputs differ in content under the same key: data, initial weights or teacher.
    OtherContents,
    /// The values are of a different measure (a loss in other units or over other tokens) or on different examples.
    OtherMeasure,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Better => f.write_str("better"),
            Self::Worse => f.write_str("worse"),
            Self::NotSettled { needed: Some(n) } => {
                write!(f, "not settled; about {n} seeds would settle it")
            }
            Self::NotSettled { needed: None } => {
                write!(f, "not settled; more than {MOST_SEEDS} seeds needed")
            }
            Self::Open => f.write_str("not settled"),
            Self::NotTested(reason) => write!(f, "not tested: {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoValues => "no values",
            Self::TooFewSeeds => "fewer than two seeds",
            Self::Identical => "equal to the baseline for every seed",
            Self::NoSpread => "the same difference for every seed",
            Self::OutOfRange => "values outside the range of a float",
            Self::OtherSteps => "trained for different numbers of steps",
            Self::OtherContents => "data or weights differ",
            Self::OtherMeasure => "another measure or other examples",
        })
    }
}

/// Compares each arm, a list of (seed, value), with the baseline. Returns one contrast per arm, in their order.
///
/// Values that are not finite are left out; several values of one seed count by their mean.
pub fn compare_arms<S: Ord + Sync>(
    baseline: &[(S, f64)],
    arms: &[&[(S, f64)]],
    criteria: Criteria,
) -> Vec<Contrast> {
    let baseline = by_seed(baseline);
    let mut compared: Vec<Contrast> = arms
        .par_iter()
        .map(|arm| compare(&baseline, &by_seed(arm), 1.0 - criteria.alpha))
        .collect();
    let p_values: Vec<Option<f64>> = compared.iter().map(|c| c.p).collect();
    let tests = p_values.iter().flatten().count();
    for (comparison, p) in compared.iter_mut().zip(holm(&p_values)) {
        comparison.p_holm = p;
        if let Some(p) = p {
            comparison.verdict = verdict(comparison, p, tests, criteria);
        }
    }
    compared
}

/// Reduces the runs to one value per seed: the mean of its finite values.
fn by_seed<S: Ord>(runs: &[(S, f64)]) -> BTreeMap<&S, f64> {
    let mut seeds: BTreeMap<&S, Vec<f64>> = BTreeMap::new();
    for (seed, value) in runs.iter().filter(|(_, value)| value.is_finite()) {
        seeds.entry(seed).or_default().push(*value);
    }
    let mean = |(seed, values): (_, Vec<f64>)| Some((seed, moments(&values)?.mean));
    seeds.into_iter().filter_map(mean).collect()
}

/// Returns the finite differences of common seeds. If rounding alone may explain how they differ, all become one value, which
/// is 0 if that is possible: the last bits of a coarse metric are not spread.
fn differences<S: Ord>(baseline: &BTreeMap<&S, f64>, arm: &BTreeMap<&S, f64>) -> Vec<f64> {
    let common = arm.iter().filter_map(|(seed, &ours)| {
        let &theirs = baseline.get(seed)?;
        let difference = ours - theirs;
        let error = ROUNDING * ours.abs().max(theirs.abs());
        difference.is_finite().then_some((difference, error))
    });
    let common: Vec<(f64, f64)> = common.collect();
    // The range of values that every difference equals within rounding.
    let low = (common.iter().map(|(d, error)| d - error)).fold(f64::NEG_INFINITY, f64::max);
    let high = (common.iter().map(|(d, error)| d + error)).fold(f64::INFINITY, f64::min);
    let mut differences: Vec<f64> = common.into_iter().map(|(d, _)| d).collect();
    if low <= high {
        let least = differences.iter().copied().fold(f64::INFINITY, f64::min);
        let most = (differences.iter().copied()).fold(f64::NEG_INFINITY, f64::max);
        let one = match (low..=high).contains(&0.0) {
            true => 0.0,
            false => f64::midpoint(least, most),
        };
        differences.fill(one);
    }
    differences
}

/// Tests one arm. The verdict is the one for an arm without a p value; the caller sets the others after the correction.
fn compare<S: Ord>(baseline: &BTreeMap<&S, f64>, arm: &BTreeMap<&S, f64>, level: f64) -> Contrast {
    let differences = differences(baseline, arm);
    let [ours, theirs] = [arm, baseline].map(|side| side.values().copied().collect::<Vec<f64>>());
    let mean = |values: &[f64]| Some(moments(values)?.mean);
    let test = if differences.len() >= 2 {
        paired_t(&differences, level).map(Test::Paired)
    } else {
        welch_t(&theirs, &ours, level).map(Test::Unpaired)
    };
    let apart = || Some(mean(&ours)? - mean(&theirs)?);
    let (difference, p) = match &test {
        Some(Test::Paired(t)) => (Some(t.mean), t.p),
        Some(Test::Unpaired(t)) => (Some(t.difference), t.p),
        Some(Test::Untested) | None => (mean(&differences).or_else(apart), None),
    };
    let reason = if ours.is_empty() || theirs.is_empty() {
        Reason::NoValues
    } else if differences.len() < 2 && ours.len().min(theirs.len()) < 2 {
        Reason::TooFewSeeds
    } else if test.is_none() {
        Reason::OutOfRange
    } else if difference == Some(0.0) {
        Reason::Identical
    } else {
        Reason::NoSpread
    };
    let mut draws = Stream::new(0, Purpose::Resampling, (0, 0, 0));
    Contrast {
        bootstrap: bootstrap(&differences, level, RESAMPLES, |n| draws.below(n)),
        pairs: differences.len(),
        difference: difference.filter(|d| d.is_finite()),
        test: test.unwrap_or(Test::Untested),
        p,
        p_holm: None,
        verdict: Verdict::NotTested(reason),
    }
}

/// Returns the verdict on a tested arm with the corrected p value `p`, out of `tests` tested arms.
fn verdict(comparison: &Contrast, p: f64, tests: usize, criteria: Criteria) -> Verdict {
    let difference = comparison.difference.unwrap_or(0.0);
    let strictest = criteria.alpha / tests.max(1) as f64;
    let needed: fn(f64, f64, f64, usize) -> Option<usize> = match &comparison.test {
        Test::Paired(_) => pairs_needed,
        Test::Unpaired(_) => runs_needed,
        Test::Untested => return comparison.verdict,
    };
    if p > criteria.alpha {
        return comparison
            .effect()
            .map_or(Verdict::Open, |effect| Verdict::NotSettled {
                needed: needed(effect, strictest, POWER, MOST_SEEDS),
            });
    }
    if criteria.better.reaches(difference, 0.0) {
        Verdict::Better
    } else {
        Verdict::Worse
    }
}
