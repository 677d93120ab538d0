//! RWKV's channel mixing, version 7 (Peng et al. 2025, arXiv:2503.14456, section 4.2): y = W_v max(W_k k, 0)², where k is a mix
//! of a position with the one before it. Unlike version 4 ([`super::rwkv`]) it has no gate. The state is the newest position.

use super::super::init::{Init, MatrixRole};
use super::super::layer::{BlockShape, Layer, LayerContext};
use super::super::linear::Linear;
use super::super::state::{LayerState, StateUse, run_recurrent};
use super::super::token_shift::{Mix, last_positions, mix_exponent};
use super::{Activation, Kind};
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel::Sequences;
use burn::module::Module;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "rwkv7",
    summary: "RWKV-7's channel mixing: two matrices over a mix of each position with the one before it",
    source: "Peng et al. 2025, section 4.2",
    example: "{ kind = \"rwkv7\", d_ff = 512 }",
};

/// Settings of RWKV-7's channel mixing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rwkv7MixConfig {
    /// Inner width; 4·d_model when absent. Source: Peng et al. 2025, section 4.2.
    #[schemars(range(min = 1, max = MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_ff: Option<usize>,
}

impl Rwkv7MixConfig {
    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        at.count("d_ff", self.d_ff.unwrap_or(1), MAX_WIDTH);
    }

    /// Returns how many values per position are kept for the backward pass, in a model of width `d_model`.
    pub fn activations(&self, d_model: usize) -> u128 {
        2 * self.d_ff(d_model) as u128 + d_model as u128
    }

    /// Returns the number of multiplications per position in a forward pass.
    pub fn products(&self, d_model: usize) -> u128 {
        2 * d_model as u128 * self.d_ff(d_model) as u128
    }

    /// Returns the layer's inner width in a model of width `d_model`.
    pub fn d_ff(&self, d_model: usize) -> usize {
        self.d_ff.unwrap_or(4 * d_model)
    }
}

/// RWKV-7's channel mixing with its parameters.
#[derive(Module, Debug)]
pub struct Rwkv7Mix {
    /// μ of keys.
    pub mix_key: Mix,
    /// W_k, `[d_ff, d_model]`.
    pub key: Linear,
    /// W_v, `[d_model, d_ff]`.
    pub value: Linear,
    dropout: f64,
}

impl Rwkv7Mix {
    /// Builds the layer for a block of this shape, with dropout after its nonlinearity. The initial μ follows the authors' code
    /// and depends on the layer.
    pub fn new(config: &Rwkv7MixConfig, shape: &BlockShape, dropout: f64, init: &Init) -> Self {
        let (d, d_ff) = (shape.d_model, config.d_ff(shape.d_model));
        Self {
            mix_key: Mix::new(d, mix_exponent(shape).powi(4), 0.0, init),
            key: Linear::new(d, d_ff, false, MatrixRole::Value, init),
            value: Linear::new(d_ff, d, false, MatrixRole::Residual, init),
            dropout,
        }
    }
}

impl Layer for Rwkv7Mix {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        let sequences = Sequences::from_visibility(cx.visible, cx.span);
        let pass = cx.pass;
        run_recurrent(cx.state.as_deref_mut(), |state, last| {
            let before = state.into_iter().flatten().next();
            let kept = last.then(|| vec![last_positions(&x, before.clone(), &sequences, 1)]);
            let key = self.mix_key.forward(x, before, &sequences);
            let inner = self
                .key
                .forward_activated(key, Activation::ReluSquared.into());
            let inner = pass.dropout(inner, "inner", self.dropout);
            (self.value.forward(inner), kept)
        })
    }

    fn empty_state(&self, _: StateUse) -> LayerState {
        LayerState::Recurrent(Vec::new())
    }
}
