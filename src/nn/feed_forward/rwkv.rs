//! RWKV's channel mixing (Peng et al. 2023, arXiv:2305.13048, section 3.1.3): y = σ(W_r r)⊙W_v max(W_k k, 0)², where r and k are
//! mixes of a position with the one before it. The state is the newest position.

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
use burn::tensor::activation::sigmoid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "rwkv",
    summary: "RWKV's channel mixing: two matrices and a gate over a mix of each position with the one before it",
    source: "Peng et al. 2023, section 3.1.3",
    example: "{ kind = \"rwkv\", d_ff = 512 }",
};

/// Settings of RWKV's channel mixing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RwkvMixConfig {
    /// Inner width; 4·d_model when absent. Source: Peng et al. 2023, section 3.1.3.
    #[schemars(range(min = 1, max = MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_ff: Option<usize>,
}

impl RwkvMixConfig {
    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        at.count("d_ff", self.d_ff.unwrap_or(1), MAX_WIDTH);
    }

    /// Returns how many values per position are kept for the backward pass, in a model of width `d_model`.
    pub fn activations(&self, d_model: usize) -> u128 {
        2 * self.d_ff(d_model) as u128 + 4 * d_model as u128
    }

    /// Returns the number of multiplications per position in a forward pass.
    pub fn products(&self, d_model: usize) -> u128 {
        let (d, d_ff) = (d_model as u128, self.d_ff(d_model) as u128);
        2 * d * d_ff + d * d
    }

    /// Returns the layer's inner width in a model of width `d_model`.
    pub fn d_ff(&self, d_model: usize) -> usize {
        self.d_ff.unwrap_or(4 * d_model)
    }
}

/// RWKV's channel mixing with its parameters.
#[derive(Module, Debug)]
pub struct RwkvMix {
    /// μ of keys.
    pub mix_key: Mix,
    /// μ of receptances.
    pub mix_receptance: Mix,
    /// W_k, `[d_ff, d_model]`.
    pub key: Linear,
    /// W_r, `[d_model, d_model]`.
    pub receptance: Linear,
    /// W_v, `[d_model, d_ff]`.
    pub value: Linear,
    dropout: f64,
}

impl RwkvMix {
    /// Builds the layer for a block of this shape, with dropout after its nonlinearity.
    pub fn new(config: &RwkvMixConfig, shape: &BlockShape, dropout: f64, init: &Init) -> Self {
        let (d, d_ff) = (shape.d_model, config.d_ff(shape.d_model));
        Self {
            mix_key: Mix::new(d, mix_exponent(shape), 0.0, init),
            mix_receptance: Mix::new(d, mix_exponent(shape), 0.0, init),
            key: Linear::new(d, d_ff, false, MatrixRole::Value, init),
            receptance: Linear::new(d, d, false, MatrixRole::Inner, init),
            value: Linear::new(d_ff, d, false, MatrixRole::Residual, init),
            dropout,
        }
    }
}

impl Layer for RwkvMix {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        let sequences = Sequences::from_visibility(cx.visible, cx.span);
        let pass = cx.pass;
        run_recurrent(cx.state.as_deref_mut(), |state, last| {
            let before = state.into_iter().flatten().next();
            let kept = last.then(|| vec![last_positions(&x, before.clone(), &sequences, 1)]);
            let mixed = |mix: &Mix| mix.forward(x.clone(), before.clone(), &sequences);
            let key = mixed(&self.mix_key);
            let inner = self
                .key
                .forward_activated(key, Activation::ReluSquared.into());
            let value = self
                .value
                .forward(pass.dropout(inner, "inner", self.dropout));
            let gate = self.receptance.forward(mixed(&self.mix_receptance));
            (sigmoid(gate) * value, kept)
        })
    }

    fn empty_state(&self, _: StateUse) -> LayerState {
        LayerState::Recurrent(Vec::new())
    }
}
