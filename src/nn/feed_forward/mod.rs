//! Position-wise feed-forward layers: the half of a block that processes each position separately.

mod chunked;
pub mod dense;
pub mod gated;
pub mod moe;
pub mod rwkv;
pub mod rwkv7;

use super::Kind;
use super::init::Init;
use super::layer::{BlockShape, Layer};
use crate::faults::TableFaults;
use crate::kernel;
use burn::module::Module;
pub use dense::{Dense, DenseConfig};
pub use gated::{Gated, GatedConfig};
pub use moe::{Moe, MoeConfig};
pub use rwkv::{RwkvMix, RwkvMixConfig};
pub use rwkv7::{Rwkv7Mix, Rwkv7MixConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of `[model] feed_forward`.
pub const KINDS: &[Kind] = &[dense::KIND, gated::KIND, moe::KIND, rwkv::KIND, rwkv7::KIND];

/// A pointwise nonlinearity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// max(0, x).
    Relu,
    /// x·Φ(x), with the error function (Hendrycks and Gimpel 2016).
    Gelu,
    /// GELU in its tanh approximation, as in GPT-2.
    GeluTanh,
    /// x·σ(x), also called swish.
    Silu,
    /// max(0, x)² (So et al. 2021, Primer).
    ReluSquared,
    /// x·σ(1.702·x), GELU in its sigmoid approximation, as in CLIP (Hendrycks and Gimpel 2016, section 2).
    QuickGelu,
    /// σ(x); the gated layer with it is the gated linear unit (Dauphin et al. 2017; Shazeer 2020).
    Sigmoid,
}

impl From<Activation> for kernel::Activation {
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Relu => Self::Relu,
            Activation::Gelu => Self::Gelu,
            Activation::GeluTanh => Self::GeluTanh,
            Activation::Silu => Self::Silu,
            Activation::ReluSquared => Self::ReluSquared,
            Activation::QuickGelu => Self::QuickGelu,
            Activation::Sigmoid => Self::Sigmoid,
        }
    }
}

/// The feed-forward layer of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FeedForwardConfig {
    /// W₂·act(W₁x).
    Dense(DenseConfig),
    /// W₂(act(W₁x)⊙W₃x).
    Gated(GatedConfig),
    /// Mixture of experts that a router chooses.
    Moe(MoeConfig),
    /// RWKV's channel mixing.
    Rwkv(RwkvMixConfig),
    /// RWKV-7's channel mixing.
    Rwkv7(Rwkv7MixConfig),
}

impl Default for FeedForwardConfig {
    fn default() -> Self {
        Self::Dense(DenseConfig::default())
    }
}

impl FeedForwardConfig {
    /// Builds the layer for a block of this shape, with dropout after its nonlinearity.
    pub fn init(&self, shape: &BlockShape, dropout: f64, init: &Init) -> FeedForward {
        let d_model = shape.d_model;
        match self {
            Self::Dense(c) => FeedForward::Dense(Dense::new(c, d_model, dropout, init)),
            Self::Gated(c) => FeedForward::Gated(Gated::new(c, d_model, dropout, init)),
            Self::Moe(c) => FeedForward::Moe(Moe::new(c, d_model, dropout, init)),
            Self::Rwkv(c) => FeedForward::Rwkv(RwkvMix::new(c, shape, dropout, init)),
            Self::Rwkv7(c) => FeedForward::Rwkv7(Rwkv7Mix::new(c, shape, dropout, init)),
        }
    }

    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        match self {
            Self::Dense(c) => c.faults(at),
            Self::Gated(c) => c.faults(at),
            Self::Moe(c) => c.faults(at),
            Self::Rwkv(c) => c.faults(at),
            Self::Rwkv7(c) => c.faults(at),
        }
    }

    /// Returns how many values per position are kept for the backward pass, in a model of width `d_model`.
    pub fn activations(&self, d_model: usize) -> u128 {
        match self {
            Self::Dense(c) => c.activations(d_model),
            Self::Gated(c) => c.activations(d_model),
            Self::Moe(c) => c.kept(d_model),
            Self::Rwkv(c) => c.activations(d_model),
            Self::Rwkv7(c) => c.activations(d_model),
        }
    }

    /// Returns the inner width, if the settings give one.
    pub fn configured_width(&self) -> Option<usize> {
        match self {
            Self::Dense(c) => c.d_ff,
            Self::Gated(c) => c.d_ff,
            Self::Moe(c) => c.expert.configured_width(),
            Self::Rwkv(c) => c.d_ff,
            Self::Rwkv7(c) => c.d_ff,
        }
    }

    /// Returns the same layer with `width` applied to its inner width, if the settings give one.
    #[must_use]
    pub fn with_width(&self, width: impl Fn(usize) -> usize) -> Self {
        let mut layer = self.clone();
        let d_ff = match &mut layer {
            Self::Dense(c) => &mut c.d_ff,
            Self::Gated(c) => &mut c.d_ff,
            Self::Moe(c) => c.expert.width_mut(),
            Self::Rwkv(c) => &mut c.d_ff,
            Self::Rwkv7(c) => &mut c.d_ff,
        };
        *d_ff = d_ff.map(width);
        layer
    }

    /// Returns the number of positions that are computed at once; `None` if all are.
    pub fn chunk(&self) -> Option<usize> {
        match self {
            Self::Dense(c) => c.chunk,
            Self::Gated(c) => c.chunk,
            Self::Moe(_) | Self::Rwkv(_) | Self::Rwkv7(_) => None,
        }
    }

    /// Returns the inner width in a model of width `d_model`.
    pub fn d_ff(&self, d_model: usize) -> usize {
        match self {
            Self::Dense(c) => c.d_ff(d_model),
            Self::Gated(c) => c.d_ff(d_model),
            Self::Moe(c) => c.expert.d_ff(d_model),
            Self::Rwkv(c) => c.d_ff(d_model),
            Self::Rwkv7(c) => c.d_ff(d_model),
        }
    }

    /// Returns the multiplications per position of a forward pass, in a model of width `d_model`.
    pub fn products(&self, d_model: usize) -> u128 {
        match self {
            Self::Dense(c) => c.products(d_model),
            Self::Gated(c) => c.products(d_model),
            Self::Moe(c) => c.products(d_model),
            Self::Rwkv(c) => c.products(d_model),
            Self::Rwkv7(c) => c.products(d_model),
        }
    }

    /// Returns the number of parameters that a token does not use, in a model of width `d_model`.
    pub fn inactive_parameters(&self, d_model: usize) -> usize {
        match self {
            Self::Dense(_) | Self::Gated(_) | Self::Rwkv(_) | Self::Rwkv7(_) => 0,
            Self::Moe(c) => c.inactive_parameters(d_model),
        }
    }

    /// Whether the gradient of a step depends on its division into micro-batches.
    pub fn couples_micro_batches(&self) -> bool {
        match self {
            Self::Dense(_) | Self::Gated(_) | Self::Rwkv(_) | Self::Rwkv7(_) => false,
            Self::Moe(c) => c.couples_micro_batches(),
        }
    }

    /// Returns the value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Dense(_) => dense::KIND.kind,
            Self::Gated(_) => gated::KIND.kind,
            Self::Moe(_) => moe::KIND.kind,
            Self::Rwkv(_) => rwkv::KIND.kind,
            Self::Rwkv7(_) => rwkv7::KIND.kind,
        }
    }

    /// Whether a position depends on earlier ones, so that the layer keeps a state and can be used only in causal stacks.
    pub fn reads_earlier_positions(&self) -> bool {
        match self {
            Self::Rwkv(_) | Self::Rwkv7(_) => true,
            Self::Dense(_) | Self::Gated(_) | Self::Moe(_) => false,
        }
    }

    /// Returns the widths of the layer's state vectors, in a model of width `d_model`.
    pub fn state_widths(&self, d_model: usize) -> Vec<usize> {
        match self.reads_earlier_positions() {
            true => vec![d_model],
            false => Vec::new(),
        }
    }
}

/// A feed-forward layer with its parameters.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each block, and it holds its tensors elsewhere"
)]
pub enum FeedForward {
    /// W₂·act(W₁x).
    Dense(Dense),
    /// W₂(act(W₁x)⊙W₃x).
    Gated(Gated),
    /// Mixture of experts that a router chooses.
    Moe(Moe),
    /// RWKV's channel mixing.
    Rwkv(RwkvMix),
    /// RWKV-7's channel mixing.
    Rwkv7(Rwkv7Mix),
}

impl FeedForward {
    /// Returns the variant's layer.
    pub fn layer(&self) -> &dyn Layer {
        match self {
            Self::Dense(layer) => layer,
            Self::Gated(layer) => layer,
            Self::Moe(layer) => layer,
            Self::Rwkv(layer) => layer,
            Self::Rwkv7(layer) => layer,
        }
    }
}
