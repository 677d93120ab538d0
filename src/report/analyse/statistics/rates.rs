//! Rates of events, such as diverged runs: an interval for one rate, and a test between two.

use serde::Serialize;

use super::Interval;
use super::distribution::normal_quantile;

/// Tables whose probability is at most this factor above the observed one count as "as extreme", because equal
/// probabilities may differ by rounding. This is the bound of R's `fisher.test`.
const TIES: f64 = 1.0 + 1e-7;

/// A number of events out of a number of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// Number of runs with the event; values above `n` count as `n`.
    pub events: usize,
    /// Number of runs.
    pub n: usize,
}

impl Rate {
    /// Returns events over runs; `None` without runs.
    pub fn value(self) -> Option<f64> {
        (self.n > 0).then(|| self.capped() as f64 / self.n as f64)
    }

    /// Returns Wilson's score interval at `level`: with r = k/n and z the normal quantile,
    /// (r + z²/2n ± z √(r(1-r)/n + z²/4n²)) / (1 + z²/n). Unlike r ± z √(r(1-r)/n) it also holds for few runs and for 0
    /// of n (Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927).
    ///
    /// Returns `None` without runs or for a level outside (0, 1).
    pub fn wilson(self, level: f64) -> Option<Interval> {
        let rate = self.value()?;
        if !(level > 0.0 && level < 1.0) {
            return None;
        }
        let n = self.n as f64;
        let z = -normal_quantile(0.5 * (1.0 - level));
        let share = z * z / n;
        let middle = (rate + share / 2.0) / (1.0 + share);
        let reach = z * (rate * (1.0 - rate) / n + share / (4.0 * n)).sqrt() / (1.0 + share);
        let none = self.capped() == 0;
        let all = self.capped() == self.n;
        Some(Interval {
            low: if none { 0.0 } else { (middle - reach).max(0.0) },
            high: if all { 1.0 } else { (middle + reach).min(1.0) },
        })
    }

    fn capped(self) -> usize {
        self.events.min(self.n)
    }
}

/// The comparison of an arm's rate with the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateComparison {
    /// Rate of the arm minus rate of the baseline.
    pub difference: f64,
    /// Two-sided p value of Fisher's exact test.
    pub p: f64,
}

/// Compares two rates with Fisher's exact test; `None` if either has no runs.
pub fn compare_rates(baseline: Rate, arm: Rate) -> Option<RateComparison> {
    Some(RateComparison {
        difference: arm.value()? - baseline.value()?,
        p: fisher_exact(baseline, arm),
    })
}

/// Returns the p value of Fisher's two-sided exact test. Given both sizes and the total number of events, the number of
/// events in the first group is hypergeometric if the rates are equal, and p is the probability of all numbers at most as
/// likely as the observed one (Fisher, "The logic of inductive inference", Journal of the Royal Statistical Society 98, 1935).
/// The result is 1 if a group is empty, if there are no events, and if every run has the event.
pub fn fisher_exact(first: Rate, second: Rate) -> f64 {
    let (n1, n2) = (first.n as f64, second.n as f64);
    let (seen, events) = (
        first.capped(),
        first.capped().saturating_add(second.capped()),
    );
    let low = events.saturating_sub(second.n);
    let high = events.min(first.n);
    // Ratio of C(n1, k) C(n2, events - k) to the same product at k - 1.
    let step = |k: usize| {
        let (k, rest) = (k as f64, (events - k) as f64);
        (n1 - k + 1.0) * (rest + 1.0) / (k * (n2 - rest))
    };
    // Probabilities relative to the mode's, so that none overflows.
    let mode = ((events as f64 + 1.0) * (n1 + 1.0) / (n1 + n2 + 2.0)) as usize;
    let mode = mode.clamp(low, high);
    let mut chances = vec![1.0; high - low + 1];
    for k in mode + 1..=high {
        chances[k - low] = chances[k - 1 - low] * step(k);
    }
    for k in (low..mode).rev() {
        chances[k - low] = chances[k + 1 - low] / step(k + 1);
    }
    let bound = chances[seen - low] * TIES;
    let extreme: f64 = chances.iter().filter(|&&c| c <= bound).sum();
    (extreme / chances.iter().sum::<f64>()).min(1.0)
}
