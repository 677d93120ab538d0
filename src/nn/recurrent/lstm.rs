//! Long short-term memory (Hochreiter and Schmidhuber 1997; forget gate of Gers et al. 2000, no peepholes):
//! i, f, o = σ(W x + b + U h + d), g = tanh(W x + b + U h + d), c' = f⊙c + i⊙g, h' = o⊙tanh(c').

use super::{Cell, Gates, Kind, RecurrentLayer};
use crate::faults::TableFaults;
use crate::nn::init::Init;
use burn::module::Module;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "lstm",
    summary: "long short-term memory: input, forget and output gates around a memory cell",
    source: "Hochreiter and Schmidhuber 1997; Gers et al. 2000; torch's nn.LSTM",
    example: "{ kind = \"lstm\", bias = true, forget_bias = 1.0 }",
};

/// Settings of an LSTM layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LstmConfig {
    /// Whether both maps have biases.
    pub bias: bool,
    /// Initial value of the forget gate's bias: 1 keeps memories from the start.
    /// Source: Jozefowicz et al. 2015, section 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forget_bias: Option<f64>,
}

impl LstmConfig {
    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        match self.forget_bias {
            Some(value) if !self.bias => at.fault(
                &["forget_bias", "bias"],
                format!("forget_bias = {value:?} has no effect: bias is false; remove it"),
            ),
            Some(value) if !value.is_finite() => at.fault(
                &["forget_bias"],
                format!("forget_bias = {value:?} must be a finite number"),
            ),
            Some(_) | None => {}
        }
    }
}

/// The default of [`LstmConfig::forget_bias`].
const FORGET_BIAS: f64 = 1.0;

impl Default for LstmConfig {
    fn default() -> Self {
        Self {
            bias: true,
            forget_bias: None,
        }
    }
}

/// An LSTM; its gates are i, f, g, o.
#[derive(Module, Debug)]
pub struct Lstm {
    /// The maps of the gates.
    pub gates: Gates,
}

impl Lstm {
    /// Builds the layer from inputs of width `d_in` to states of width `d`.
    pub fn new(config: &LstmConfig, d_in: usize, d: usize, init: &Init) -> Self {
        let mut gates = Gates::new([d_in, d], Cell::Lstm, config.bias, init);
        let forget = config.forget_bias.unwrap_or(FORGET_BIAS) as f32;
        gates.input_bias = config.bias.then(|| {
            let value = move |i: usize| if i / d == 1 { forget } else { 0.0 };
            init.values(Cell::Lstm.gates() * d, value)
        });
        Self { gates }
    }
}

impl RecurrentLayer for Lstm {
    fn cell(&self) -> Cell {
        Cell::Lstm
    }

    fn gates(&self) -> &Gates {
        &self.gates
    }
}
