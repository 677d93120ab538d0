//! Length penalties, which make hypotheses of different lengths comparable: the sum of log-probabilities is divided by
//! a function of the length.
//!
//! Every further token makes a sum smaller, so that plain sums prefer short texts. The length includes the end mark,
//! since it is scored too.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The divisor of the log-probability of a text of `len` tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LengthPenalty {
    /// `((5 + len) / 6)^alpha`: Wu et al., arXiv:1609.08144, section 7, without their coverage term.
    Gnmt(GnmtConfig),
    /// `len^alpha`: with alpha = 1 the mean over tokens (`lenpen` of fairseq, Ott et al. 2019).
    Average(AverageConfig),
    /// 1: plain sums.
    None(NoPenaltyConfig),
}

/// `kind = "gnmt"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GnmtConfig {
    /// Exponent of the penalty: 0 compares sums; larger values favour longer texts. 0.6 in Vaswani et al.,
    /// arXiv:1706.03762, section 6.1. Source: Wu et al. 2016, section 7.
    pub alpha: f64,
}

impl Default for GnmtConfig {
    fn default() -> Self {
        Self { alpha: 0.6 }
    }
}

/// `kind = "average"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AverageConfig {
    /// Exponent of the penalty: 0 compares sums, 1 means; larger values favour longer texts. Source: Ott et al. 2019 (fairseq).
    pub alpha: f64,
}

impl Default for AverageConfig {
    fn default() -> Self {
        Self { alpha: 1.0 }
    }
}

/// `kind = "none"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoPenaltyConfig {}

impl Default for LengthPenalty {
    fn default() -> Self {
        Self::Gnmt(GnmtConfig::default())
    }
}

impl LengthPenalty {
    /// Returns the divisor of a sum over `len` tokens, including the end mark; above 0.
    pub fn divisor(&self, len: usize) -> f64 {
        let len = len.max(1) as f64;
        match self {
            Self::Gnmt(c) => ((5.0 + len) / 6.0).powf(c.alpha),
            Self::Average(c) => len.powf(c.alpha),
            Self::None(_) => 1.0,
        }
    }

    /// Returns the largest divisor of any length in this range; the divisor is monotonic in the length.
    pub(super) fn largest(&self, shortest: usize, longest: usize) -> f64 {
        self.divisor(shortest)
            .max(self.divisor(longest.max(shortest)))
    }

    /// Returns the fault of its keys.
    pub(super) fn fault(&self) -> Option<String> {
        let alpha = match self {
            Self::Gnmt(c) => c.alpha,
            Self::Average(c) => c.alpha,
            Self::None(_) => 0.0,
        };
        // Powers of lengths stay finite.
        let allowed = (-10.0..=10.0).contains(&alpha);
        (!allowed).then(|| format!("length_penalty alpha = {alpha} must be between -10 and 10"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let gnmt = |alpha| LengthPenalty::Gnmt(GnmtConfig { alpha });
        let average = |alpha| LengthPenalty::Average(AverageConfig { alpha });
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(gnmt(1.0).divisor(1), 1.0);
        close(gnmt(1.0).divisor(13), 3.0);
        close(gnmt(2.0).divisor(7), 4.0);
        close(gnmt(0.6).divisor(7), 1.515_716_566_510_398);
        close(average(1.0).divisor(7), 7.0);
        close(average(0.5).divisor(16), 4.0);
        close(average(-1.0).largest(2, 10), 0.5);
        close(average(1.0).largest(2, 10), 10.0);
        close(LengthPenalty::None(NoPenaltyConfig {}).divisor(99), 1.0);
    }
}
