//! Next-token prediction: −log p(x_{t+1} | x_{≤t}), summed over scored positions.

use crate::nn::Kind;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "causal_lm",
    summary: "next-token prediction with a decoder",
    source: "Bengio et al. 2003; Radford et al. 2018",
    example: "{ kind = \"causal_lm\" }",
};

/// The knobs of next-token prediction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CausalLmConfig {
    /// Share of the probability that is spread over the whole vocabulary (Szegedy et al. 2016); reported
    /// validation losses are without it.
    pub label_smoothing: f64,
}
