//! Layers that can replace attention in a block: recurrent cells, selective state spaces, delta rules, retention, a decaying
//! average. Each position sees itself and earlier ones through a state of constant size. Only the Fourier mixer reads both ways,
//! without a state.

use super::fourier::{self, Fourier, FourierConfig};
use super::gated_delta::{self, GatedDelta, GatedDeltaConfig};
use super::mamba::{self, Mamba, MambaConfig};
use super::mamba2::{self, Mamba2, Mamba2Config};
use super::retention::{self, Retention, RetentionConfig};
use super::rwkv::{self, Rwkv, RwkvConfig};
use super::rwkv7::{self, Rwkv7, Rwkv7Config};
use super::{ElmanConfig, GruConfig, Kind, LstmConfig, Recurrent, RecurrentConfig};
use super::{elman, gru, lstm};
use crate::faults::TableFaults;
use crate::nn::init::Init;
use crate::nn::layer::{BlockShape, Layer};
use burn::module::Module;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of `mixer`.
pub const KINDS: &[Kind] = &[
    elman::KIND,
    gru::KIND,
    lstm::KIND,
    mamba::KIND,
    mamba2::KIND,
    gated_delta::KIND,
    retention::KIND,
    rwkv::KIND,
    rwkv7::KIND,
    fourier::KIND,
];

/// The layer that mixes the positions of a block in place of attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MixerConfig {
    /// Elman's simple recurrent network: h' = tanh(W x + U h + b).
    Elman(ElmanConfig),
    /// Gated recurrent unit.
    Gru(GruConfig),
    /// Long short-term memory.
    Lstm(LstmConfig),
    /// A selective state space (Mamba).
    Mamba(MambaConfig),
    /// A state space by heads (Mamba-2).
    Mamba2(Mamba2Config),
    /// A map of keys to values that is corrected at each position (gated delta rule).
    GatedDelta(GatedDeltaConfig),
    /// A map of keys to values that decays at a fixed rate.
    Retention(RetentionConfig),
    /// An average whose weights decay (RWKV-4).
    Rwkv(RwkvConfig),
    /// A map of keys to values that decays and is corrected by channels (RWKV-7).
    Rwkv7(Rwkv7Config),
    /// The discrete Fourier transform over positions and channels.
    Fourier(FourierConfig),
}

impl MixerConfig {
    /// Returns the recurrent cell, if the mixer is one.
    fn cell(&self) -> Option<RecurrentConfig> {
        match self {
            Self::Elman(c) => Some(RecurrentConfig::Elman(c.clone())),
            Self::Gru(c) => Some(RecurrentConfig::Gru(c.clone())),
            Self::Lstm(c) => Some(RecurrentConfig::Lstm(c.clone())),
            Self::Mamba(_)
            | Self::Mamba2(_)
            | Self::GatedDelta(_)
            | Self::Retention(_)
            | Self::Rwkv(_)
            | Self::Rwkv7(_)
            | Self::Fourier(_) => None,
        }
    }

    /// Builds the mixer for a block of this shape.
    pub fn init(&self, shape: &BlockShape, init: &Init) -> Mixer {
        let d = shape.d_model;
        match self {
            Self::Mamba(c) => Mixer::Mamba(Mamba::new(c, d, init)),
            Self::Mamba2(c) => Mixer::Mamba2(Mamba2::new(c, d, init)),
            Self::GatedDelta(c) => Mixer::GatedDelta(GatedDelta::new(c, d, init)),
            Self::Retention(c) => Mixer::Retention(Retention::new(c, d, init)),
            Self::Rwkv(c) => Mixer::Rwkv(Rwkv::new(c, shape, init)),
            Self::Rwkv7(c) => Mixer::Rwkv7(Rwkv7::new(c, shape, init)),
            Self::Fourier(FourierConfig {}) => Mixer::Fourier(Fourier {}),
            Self::Elman(_) | Self::Gru(_) | Self::Lstm(_) => {
                let cell = self.cell().unwrap_or_default();
                Mixer::Cell(cell.init(d, d, init))
            }
        }
    }

    /// Whether the first layer of this kind in a stack passes its values to later ones.
    pub fn has_value_residual(&self) -> bool {
        match self {
            Self::Rwkv7(c) => c.value_residual,
            Self::Elman(_)
            | Self::Gru(_)
            | Self::Lstm(_)
            | Self::Mamba(_)
            | Self::Mamba2(_)
            | Self::GatedDelta(_)
            | Self::Retention(_)
            | Self::Rwkv(_)
            | Self::Fourier(_) => false,
        }
    }

    /// Whether each position also reads later ones, so that the layer is only for encoders.
    pub fn is_bidirectional(&self) -> bool {
        matches!(self, Self::Fourier(_))
    }

    /// Whether the model's dropout acts on the layer's results.
    pub fn has_dropout(&self) -> bool {
        !matches!(self, Self::Fourier(_))
    }

    /// Returns how many values per position all layers of a pass keep in common, for a text of `tokens` positions.
    pub fn shared_activations(&self, tokens: usize) -> u128 {
        match self {
            Self::Fourier(c) => c.shared_activations(tokens),
            Self::Elman(_)
            | Self::Gru(_)
            | Self::Lstm(_)
            | Self::Mamba(_)
            | Self::Mamba2(_)
            | Self::GatedDelta(_)
            | Self::Retention(_)
            | Self::Rwkv(_)
            | Self::Rwkv7(_) => 0,
        }
    }

    /// Returns the value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Elman(_) => elman::KIND.kind,
            Self::Gru(_) => gru::KIND.kind,
            Self::Lstm(_) => lstm::KIND.kind,
            Self::Mamba(_) => mamba::KIND.kind,
            Self::Mamba2(_) => mamba2::KIND.kind,
            Self::GatedDelta(_) => gated_delta::KIND.kind,
            Self::Retention(_) => retention::KIND.kind,
            Self::Rwkv(_) => rwkv::KIND.kind,
            Self::Rwkv7(_) => rwkv7::KIND.kind,
            Self::Fourier(_) => fourier::KIND.kind,
        }
    }

    /// Reports invalid settings; `d_model` is the model's width, if that is valid.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) {
        match self {
            Self::Elman(_) | Self::Gru(_) | Self::Fourier(_) => {}
            Self::Lstm(c) => c.faults(at),
            Self::Mamba(c) => c.faults(d_model, at),
            Self::Mamba2(c) => c.faults(d_model, at),
            Self::GatedDelta(c) => c.faults(d_model, at),
            Self::Retention(c) => c.faults(d_model, at),
            Self::Rwkv(c) => c.faults(at),
            Self::Rwkv7(c) => c.faults(d_model, at),
        }
    }

    /// Returns how many values per position are kept for the backward pass, in a model of width `d_model`.
    pub fn activations(&self, d_model: usize) -> u128 {
        match self {
            Self::Mamba(c) => c.activations(d_model),
            Self::Mamba2(c) => c.activations(d_model),
            Self::GatedDelta(c) => c.activations(d_model),
            Self::Retention(c) => c.activations(d_model),
            Self::Rwkv(c) => c.activations(d_model),
            Self::Rwkv7(c) => c.activations(d_model),
            // A linear map of the input only.
            Self::Fourier(_) => 0,
            Self::Elman(_) | Self::Gru(_) | Self::Lstm(_) => {
                self.cell().map_or(0, |cell| cell.activations(d_model))
            }
        }
    }

    /// Returns the multiplications per position of a forward pass over a text of `tokens` positions, in a model of width
    /// `d_model`.
    pub fn products(&self, d_model: usize, tokens: usize) -> u128 {
        match self {
            Self::Mamba(c) => c.products(d_model),
            Self::Mamba2(c) => c.products(d_model),
            Self::GatedDelta(c) => c.products(d_model),
            Self::Retention(c) => c.products(d_model),
            Self::Rwkv(c) => c.products(d_model),
            Self::Rwkv7(c) => c.products(d_model),
            Self::Fourier(c) => c.products(d_model, tokens),
            Self::Elman(_) | Self::Gru(_) | Self::Lstm(_) => self
                .cell()
                .map_or(0, |cell| cell.products(d_model, d_model)),
        }
    }

    /// Returns the widths of the layer's state vectors, in a model of width `d_model`.
    pub fn state_widths(&self, d_model: usize) -> Vec<usize> {
        match self {
            Self::Mamba(c) => c.state_widths(d_model),
            Self::Mamba2(c) => c.state_widths(d_model),
            Self::GatedDelta(c) => c.state_widths(d_model),
            Self::Retention(c) => c.state_widths(d_model),
            Self::Rwkv(c) => c.state_widths(d_model),
            Self::Rwkv7(c) => c.state_widths(d_model),
            Self::Fourier(_) => Vec::new(),
            Self::Elman(_) | Self::Gru(_) | Self::Lstm(_) => {
                let states = self.cell().map_or(0, |cell| cell.cell().states());
                vec![d_model; states]
            }
        }
    }
}

/// A mixer with its parameters.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each block, and it holds its tensors elsewhere"
)]
pub enum Mixer {
    /// A recurrent cell.
    Cell(Recurrent),
    /// A selective state space (Mamba).
    Mamba(Mamba),
    /// A state space by heads (Mamba-2).
    Mamba2(Mamba2),
    /// A map of keys to values that is corrected at each position (gated delta rule).
    GatedDelta(GatedDelta),
    /// A map of keys to values that decays at a fixed rate.
    Retention(Retention),
    /// An average whose weights decay (RWKV-4).
    Rwkv(Rwkv),
    /// A map of keys to values that decays and is corrected by channels (RWKV-7).
    Rwkv7(Rwkv7),
    /// The discrete Fourier transform over positions and channels.
    Fourier(Fourier),
}

impl Mixer {
    /// Returns the variant's layer.
    pub fn layer(&self) -> &dyn Layer {
        match self {
            Self::Cell(layer) => layer,
            Self::Mamba(layer) => layer,
            Self::Mamba2(layer) => layer,
            Self::GatedDelta(layer) => layer,
            Self::Retention(layer) => layer,
            Self::Rwkv(layer) => layer,
            Self::Rwkv7(layer) => layer,
            Self::Fourier(layer) => layer,
        }
    }
}
