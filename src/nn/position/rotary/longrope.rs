//! LongRoPE: a separate factor for each wavelength, and other factors in long texts (Ding et al. 2024, arXiv:2402.13753,
//! sections 3.2 and 3.3).
//!
//! The factors are found by a search, which is not part of this program; released models bring theirs. A pass over positions up
//! to `end` uses `long_factor` for all of them if `end` exceeds `original_context`, otherwise `short_factor`, as transformers
//! does. Positions that a cache or a memory holds before the pass count, and so does padding: the rows of a step, in all of its
//! micro-batches and processes, have one width and hence one list. Generation reads a text again when it outgrows
//! `original_context`, since the keys in its cache were rotated by the other list. Beam searches for translations and captions,
//! and models that read texts of unlimited length, keep such keys as they are. The first tokens of a text, which the paper leaves
//! unstretched, are stretched like all others, as in released models (Abdin et al. 2024, Phi-3).

use super::scaling::base_frequencies;
use crate::faults::{MAX_POSITIONS, TableFaults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// LongRoPE (Ding et al. 2024, section 3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongropeScalingConfig {
    /// Factors on the wavelengths in a pass that ends within `original_context`, one for each pair of rotated elements of a head.
    /// Source: Ding et al. 2024, section 3.3.
    pub short_factor: Vec<f64>,
    /// Factors on the wavelengths in a pass that ends beyond `original_context`, for all of its positions; padding counts.
    /// Source: Ding et al. 2024, section 3.2.
    pub long_factor: Vec<f64>,
    /// Context length of pre-training.
    pub original_context: usize,
    /// New length over trained length, which determines the factor on rotated queries and keys:
    /// √(1 + ln(factor)/ln(original_context)). Source: Abdin et al. 2024, Phi-3, released code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// Factor on rotated queries and keys, in short and long texts, given in place of `factor`.
    /// Source: Abdin et al. 2024, Phi-3, released code.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub magnitude: Option<f64>,
}

/// The rotation in long passes.
#[derive(Clone, Debug)]
pub(super) struct LongRotation {
    /// Number of positions of the longest pass that still uses the short rotation.
    pub(super) beyond: usize,
    /// θ_i for each pair of rotated elements.
    pub(super) frequencies: Vec<f64>,
}

impl LongropeScalingConfig {
    /// Returns both lists with the names of their settings.
    fn lists(&self) -> [(&'static str, &[f64]); 2] {
        [
            ("short_factor", self.short_factor.as_slice()),
            ("long_factor", self.long_factor.as_slice()),
        ]
    }

    /// Reports invalid settings.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        for (key, factors) in self.lists() {
            let mut numbered = factors.iter().zip(1..);
            if let Some((factor, number)) = numbered.find(|(f, _)| !(**f > 0.0 && f.is_finite())) {
                let rule = format!("number {number} of {key} is {factor:?}; it must be above 0");
                at.fault(&[key], rule);
            }
        }
        let counted = at.count("original_context", self.original_context, MAX_POSITIONS);
        match (self.factor, self.magnitude) {
            (Some(factor), None) if !(factor >= 1.0 && factor.is_finite()) => {
                let rule = format!("factor = {factor:?} must be 1 or more");
                at.fault(&["factor"], rule);
            }
            (Some(_), None) if counted && self.original_context == 1 => at.fault(
                &["original_context", "factor"],
                "original_context = 1 has the logarithm 0, by which the logarithm of factor is divided; make it 2 or more, or set \
                 magnitude instead of factor",
            ),
            (Some(_), None) => {}
            (None, Some(magnitude)) => at.positive("magnitude", magnitude),
            (Some(_), Some(_)) => at.fault(
                &["factor", "magnitude"],
                "factor has no effect with magnitude, which replaces it; remove one of them",
            ),
            (None, None) => at.fault(
                &["kind"],
                "kind = \"longrope\" needs factor, the ratio of the new length to the trained one, or magnitude instead",
            ),
        }
    }

    /// Reports each list whose length is not the number of rotated pairs.
    pub(super) fn pair_faults(&self, pairs: usize, at: &mut TableFaults) {
        for (key, factors) in self.lists() {
            if factors.len() != pairs {
                let rule = format!(
                    "{key} has {} numbers, but {pairs} pairs of a head's elements are rotated; give one number for each pair",
                    factors.len()
                );
                at.fault(&[key], rule);
            }
        }
    }

    /// Returns θ_i of short passes, and the factor on cosines and sines of all passes.
    pub(super) fn frequencies(&self, theta: f64, rotated: usize) -> (Vec<f64>, f64) {
        let usual = || {
            let factor = self.factor.unwrap_or(1.0).max(1.0);
            (1.0 + factor.ln() / (self.original_context as f64).ln()).sqrt()
        };
        let magnitude = self.magnitude.unwrap_or_else(usual);
        (
            scaled_frequencies(theta, rotated, &self.short_factor),
            magnitude,
        )
    }

    /// Returns the rotation in long passes.
    pub(super) fn long(&self, theta: f64, rotated: usize) -> LongRotation {
        LongRotation {
            beyond: self.original_context,
            frequencies: scaled_frequencies(theta, rotated, &self.long_factor),
        }
    }
}

/// Returns θ_i with each wavelength multiplied by its factor.
fn scaled_frequencies(theta: f64, rotated: usize, factors: &[f64]) -> Vec<f64> {
    let each = base_frequencies(theta, rotated).zip(factors);
    each.map(|(frequency, factor)| frequency / factor).collect()
}
