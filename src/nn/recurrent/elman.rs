//! Elman's simple recurrent network: h' = tanh(W x + b + U h + c) (Elman 1990, Finding structure in time).

use super::{Cell, Gates, Kind, RecurrentLayer};
use crate::nn::init::Init;
use burn::module::Module;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "elman",
    summary: "simple recurrent network: one tanh of the input and the previous state",
    source: "Elman 1990",
    example: "{ kind = \"elman\", bias = true }",
};

/// Settings of an Elman layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ElmanConfig {
    /// Whether both maps have biases.
    pub bias: bool,
}

impl Default for ElmanConfig {
    fn default() -> Self {
        Self { bias: true }
    }
}

/// The layer h' = tanh(W x + b + U h + c).
#[derive(Module, Debug)]
pub struct Elman {
    /// The maps of its single gate.
    pub gates: Gates,
}

impl Elman {
    /// Builds the layer from inputs of width `d_in` to states of width `d`.
    pub fn new(config: &ElmanConfig, d_in: usize, d: usize, init: &Init) -> Self {
        Self {
            gates: Gates::new([d_in, d], Cell::Elman, config.bias, init),
        }
    }
}

impl RecurrentLayer for Elman {
    fn cell(&self) -> Cell {
        Cell::Elman
    }

    fn gates(&self) -> &Gates {
        &self.gates
    }
}
