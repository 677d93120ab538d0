//! The gated recurrent unit (Cho et al. 2014, arXiv:1406.1078), with the reset gate after the product, as in cuDNN and torch: r,
//! z = σ(W x + b + U h + c), n = tanh(W x + b + r⊙(U h + c)), h' = (1 − z)⊙n + z⊙h.

use super::{Cell, Gates, Kind, RecurrentLayer};
use crate::nn::init::Init;
use burn::module::Module;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "gru",
    summary: "gated recurrent unit: a reset and an update gate",
    source: "Cho et al. 2014; torch's nn.GRU",
    example: "{ kind = \"gru\", bias = true }",
};

/// Settings of a GRU layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GruConfig {
    /// Whether both maps have biases.
    pub bias: bool,
}

impl Default for GruConfig {
    fn default() -> Self {
        Self { bias: true }
    }
}

/// A gated recurrent unit; its gates are r, z, n.
#[derive(Module, Debug)]
pub struct Gru {
    /// The maps of the gates.
    pub gates: Gates,
}

impl Gru {
    /// Builds the layer from inputs of width `d_in` to states of width `d`.
    pub fn new(config: &GruConfig, d_in: usize, d: usize, init: &Init) -> Self {
        Self {
            gates: Gates::new([d_in, d], Cell::Gru, config.bias, init),
        }
    }
}

impl RecurrentLayer for Gru {
    fn cell(&self) -> Cell {
        Cell::Gru
    }

    fn gates(&self) -> &Gates {
        &self.gates
    }
}
