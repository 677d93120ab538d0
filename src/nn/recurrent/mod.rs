//! Recurrent cells: a state that is carried from one position to the next.
//!
//! The state of a cell is a value that the caller owns: h `[batch, d]`, and for an LSTM also c of the same shape. Parameters are
//! those of torch, with both of its biases, so that weights of `nn.RNN`, `nn.GRU` and `nn.LSTM` can be used unchanged.
//!
//! Cells form recurrent networks of their own. In the blocks of a transformer they are one kind of [`mixer`]. The other kinds are
//! [`mamba`], [`mamba2`], [`gated_delta`], [`retention`], [`rwkv`] and [`rwkv7`], which also read from left to right, and
//! [`fourier`], which reads both ways and keeps no state.

pub mod additive;
pub mod elman;
pub mod fourier;
pub mod gated_delta;
pub mod gru;
pub mod lstm;
pub mod mamba;
pub mod mamba2;
pub mod mixer;
pub mod retention;
pub mod rwkv;
pub mod rwkv7;
pub mod stateful;

use super::Kind;
use super::init::{Init, MatrixRole};
use super::layer::{Layer, LayerContext};
use super::state::{LayerState, StateUse, run_recurrent};
use crate::faults::TableFaults;
use crate::kernel;
use crate::nn::role::{BIAS, Declaration, Place, Roles, WEIGHT};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use additive::AdditiveAttention;
pub use elman::{Elman, ElmanConfig};
pub use gru::{Gru, GruConfig};
pub use kernel::{Cell, Sequences};
pub use lstm::{Lstm, LstmConfig};
pub use mixer::{Mixer, MixerConfig};

/// The kinds of `cell`.
pub const KINDS: &[Kind] = &[elman::KIND, gru::KIND, lstm::KIND];

/// The cell of a recurrent layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RecurrentConfig {
    /// Elman's simple recurrent network: h' = tanh(W x + U h + b).
    Elman(ElmanConfig),
    /// Gated recurrent unit.
    Gru(GruConfig),
    /// Long short-term memory.
    Lstm(LstmConfig),
}

impl Default for RecurrentConfig {
    fn default() -> Self {
        Self::Lstm(LstmConfig::default())
    }
}

impl RecurrentConfig {
    /// Builds the layer from inputs of width `d_in` to states of width `d`.
    pub fn init(&self, d_in: usize, d: usize, init: &Init) -> Recurrent {
        match self {
            Self::Elman(c) => Recurrent::Elman(Elman::new(c, d_in, d, init)),
            Self::Gru(c) => Recurrent::Gru(Gru::new(c, d_in, d, init)),
            Self::Lstm(c) => Recurrent::Lstm(Lstm::new(c, d_in, d, init)),
        }
    }

    /// Returns the value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Elman(_) => elman::KIND.kind,
            Self::Gru(_) => gru::KIND.kind,
            Self::Lstm(_) => lstm::KIND.kind,
        }
    }

    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        match self {
            Self::Elman(_) | Self::Gru(_) => {}
            Self::Lstm(c) => c.faults(at),
        }
    }

    /// Returns how many values per position are kept for the backward pass, with states of width `d`: gates, outputs, and values
    /// inside the cell.
    pub fn activations(&self, d: usize) -> u128 {
        let cell = self.cell();
        let inner = usize::from(cell != Cell::Elman);
        (cell.gates() + 1 + inner) as u128 * d as u128
    }

    /// Returns the multiplications per position of a forward pass, from inputs of width `d_in` to states of width `d`.
    pub fn products(&self, d_in: usize, d: usize) -> u128 {
        let gates = self.cell().gates() as u128;
        gates * d as u128 * (d_in as u128 + d as u128)
    }

    /// Returns the kernel's cell.
    pub fn cell(&self) -> Cell {
        match self {
            Self::Elman(_) => Cell::Elman,
            Self::Gru(_) => Cell::Gru,
            Self::Lstm(_) => Cell::Lstm,
        }
    }
}

/// A recurrent layer with its parameters.
#[derive(Module, Debug)]
pub enum Recurrent {
    /// Elman's simple recurrent network: h' = tanh(W x + U h + b).
    Elman(Elman),
    /// Gated recurrent unit.
    Gru(Gru),
    /// Long short-term memory.
    Lstm(Lstm),
}

impl Recurrent {
    /// Returns the variant's layer.
    pub fn layer(&self) -> &dyn RecurrentLayer {
        match self {
            Self::Elman(layer) => layer,
            Self::Gru(layer) => layer,
            Self::Lstm(layer) => layer,
        }
    }

    /// Runs [`RecurrentLayer::forward`] from the stored state, if there is one, and stores the state after the last position.
    pub fn advance(
        &self,
        x: Tensor<3>,
        state: Option<&mut LayerState>,
        sequences: &Sequences,
    ) -> Tensor<3> {
        run_recurrent(state, |before, last| {
            let (y, after) = self.layer().run(x, before.as_deref(), sequences, last);
            (y, last.then_some(after))
        })
    }
}

/// A cell as the mixer of a block: each position sees itself and earlier ones.
impl Layer for Recurrent {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        let sequences = Sequences::from_visibility(cx.visible, cx.span);
        self.advance(x, cx.state.as_deref_mut(), &sequences)
    }

    fn reach(&self) -> Option<usize> {
        Some(0)
    }

    fn empty_state(&self, _: StateUse) -> LayerState {
        LayerState::Recurrent(Vec::new())
    }
}

/// A recurrent layer: its parameters, and the recurrence over them.
pub trait RecurrentLayer {
    /// Returns the cell of the layer.
    fn cell(&self) -> Cell;

    /// Returns the parameters of the layer.
    fn gates(&self) -> &Gates;

    /// Computes the states h of all positions of `x` `[batch, seq, d_in]` as `[batch, seq, d]`, starting from `state`, or from
    /// zero.
    fn forward(
        &self,
        x: Tensor<3>,
        state: Option<&[Tensor<2>]>,
        sequences: &Sequences,
    ) -> Tensor<3> {
        self.run(x, state, sequences, false).0
    }

    /// Like [`Self::forward`], and returns the state after the last position, through which gradients flow.
    fn forward_with_state(
        &self,
        x: Tensor<3>,
        state: Option<&[Tensor<2>]>,
        sequences: &Sequences,
    ) -> (Tensor<3>, Vec<Tensor<2>>) {
        self.run(x, state, sequences, true)
    }

    /// Runs the recurrence; returns the state after the last position if `last` is set.
    fn run(
        &self,
        x: Tensor<3>,
        state: Option<&[Tensor<2>]>,
        sequences: &Sequences,
        last: bool,
    ) -> (Tensor<3>, Vec<Tensor<2>>) {
        let ([batch, _, _], device) = (x.dims(), x.device());
        let (cell, gates) = (self.cell(), self.gates());
        let [_, d] = gates.hidden.dims();
        let state = match state {
            Some(state) => state.to_vec(),
            None => kernel::zero_state(cell, batch, d, &device),
        };
        let (bias, hidden_bias) = gates.biases(cell);
        let recurrence = kernel::Recurrence {
            inputs: kernel::linear(x, gates.input.val(), bias),
            weight: gates.hidden.val(),
            hidden_bias,
            state,
        };
        kernel::recurrent(recurrence, cell, sequences, last)
    }
}

/// Roles of the parameters of [`Gates`].
pub const ROLES: Roles = Roles::new(
    "Gates",
    &[
        ("input", WEIGHT),
        ("hidden", WEIGHT),
        ("input_bias", BIAS),
        ("hidden_bias", BIAS),
        ("input", RECURRENCE),
        ("hidden", RECURRENCE),
        ("input_bias", RECURRENCE),
        ("hidden_bias", RECURRENCE),
    ],
);
const RECURRENCE: Declaration = Declaration::Place(Place::Recurrence);

/// The two maps of a recurrent layer to its gates, from the input and from the previous state.
#[derive(Module, Debug)]
pub struct Gates {
    /// `[gates·d, d_in]`, torch's `weight_ih`.
    pub input: Param<Tensor<2>>,
    /// `[gates·d, d]`, torch's `weight_hh`.
    pub hidden: Param<Tensor<2>>,
    /// `[gates·d]`, torch's `bias_ih`.
    pub input_bias: Option<Param<Tensor<1>>>,
    /// `[gates·d]`, torch's `bias_hh`.
    pub hidden_bias: Option<Param<Tensor<1>>>,
}

impl Gates {
    fn new([d_in, d]: [usize; 2], cell: Cell, bias: bool, init: &Init) -> Self {
        let width = cell.gates() * d;
        let vector = || bias.then(|| init.vector(width, 0.0));
        Self {
            input: init.linear(d_in, width, MatrixRole::Inner),
            hidden: init.linear(d, width, MatrixRole::Inner),
            input_bias: vector(),
            hidden_bias: vector(),
        }
    }

    /// Returns the bias of the products with the inputs and, for a GRU, the part of the hidden bias that r multiplies.
    fn biases(&self, cell: Cell) -> (Option<Tensor<1>>, Option<Tensor<1>>) {
        let (Some(input), Some(hidden)) = (&self.input_bias, &self.hidden_bias) else {
            return (None, None);
        };
        let (input, hidden) = (input.val(), hidden.val());
        if cell != Cell::Gru {
            return (Some(input + hidden), None);
        }
        let [width] = hidden.dims();
        let d = width / cell.gates();
        let part =
            |x: &Tensor<1>, from: usize, to: usize| x.clone().narrow(0, from * d, (to - from) * d);
        let outer = part(&input, 0, 2) + part(&hidden, 0, 2);
        let outer = Tensor::cat(vec![outer, part(&input, 2, 3)], 0);
        (Some(outer), Some(part(&hidden, 2, 3)))
    }
}
