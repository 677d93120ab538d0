//! Mamba's layer (Gu and Dao 2023, arXiv:2312.00752, section 3.4 and figure 3): a short convolution, a state space whose steps
//! and directions are computed from the input, and a gate.
//!
//! u = silu(conv(W_u x)); (d, b, c) = W_p u; Δ = softplus(W_Δ d + β); the states of a channel are h' = exp(Δ·a)⊙h + Δ·u·b with
//! a = −exp(a_log); y = W_o ((c·h' + D⊙u)⊙silu(W_z x)).
//!
//! Parameters and initial values are those of the authors' code: a_log is ln 1 to ln N in each channel, D is 1, and β sets the
//! initial steps between `dt_min` and `dt_max`. a_log is stored as a vector, which `decay = "matrices"` skips. The taps of the
//! convolution are a matrix only by their shape: Muon treats them as one unless `[optimizer] matrices` excludes `\.conv$`.

use super::Kind;
use super::stateful::{MixerContext, StatefulMixer};
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel::selective_scan::{Scan, selective_scan};
use crate::kernel::short_convolution::{ShortConvolution, short_convolution};
use crate::kernel::{Operand, Sequences};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::role::{BIAS, Roles, WEIGHT};
use crate::nn::token_shift::last_positions;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "mamba",
    summary: "selective state space after a short convolution, with a gate; the paper uses no feed-forward layers",
    source: "Gu and Dao 2023, section 3.4",
    example: "{ kind = \"mamba\", d_state = 16, expand = 2, d_conv = 4 }",
};

/// Maximum size of a state, of `expand`, and of the number of taps.
const MAX_SIZE: usize = 1024;

/// The allowed range of initial steps: from the authors' `dt_init_floor` to a value far beyond any use.
pub const INITIAL_STEPS: std::ops::RangeInclusive<f64> = 1e-4..=1e3;

/// Settings of Mamba's layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MambaConfig {
    /// Size N of the state of each channel. Source: Gu and Dao 2023, section 3.4.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    pub d_state: usize,
    /// Number of channels for each element of the model's width. Source: Gu and Dao 2023, section 3.4.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    pub expand: usize,
    /// Number of positions that the convolution sees. Source: Gu and Dao 2023, figure 3.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    pub d_conv: usize,
    /// Width of the vector from which steps are computed; ⌈d_model/16⌉ when absent. Source: Gu and Dao 2023, section 3.6.
    #[schemars(range(min = 1, max = MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dt_rank: Option<usize>,
    /// Whether the maps into the layer and out of it have biases.
    pub bias: bool,
    /// Whether the convolution has a bias.
    pub conv_bias: bool,
    /// The shortest initial step. Source: Gu and Dao 2023, section 3.6.
    #[schemars(range(min = 1e-4, max = 1e3))]
    pub dt_min: f64,
    /// The longest initial step.
    #[schemars(range(min = 1e-4, max = 1e3))]
    pub dt_max: f64,
}

impl Default for MambaConfig {
    fn default() -> Self {
        Self {
            d_state: 16,
            expand: 2,
            d_conv: 4,
            dt_rank: None,
            bias: false,
            conv_bias: true,
            dt_min: 1e-3,
            dt_max: 0.1,
        }
    }
}

impl MambaConfig {
    /// Returns the number of channels in a model of width `d_model`.
    pub fn channels(&self, d_model: usize) -> usize {
        self.expand.saturating_mul(d_model)
    }

    /// Returns the width of the vector from which steps are computed.
    pub fn dt_rank(&self, d_model: usize) -> usize {
        self.dt_rank.unwrap_or_else(|| d_model.div_ceil(16))
    }

    /// Reports invalid settings; `d_model` is the model's width, if that is valid.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) {
        for (key, value) in [
            ("d_state", self.d_state),
            ("expand", self.expand),
            ("d_conv", self.d_conv),
        ] {
            at.count(key, value, MAX_SIZE);
        }
        at.count("dt_rank", self.dt_rank.unwrap_or(1), MAX_WIDTH);
        let channels = d_model.map_or(0, |d| self.channels(d));
        if channels > MAX_WIDTH {
            let rule = format!(
                "expand = {} makes {channels} channels; at most {MAX_WIDTH} are allowed",
                self.expand
            );
            at.fault(&["expand"], rule);
        }
        initial_steps_faults([self.dt_min, self.dt_max], at);
    }

    /// Returns how many values per position are kept for the backward pass: channels before and after the convolution, gates,
    /// steps, results, the values they are computed from, and the states before each chunk of positions.
    pub fn activations(&self, d_model: usize) -> u128 {
        let (channels, n) = (self.channels(d_model) as u128, self.d_state as u128);
        let made = 2 * n + self.dt_rank(d_model) as u128;
        5 * channels + 2 * made + (channels * n).div_ceil(32)
    }

    /// Returns the multiplications per position of a forward pass in matrix products and convolutions: maps, taps, and the reads
    /// of the states.
    pub fn products(&self, d_model: usize) -> u128 {
        let (d, channels) = (d_model as u128, self.channels(d_model) as u128);
        let (n, rank) = (self.d_state as u128, self.dt_rank(d_model) as u128);
        let maps = 3 * d + (rank + 2 * n) + rank;
        channels * (maps + self.d_conv as u128 + n)
    }

    /// Returns the widths of the layer's state vectors.
    pub fn state_widths(&self, d_model: usize) -> Vec<usize> {
        let channels = self.channels(d_model);
        vec![self.d_state * channels, (self.d_conv - 1) * channels]
    }
}

/// Reports faults of the range of initial steps.
pub(super) fn initial_steps_faults([least, most]: [f64; 2], at: &mut TableFaults) {
    for (key, value) in [("dt_min", least), ("dt_max", most)] {
        if !INITIAL_STEPS.contains(&value) {
            let [least, most] = [INITIAL_STEPS.start(), INITIAL_STEPS.end()];
            at.fault(
                &[key],
                format!("{key} = {value:?} is not between {least:?} and {most:?}"),
            );
        }
    }
    if least > most {
        let rule = format!("dt_min = {least:?} is above dt_max = {most:?}");
        at.fault(&["dt_min", "dt_max"], rule);
    }
}

/// Returns the function from a draw between 0 and 1 to the bias of an initial step that is log-uniform within the bounds.
pub(super) fn initial_step_bias(bounds: [f64; 2]) -> impl Fn(f32) -> f32 + Send + Sync + 'static {
    let [least, most] = bounds.map(f64::ln);
    move |uniform| {
        let step = (least + f64::from(uniform) * (most - least)).exp();
        // The inverse of softplus.
        (step + (-(-step).exp_m1()).ln()) as f32
    }
}

/// Roles of the parameters of [`Mamba`].
pub const ROLES: Roles = Roles::new(
    "Mamba",
    &[
        ("conv", WEIGHT),
        ("conv_bias", BIAS),
        ("a_log", WEIGHT),
        ("skip", WEIGHT),
    ],
);

/// Mamba's layer with its parameters. C is the number of channels, N the size of a state.
#[derive(Module, Debug)]
pub struct Mamba {
    /// W_u, `[C, d_model]`.
    pub input: Linear,
    /// W_z, `[C, d_model]`.
    pub gate: Linear,
    /// Taps of the convolution, `[C, d_conv]`; the last one is for the position itself.
    pub conv: Param<Tensor<2>>,
    /// Bias of the convolution, `[C]`.
    pub conv_bias: Option<Param<Tensor<1>>>,
    /// W_p, `[dt_rank + 2N, C]`: the vector from which steps are computed, then b, then c.
    pub parameters: Linear,
    /// W_Δ and β, `[C, dt_rank]`.
    pub step: Linear,
    /// ln(−a), `[C·N]`, channel by channel.
    pub a_log: Param<Tensor<1>>,
    /// D, `[C]`.
    pub skip: Param<Tensor<1>>,
    /// W_o, `[d_model, C]`.
    pub output: Linear,
    d_state: usize,
}

impl Mamba {
    /// Builds the layer for vectors of `d_model` elements.
    pub fn new(config: &MambaConfig, d_model: usize, init: &Init) -> Self {
        let (channels, n) = (config.channels(d_model), config.d_state);
        let rank = config.dt_rank(d_model);
        // Taps are drawn as in torch, the map of steps as in the authors' code.
        let bound = |fan: usize| 1.0 / (fan.max(1) as f32).sqrt();
        let [taps, of_step] = [bound(config.d_conv), bound(rank)];
        Self {
            input: Linear::new(d_model, channels, config.bias, MatrixRole::Value, init),
            gate: Linear::new(d_model, channels, config.bias, MatrixRole::Value, init),
            conv: init.uniform([channels, config.d_conv], move |x| taps * (2.0 * x - 1.0)),
            conv_bias: config
                .conv_bias
                .then(|| init.uniform([channels], move |x| taps * (2.0 * x - 1.0))),
            parameters: Linear::new(channels, rank + 2 * n, false, MatrixRole::Inner, init),
            step: Linear {
                weight: init.uniform([channels, rank], move |x| of_step * (2.0 * x - 1.0)),
                bias: Some(init.uniform(
                    [channels],
                    initial_step_bias([config.dt_min, config.dt_max]),
                )),
            },
            a_log: init.values(channels * n, move |i| ((i % n + 1) as f32).ln()),
            skip: init.vector(channels, 1.0),
            output: Linear::new(channels, d_model, config.bias, MatrixRole::Residual, init),
            d_state: n,
        }
    }
}

/// The state consists of the states of all channels and the newest inputs of the convolution.
impl StatefulMixer for Mamba {
    fn advance(
        &self,
        x: Tensor<3>,
        state: Option<Vec<Tensor<2>>>,
        sequences: &Sequences,
        last: bool,
        _: &MixerContext<'_>,
    ) -> (Tensor<3>, Option<Vec<Tensor<2>>>) {
        let mut state = state.into_iter().flatten();
        let (states, before) = (state.next(), state.next());
        let [channels, taps] = self.conv.dims();
        let n = self.d_state;
        let x = Operand::new(x);
        let (u, gate) = (
            self.input.forward_operand(x.clone()),
            self.gate.forward_operand(x),
        );
        let kept = last.then(|| last_positions(&u, before.clone(), sequences, taps - 1));
        let convolution = ShortConvolution {
            x: u,
            weight: self.conv.val(),
            bias: self.conv_bias.as_ref().map(Param::val),
            before: before.filter(|_| taps > 1),
            silu: true,
        };
        let u = short_convolution(convolution, sequences);
        let made = self.parameters.forward(u.clone());
        let rank = made.dims()[2] - 2 * n;
        let scan = Scan {
            u,
            raw: self.step.forward(made.clone().narrow(2, 0, rank)),
            gate,
            decay: self.a_log.val().exp().neg().reshape([channels, n]),
            directions: made.narrow(2, rank, 2 * n),
            skip: self.skip.val(),
            state: states,
        };
        let (y, states) = selective_scan(scan, sequences, last);
        let state = states.zip(kept).map(|(states, kept)| vec![states, kept]);
        (self.output.forward(y), state)
    }
}
