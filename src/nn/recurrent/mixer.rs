//! What may stand in the place of attention in a block: a recurrent cell, selective state spaces, delta rules, retention, a decaying average. Each
//! position sees itself and those before it, through a state of constant size. The Fourier mixer alone reads both ways, without a state.

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

/// What mixes the positions of a block in the place of attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MixerConfig {
    /// h' = tanh(W x + U h + b).
    Elman(ElmanConfig),
    /// Gated recurrent unit.
    Gru(GruConfig),
    /// Long short-term memory.
    Lstm(LstmConfig),
    /// A selective state space.
    Mamba(MambaConfig),
    /// A state space by heads.
    Mamba2(Mamba2Config),
    /// A map of keys to values that is corrected at each position.
    GatedDelta(GatedDeltaConfig),
    /// A map of keys to values that decays at a fixed rate.
    Retention(RetentionConfig),
    /// An average whose weights decay.
    Rwkv(RwkvConfig),
    /// A map of keys to values that decays and is corrected by channels.
    Rwkv7(Rwkv7Config),
    /// The discrete Fourier transform over positions and channels.
    Fourier(FourierConfig),
}

impl MixerConfig {
    /// The cell, where it is one.
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

    /// The layer.
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

    /// Whether the first such layer of a stack hands its values to later ones.
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

    /// Whether each position reads those behind it as well, which makes it a layer of encoders.
    pub fn reads_both_ways(&self) -> bool {
        matches!(self, Self::Fourier(_))
    }

    /// Whether dropout acts on its results where the model has some.
    pub fn has_dropout(&self) -> bool {
        !matches!(self, Self::Fourier(_))
    }

    /// Numbers that all layers of a pass keep in common for each position of a text of so many.
    pub fn kept_once(&self, tokens: usize) -> u128 {
        match self {
            Self::Fourier(c) => c.kept_once(tokens),
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

    /// The value of the key `kind`.
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

    /// Faults of its keys in a model of width `d_model`, when that is sound.
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

    /// Numbers that are kept of each position for the backward pass, in a model of width `d_model`.
    pub fn kept(&self, d_model: usize) -> u128 {
        match self {
            Self::Mamba(c) => c.kept(d_model),
            Self::Mamba2(c) => c.kept(d_model),
            Self::GatedDelta(c) => c.kept(d_model),
            Self::Retention(c) => c.kept(d_model),
            Self::Rwkv(c) => c.kept(d_model),
            Self::Rwkv7(c) => c.kept(d_model),
            // A linear map of its input alone.
            Self::Fourier(_) => 0,
            Self::Elman(_) | Self::Gru(_) | Self::Lstm(_) => {
                self.cell().map_or(0, |cell| cell.kept(d_model))
            }
        }
    }

    /// Multiplications of a forward pass for each position of a text of so many, in a model of width `d_model`.
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

    /// Widths of the vectors of its state, in a model of width `d_model`.
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
    /// A selective state space.
    Mamba(Mamba),
    /// A state space by heads.
    Mamba2(Mamba2),
    /// A map of keys to values that is corrected at each position.
    GatedDelta(GatedDelta),
    /// A map of keys to values that decays at a fixed rate.
    Retention(Retention),
    /// An average whose weights decay.
    Rwkv(Rwkv),
    /// A map of keys to values that decays and is corrected by channels.
    Rwkv7(Rwkv7),
    /// The discrete Fourier transform over positions and channels.
    Fourier(Fourier),
}

impl Mixer {
    /// The layer that acts.
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
