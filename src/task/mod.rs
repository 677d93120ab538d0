//! A model and a batch make a loss: burn-train's steps live here and only here.

pub mod causal_lm;

use crate::nn::Kind;
pub use causal_lm::CausalLmConfig;
use serde::{Deserialize, Serialize};

/// The kinds of `[task]`.
pub const KINDS: &[Kind] = &[causal_lm::KIND];

/// What an experiment trains for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskConfig {
    /// Next-token prediction.
    CausalLm(CausalLmConfig),
}
