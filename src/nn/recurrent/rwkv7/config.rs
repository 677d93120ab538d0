//! The settings of RWKV-7's time mixing, their faults and their costs.

use crate::faults::TableFaults;
use crate::kernel::generalized_delta::CHUNK;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum width of a head, and of the low ranks.
const MAX_WIDTH: usize = 1024;

/// Default width of a head.
const D_HEAD: usize = 64;

/// Settings of RWKV-7's time mixing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rwkv7Config {
    /// Width of a head, a divisor of d_model; 64, or d_model if that is less, when absent. Source: Peng et al. 2025, section 4.1.
    #[schemars(range(min = 1, max = MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_head: Option<usize>,
    /// Rank of the map for decays; 2.5·√d_model rounded to a multiple of 32, at least 32, when absent. Source: the authors' code.
    #[schemars(range(min = 1, max = MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay_rank: Option<usize>,
    /// Rank of the map for in-context learning rates, as for decays in the authors' code: 2.5·√d_model rounded to a multiple of
    /// 32, at least 32, when absent.
    #[schemars(range(min = 1, max = MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_rank: Option<usize>,
    /// Rank of the map for the share of the first layer's values; 1.7·√d_model rounded to a multiple of 32, at least 32, when
    /// absent. Source: the authors' code.
    #[schemars(range(min = 1, max = MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_rank: Option<usize>,
    /// Rank of the gate; 5·√d_model rounded to a multiple of 32, at least 32, when absent. Source: the authors' code.
    #[schemars(range(min = 1, max = MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate_rank: Option<usize>,
    /// Whether layers after the stack's first one mix its values into theirs. Source: Zhou et al. 2024, arXiv:2410.17897.
    pub value_residual: bool,
    /// Added to the variance in the norm over each head; the authors' code uses 1e-5 for each element of a head.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub norm_eps: f64,
}

impl Default for Rwkv7Config {
    fn default() -> Self {
        Self {
            d_head: None,
            decay_rank: None,
            rate_rank: None,
            value_rank: None,
            gate_rank: None,
            value_residual: true,
            norm_eps: 64e-5,
        }
    }
}

/// Returns the rank in the authors' code for a model of width `d_model`.
fn default_rank(factor: f64, d_model: usize) -> usize {
    let steps = (factor * (d_model as f64).sqrt() / 32.0).round_ties_even();
    32 * (steps as usize).max(1)
}

impl Rwkv7Config {
    /// Returns the width of a head in a model of width `d_model`.
    pub fn d_head(&self, d_model: usize) -> usize {
        self.d_head.unwrap_or(D_HEAD.min(d_model))
    }

    /// Returns the rank of decays in a model of width `d_model`.
    pub fn decay_rank(&self, d_model: usize) -> usize {
        self.decay_rank.unwrap_or(default_rank(2.5, d_model))
    }

    /// Returns the rank of learning rates in a model of width `d_model`.
    pub fn rate_rank(&self, d_model: usize) -> usize {
        self.rate_rank.unwrap_or(default_rank(2.5, d_model))
    }

    /// Returns the rank of the first layer's share in a model of width `d_model`.
    pub fn value_rank(&self, d_model: usize) -> usize {
        self.value_rank.unwrap_or(default_rank(1.7, d_model))
    }

    /// Returns the rank of the gate in a model of width `d_model`.
    pub fn gate_rank(&self, d_model: usize) -> usize {
        self.gate_rank.unwrap_or(default_rank(5.0, d_model))
    }

    /// Returns the sum of all low ranks of a layer other than the first.
    fn total_rank(&self, d_model: usize) -> u128 {
        let value = match self.value_residual {
            true => self.value_rank(d_model),
            false => 0,
        };
        let others = [
            self.decay_rank(d_model),
            self.rate_rank(d_model),
            self.gate_rank(d_model),
        ];
        value as u128 + others.map(|rank| rank as u128).iter().sum::<u128>()
    }

    /// Reports invalid settings; `d_model` is the model's width, if that is valid.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) {
        let counts = [
            ("decay_rank", self.decay_rank),
            ("rate_rank", self.rate_rank),
            ("value_rank", self.value_rank),
            ("gate_rank", self.gate_rank),
        ];
        for (key, value) in counts {
            at.count(key, value.unwrap_or(1), MAX_WIDTH);
        }
        let sound = at.count("d_head", self.d_head.unwrap_or(1), MAX_WIDTH);
        if let Some(d_model) = d_model.filter(|_| sound) {
            self.faults_of_heads(d_model, at);
        }
        if let Some(rank) = self.value_rank.filter(|_| !self.value_residual) {
            let rule =
                format!("value_rank = {rank} has no effect: value_residual is false; remove it");
            at.fault(&["value_rank", "value_residual"], rule);
        }
        at.positive("norm_eps", self.norm_eps);
    }

    fn faults_of_heads(&self, d_model: usize, at: &mut TableFaults) {
        let d_head = self.d_head(d_model);
        if d_model.is_multiple_of(d_head) {
            return;
        }
        let (remedy, keys) = match self.d_head {
            Some(_) => ("; change one", ["d_head", "model.d_model"]),
            None => (
                ", the default; change d_model, or set d_head",
                ["model.d_model", "d_head"],
            ),
        };
        let rule = format!("d_model = {d_model} is not a multiple of d_head = {d_head}{remedy}");
        at.fault(&keys, rule);
    }

    /// Returns how many values per position are kept for the backward pass, in a layer other than the first: mixes, receptances,
    /// keys before and after they are changed, values before and after the first layer's share, decays and rates with the values
    /// they are computed from, removed keys, results before and after norm, bonus and gate, low ranks, and the states before each
    /// chunk of positions.
    pub fn activations(&self, d_model: usize) -> u128 {
        let d = d_model as u128;
        let wide = if self.value_residual { 29 } else { 25 };
        let states = (d * self.d_head(d_model) as u128).div_ceil(CHUNK as u128);
        wide * d + self.total_rank(d_model) + self.gate_rank(d_model) as u128 + states
    }

    /// Returns the multiplications per position of a forward pass in matrix products, in a layer other than the first: maps, low
    /// ranks, and the reads of the states by the removed key and the receptance.
    pub fn products(&self, d_model: usize) -> u128 {
        let d = d_model as u128;
        let maps = 4 * d * d + 2 * d * self.total_rank(d_model);
        maps + 2 * d * self.d_head(d_model) as u128
    }

    /// Returns the widths of the layer's state vectors.
    pub fn state_widths(&self, d_model: usize) -> Vec<usize> {
        vec![self.d_head(d_model) * d_model, d_model]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formulas of the authors' code, which rounds halves to even numbers.
    #[test]
    fn ranks_follow_the_width() {
        let of = |d_model| {
            let c = Rwkv7Config::default();
            [
                c.decay_rank(d_model),
                c.rate_rank(d_model),
                c.value_rank(d_model),
                c.gate_rank(d_model),
            ]
        };
        assert_eq!(of(768), [64, 64, 32, 128]);
        assert_eq!(of(1024), [64, 64, 64, 160]);
        assert_eq!(of(2048), [128, 128, 64, 224]);
        assert_eq!(of(16), [32; 4]);
    }
}
