//! RWKV's time mixing, version 4 (Peng et al. 2023, arXiv:2305.13048, section 3.1.2): an average of values whose weights decay
//! with the distance, after a mix of each position with the one before it.
//!
//! r, k, v = W (μ⊙x_t + (1 − μ)⊙x_{t−1}), each with its own μ; y = W_o (σ(r)⊙wkv) with wkv of `kernel::wkv`. The decay of a
//! channel is −exp(w). Initial values of w, of the bonus u and of μ are the authors' (appendix E) and depend on the channel and
//! the layer.

use super::Kind;
use super::stateful::{MixerContext, StatefulMixer};
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel::Sequences;
use crate::kernel::wkv::{Wkv, wkv};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::layer::BlockShape;
use crate::nn::linear::Linear;
use crate::nn::role::{BIAS, Roles, WEIGHT};
use crate::nn::token_shift::{Mix, last_positions, mix_exponent, relative_depth};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "rwkv",
    summary: "an average of values whose weights decay with the distance, after a mix of neighbours",
    source: "Peng et al. 2023, section 3.1.2",
    example: "{ kind = \"rwkv\" }",
};

/// Settings of RWKV's time mixing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RwkvConfig {
    /// Number of channels of receptances, keys and values; d_model when absent.
    #[schemars(range(min = 1, max = MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
}

impl RwkvConfig {
    /// Returns the number of channels in a model of width `d_model`.
    pub fn width(&self, d_model: usize) -> usize {
        self.width.unwrap_or(d_model)
    }

    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        at.count("width", self.width.unwrap_or(1), MAX_WIDTH);
    }

    /// Returns how many values per position are kept for the backward pass: three mixes, receptances, keys, values, results, and
    /// the states before each chunk of positions.
    pub fn activations(&self, d_model: usize) -> u128 {
        let width = self.width(d_model) as u128;
        3 * d_model as u128 + 4 * width + (3 * width).div_ceil(32)
    }

    /// Returns the multiplications per position of a forward pass in matrix products.
    pub fn products(&self, d_model: usize) -> u128 {
        4 * d_model as u128 * self.width(d_model) as u128
    }

    /// Returns the widths of the layer's state vectors.
    pub fn state_widths(&self, d_model: usize) -> Vec<usize> {
        vec![3 * self.width(d_model), d_model]
    }
}

/// Roles of the parameters of [`Rwkv`].
pub const ROLES: Roles = Roles::new("Rwkv", &[("decay", WEIGHT), ("first", BIAS)]);

/// RWKV's time mixing with its parameters.
#[derive(Module, Debug)]
pub struct Rwkv {
    /// μ of keys.
    pub mix_key: Mix,
    /// μ of values.
    pub mix_value: Mix,
    /// μ of receptances.
    pub mix_receptance: Mix,
    /// W_k, `[width, d_model]`.
    pub key: Linear,
    /// W_v, `[width, d_model]`.
    pub value: Linear,
    /// W_r, `[width, d_model]`.
    pub receptance: Linear,
    /// w, the decays, `[width]`.
    pub decay: Param<Tensor<1>>,
    /// u, the bonus of the current position, `[width]`.
    pub first: Param<Tensor<1>>,
    /// W_o, `[d_model, width]`.
    pub output: Linear,
}

impl Rwkv {
    /// Builds the layer for a block of this shape.
    pub fn new(config: &RwkvConfig, shape: &BlockShape, init: &Init) -> Self {
        let (d, width) = (shape.d_model, config.width(shape.d_model));
        let (depth, power) = (relative_depth(shape), mix_exponent(shape));
        let rows = (width.max(2) - 1) as f32;
        let linear = |role| Linear::new(d, width, false, role, init);
        Self {
            mix_key: Mix::new(d, power, 0.0, init),
            mix_value: Mix::new(d, power, 0.3 * depth, init),
            mix_receptance: Mix::new(d, 0.5 * power, 0.0, init),
            key: linear(MatrixRole::Inner),
            value: linear(MatrixRole::Value),
            receptance: linear(MatrixRole::Inner),
            decay: init.values(width, move |i| {
                8.0 * (i as f32 / rows).powf(0.7 + 1.3 * depth) - 5.0
            }),
            first: init.values(width, |i| 0.3_f32.ln() + 0.5 * ((i + 1) % 3) as f32 - 0.5),
            output: Linear::new(width, d, false, MatrixRole::Residual, init),
        }
    }
}

/// The state consists of the sums of the average and the newest input.
impl StatefulMixer for Rwkv {
    fn advance(
        &self,
        x: Tensor<3>,
        state: Option<Vec<Tensor<2>>>,
        sequences: &Sequences,
        last: bool,
        _: &MixerContext<'_>,
    ) -> (Tensor<3>, Option<Vec<Tensor<2>>>) {
        let mut state = state.into_iter().flatten();
        let (sums, before) = (state.next(), state.next());
        let kept = last.then(|| last_positions(&x, before.clone(), sequences, 1));
        let mixed = |mix: &Mix| mix.forward(x.clone(), before.clone(), sequences);
        let average = Wkv {
            r: self.receptance.forward(mixed(&self.mix_receptance)),
            k: self.key.forward(mixed(&self.mix_key)),
            v: self.value.forward(mixed(&self.mix_value)),
            decay: self.decay.val().exp().neg(),
            bonus: self.first.val(),
            state: sums,
        };
        let (y, sums) = wkv(average, sequences, last);
        let state = sums.zip(kept).map(|(sums, kept)| vec![sums, kept]);
        (self.output.forward(y), state)
    }
}
