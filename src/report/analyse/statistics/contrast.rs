//! All arms of an ablation against its baseline: the test that the seeds allow, corrected for the number of arms,
//! and a verdict in plain English.
//!
//! 1. Values of the same seed are paired. With two common seeds or more the test is the paired t test
//!    ([`super::paired`]), without them Welch's when both sides have two values ([`super::independent`]), else there
//!    is a difference and no test.
//! 2. The p values of all tested arms are corrected together ([`super::holm`]). An arm whose differences are all equal
//!    (it is the baseline again, or lies as far from it for every seed) has no p value and is no test. Equal are also
//!    differences that the rounding of their values tells apart: 0.8 - 0.6 and 0.4 - 0.2.
//! 3. A corrected p of at most alpha is a verdict, by the sign of the difference. Above it the question is open, and
//!    the answer to "how many seeds would settle it" is the sample in which the seen effect, Hedges' g_z or g as it is
//!    shown, has power 0.8 at alpha / (number of tests): the strictest level that Holm's procedure may ask of this arm.
//!    It is therefore always more than there are. Two seeds, whose effect has no such estimate, have no answer. Failing
//!    to reject is never "the same".

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
/// More seeds than this are "more than 1000".
pub const MOST_SEEDS: usize = 1000;
/// Error of a difference that rounding may make, in parts of the larger value: half an epsilon each for the two values
/// (k correct of n), and as much again for sums over batches, means over runs and the difference itself.
const ROUNDING: f64 = 4.0 * f64::EPSILON;
/// Bootstrap resamples of more than ten differences, as many as scipy and R's `boot` users take.
const RESAMPLES: usize = 10_000;

/// The error rate and the direction of a finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criteria {
    /// The chance of any false verdict over all arms, in (0, 1); intervals are at 1 - alpha.
    pub alpha: f64,
    /// Which values of the metric are better.
    pub better: Direction,
}

/// The test that the seeds allow.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Student's paired t test, on the differences of common seeds.
    Paired(Paired),
    /// On all values of both sides.
    Unpaired(Independent),
    /// None: too few values.
    Untested,
}

/// An arm against the baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contrast {
    /// Seeds that both have, with finite values.
    pub pairs: usize,
    /// Arm minus baseline: the mean over common seeds, or the difference of means without a common seed; none when
    /// a side has no finite value.
    pub difference: Option<f64>,
    /// The test and its effect sizes.
    pub test: Test,
    /// Bootstrap intervals of the paired difference: no normal distribution is assumed, but with few seeds they are
    /// too short. Always from the same random numbers.
    pub bootstrap: Option<Bootstrap>,
    /// Its two-sided p value, uncorrected; none for an arm that is not tested.
    pub p: Option<f64>,
    /// The p value after Holm's correction over all tested arms.
    pub p_holm: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Contrast {
    /// The confidence interval of the difference, at 1 − alpha.
    pub fn interval(&self) -> Option<Interval> {
        match &self.test {
            Test::Paired(t) => Some(t.interval),
            Test::Unpaired(t) => Some(t.interval),
            Test::Untested => None,
        }
    }

    /// The difference alone, without a test.
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

    /// Whether seeds pair, so that the effect is in standard deviations of their differences.
    pub fn is_paired(&self) -> bool {
        matches!(self.test, Test::Paired(_))
    }

    /// The effect in standard deviations, corrected for small samples: g_z of pairs, g of arms without.
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
    /// Significantly worse.
    Worse,
    /// The difference may be chance.
    NotSettled {
        /// Seeds (per arm) that would settle it if the true effect were the seen one; none for more than
        /// [`MOST_SEEDS`].
        needed: Option<usize>,
    },
    /// The difference may be chance, and the seeds are too few to tell its effect.
    Open,
    /// There was nothing to test.
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
    /// Values beyond a float, or an alpha outside (0, 1).
    OutOfRange,
    /// Runs were trained for other numbers of steps than planned, and not for the same one.
    OtherSteps,
    /// Runs were made from other contents under one key: their data, initial weights or teacher.
    OtherContents,
    /// Values are of another measure: a loss in other units, over other tokens, or anything of other examples.
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
            Self::OutOfRange => "values beyond a float",
            Self::OtherSteps => "trained for different numbers of steps",
            Self::OtherContents => "data or weights differ",
            Self::OtherMeasure => "another measure or other examples",
        })
    }
}

/// Compares each arm, a list of (seed, value), with the baseline; one answer per arm, in their order.
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

/// One value per seed: the mean of its finite values.
fn by_seed<S: Ord>(runs: &[(S, f64)]) -> BTreeMap<&S, f64> {
    let mut seeds: BTreeMap<&S, Vec<f64>> = BTreeMap::new();
    for (seed, value) in runs.iter().filter(|(_, value)| value.is_finite()) {
        seeds.entry(seed).or_default().push(*value);
    }
    let mean = |(seed, values): (_, Vec<f64>)| Some((seed, moments(&values)?.mean));
    seeds.into_iter().filter_map(mean).collect()
}

/// The finite differences of common seeds. Those that rounding alone may tell apart are one value, 0 where it may be that:
/// a coarse metric has no spread in its last bit.
fn differences<S: Ord>(baseline: &BTreeMap<&S, f64>, arm: &BTreeMap<&S, f64>) -> Vec<f64> {
    let common = arm.iter().filter_map(|(seed, &ours)| {
        let &theirs = baseline.get(seed)?;
        let difference = ours - theirs;
        let error = ROUNDING * ours.abs().max(theirs.abs());
        difference.is_finite().then_some((difference, error))
    });
    let common: Vec<(f64, f64)> = common.collect();
    // The values that all differences may be.
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

/// The test of one arm, its verdict that of an arm without a p value.
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

/// The verdict of a tested arm with the corrected p value `p`, one of `tests`.
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
