//! Wilcoxon's signed-rank test: a paired test that needs no normal distribution (Wilcoxon, "Individual comparisons
//! by ranking methods", Biometrics Bulletin 1(6), 1945).
//!
//! Differences of 0 are left out. The others are ranked by size, ties get their mean rank, and W+ and W- are the
//! rank sums of the positive and of the negative ones. When either arm is as likely to be ahead, every pattern of
//! signs has probability 2^-n. The method is chosen as by scipy 1.17's `wilcoxon(method="auto")`:
//!
//! - up to 50 differences without ties or zeros, and up to 13 with them: the exact distribution of W+ over the 2^n
//!   patterns, given the ranks as they are;
//! - else z = (W+ - n(n+1)/4) / σ with σ² = n(n+1)(2n+1)/24 - Σ(t³ - t)/48 over groups of t ties, moved towards 0
//!   by the continuity correction 1/(2σ) (Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 3rd
//!   ed. 2014, section 3.1); scipy's `correction=True`.
//!
//! The smallest exact p value of n pairs is 2^(1-n): with 5 pairs 0.0625, so that 6 are needed to reach 0.05.

use serde::Serialize;

use super::distribution::normal_cdf;
use super::summary::finite;

/// Differences without ties or zeros that are tested exactly, at most: scipy's bound.
const EXACT: usize = 50;
/// Differences with ties or zeros that are tested exactly, at most: scipy's bound.
const EXACT_WITH_TIES: usize = 13;

/// The signed-rank test of differences.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wilcoxon {
    /// Differences that are not 0.
    pub n: usize,
    /// The smaller of the two rank sums.
    pub statistic: f64,
    /// Two-sided p value; 1 when every difference is 0.
    pub p: f64,
    /// Whether p is exact or the normal approximation.
    pub exact: bool,
}

/// The signed-rank test of the finite differences; none when there are none.
pub fn signed_rank(differences: &[f64]) -> Option<Wilcoxon> {
    let mut values = finite(differences.iter().copied());
    let given = values.len();
    values.retain(|&d| d != 0.0);
    values.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let (ranks, ties) = doubled_ranks(&values);
    let all: usize = ranks.iter().sum();
    let signed = values.iter().zip(&ranks);
    let plus: usize = signed.filter(|(d, _)| **d > 0.0).map(|(_, r)| r).sum();
    let n = values.len();
    let plain = ties == 0.0 && n == given;
    let exact = n == 0 || given <= if plain { EXACT } else { EXACT_WITH_TIES };
    let p = if exact {
        exact_p(&ranks, plus)
    } else {
        normal_p(n as f64, plus as f64 / 2.0, ties)
    };
    (given > 0).then_some(Wilcoxon {
        n,
        statistic: plus.min(all - plus) as f64 / 2.0,
        p,
        exact,
    })
}

/// Twice the mean rank of each value, which is whole, and Σ(t³ - t) over the groups of ties. Values are sorted by
/// size.
fn doubled_ranks(values: &[f64]) -> (Vec<usize>, f64) {
    let (mut ranks, mut ties) = (Vec::with_capacity(values.len()), 0.0);
    for group in values.chunk_by(|a, b| a.abs() == b.abs()) {
        let (before, t) = (ranks.len(), group.len());
        ranks.resize(before + t, 2 * before + t + 1);
        ties += (t as f64).powi(3) - t as f64;
    }
    (ranks, ties)
}

/// 2 · min(P(W+ ≤ w), P(W+ ≥ w)) over all patterns of signs. Up to 52 ranks every probability is a float exactly.
fn exact_p(ranks: &[usize], plus: usize) -> f64 {
    let mut chance = vec![0.0; ranks.iter().sum::<usize>() + 1];
    chance[0] = 1.0;
    for &rank in ranks {
        for sum in (0..chance.len()).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |rest| chance[rest]);
            chance[sum] = 0.5 * (chance[sum] + with);
        }
    }
    let below: f64 = chance[..=plus].iter().sum();
    let above: f64 = chance[plus..].iter().sum();
    (2.0 * below.min(above)).min(1.0)
}

/// The normal approximation with corrections for ties and continuity.
fn normal_p(n: f64, plus: f64, ties: f64) -> f64 {
    let sigma = ((n * (n + 1.0) * (2.0 * n + 1.0) - ties / 2.0) / 24.0).sqrt();
    let off = (plus - n * (n + 1.0) / 4.0).abs();
    (2.0 * normal_cdf(-(off - 0.5).max(0.0) / sigma)).min(1.0)
}
