//! Mamba-2's layer (Dao and Gu 2024, arXiv:2405.21060, section 7.1 and figure 6): like [`super::mamba`], with heads whose states
//! each decay by a single number, directions that are computed from the input itself, and a norm before the last map.
//!
//! (x, b, c) = silu(conv(W_x u)); Δ = softplus(W_Δ u + β), clamped if limits are set; the states of a head are
//! h' = exp(Δ·a)·h + b (Δ·x)ᵀ with a = −exp(a_log); y = W_o norm((h'ᵀc + D·x)⊙silu(W_z u)).
//!
//! Parameters and initial values are those of the authors' code: a is uniform between −16 and −1, D is 1, the norm's scale is 1,
//! and β sets the initial steps between `dt_min` and `dt_max`. Heads of a group read the same b and c; the norm is over the
//! channels of a group. β, a_log and D are vectors, which `decay = "matrices"` skips. The taps of the convolution are a matrix
//! only by their shape: Muon treats them as one unless `[optimizer] matrices` excludes `\.conv$`.

use super::Kind;
use super::mamba::{initial_step_bias, initial_steps_faults};
use super::stateful::{MixerContext, StatefulMixer};
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel::short_convolution::{ShortConvolution, short_convolution};
use crate::kernel::ssd::{CHUNK, Ssd, ssd};
use crate::kernel::{self, Activation, Operand, Sequences};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::norm::RmsNorm;
use crate::nn::role::{BIAS, Roles, WEIGHT};
use crate::nn::token_shift::last_positions;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "mamba2",
    summary: "state space by heads, as chunked matrix products, with gate and norm; the paper uses no feed-forward layers",
    source: "Dao and Gu 2024, section 7.1",
    example: "{ kind = \"mamba2\", d_state = 128, expand = 2, d_conv = 4 }",
};

/// Maximum size of a state and number of channels of a head, of groups, of taps, and of `expand`.
const MAX_SIZE: usize = 1024;

/// Default number of channels of a head.
const D_HEAD: usize = 64;

/// The range from which −a is initially drawn: the authors' `A_init_range`.
const INITIAL_DECAYS: [f32; 2] = [1.0, 16.0];

/// Settings of Mamba-2's layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mamba2Config {
    /// Size N of the state of each channel. Source: Dao and Gu 2024, section 7.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    pub d_state: usize,
    /// Number P of channels of a head, a divisor of the number of channels; 64, or all channels if there are fewer, when absent.
    /// Source: Dao and Gu 2024, section 7.2.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_head: Option<usize>,
    /// Number of groups of heads, each with its own b and c; a divisor of the number of heads. Source: Dao and Gu 2024,
    /// section 7.2.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    pub n_groups: usize,
    /// Number of channels for each element of the model's width. Source: Dao and Gu 2024, section 7.1.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    pub expand: usize,
    /// Number of positions that the convolution sees.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    pub d_conv: usize,
    /// Whether the maps into the layer and out of it have biases.
    pub bias: bool,
    /// Whether the convolution has a bias.
    pub conv_bias: bool,
    /// The shortest initial step.
    #[schemars(range(min = 1e-4, max = 1e3))]
    pub dt_min: f64,
    /// The longest initial step.
    #[schemars(range(min = 1e-4, max = 1e3))]
    pub dt_max: f64,
    /// The smallest and the largest step of a pass, `dt_limit` of the authors' code; steps have no limits when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dt_limit: Option<[f64; 2]>,
    /// Added to the mean square in the norm before the last map.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub norm_eps: f64,
}

impl Default for Mamba2Config {
    fn default() -> Self {
        Self {
            d_state: 128,
            d_head: None,
            n_groups: 1,
            expand: 2,
            d_conv: 4,
            bias: false,
            conv_bias: true,
            dt_min: 1e-3,
            dt_max: 0.1,
            dt_limit: None,
            norm_eps: 1e-5,
        }
    }
}

impl Mamba2Config {
    /// Returns the number of channels in a model of width `d_model`.
    pub fn channels(&self, d_model: usize) -> usize {
        self.expand.saturating_mul(d_model)
    }

    /// Returns the number of channels of a head in a model of width `d_model`.
    pub fn d_head(&self, d_model: usize) -> usize {
        self.d_head
            .unwrap_or_else(|| D_HEAD.min(self.channels(d_model)))
    }

    /// Returns the number of heads in a model of width `d_model`.
    pub fn n_heads(&self, d_model: usize) -> usize {
        self.channels(d_model) / self.d_head(d_model).max(1)
    }

    /// Returns the number of channels of the convolution in a model of width `d_model`: those of x, b and c.
    pub fn convolution_channels(&self, d_model: usize) -> usize {
        let directions = self.n_groups.saturating_mul(self.d_state);
        self.channels(d_model)
            .saturating_add(directions.saturating_mul(2))
    }

    /// Reports invalid settings; `d_model` is the model's width, if that is valid.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) {
        let counts = [
            ("d_state", self.d_state),
            ("d_head", self.d_head.unwrap_or(1)),
            ("n_groups", self.n_groups),
            ("expand", self.expand),
            ("d_conv", self.d_conv),
        ];
        for (key, value) in counts {
            at.count(key, value, MAX_SIZE);
        }
        let sound = counts
            .iter()
            .all(|(_, value)| (1..=MAX_SIZE).contains(value));
        if let Some(d_model) = d_model.filter(|_| sound) {
            self.faults_of_sizes(d_model, at);
        }
        initial_steps_faults([self.dt_min, self.dt_max], at);
        if let Some([least, most]) = self.dt_limit
            && !(least >= 0.0 && least < most && most.is_finite())
        {
            let rule = format!(
                "dt_limit = [{least:?}, {most:?}] is not a valid range: the first number must be at least 0 and below the second, \
                 and both must be finite"
            );
            at.fault(&["dt_limit"], rule);
        }
        at.positive("norm_eps", self.norm_eps);
    }

    fn faults_of_sizes(&self, d_model: usize, at: &mut TableFaults) {
        let (channels, mixed) = (self.channels(d_model), self.convolution_channels(d_model));
        if mixed > MAX_WIDTH {
            let rule = format!(
                "expand = {} and n_groups = {} make {mixed} channels; at most {MAX_WIDTH} are allowed",
                self.expand, self.n_groups
            );
            return at.fault(&["expand", "n_groups"], rule);
        }
        let (d_head, n_groups) = (self.d_head(d_model), self.n_groups);
        if !channels.is_multiple_of(d_head) {
            let rule = format!("d_head = {d_head} does not divide the {channels} channels");
            return at.fault(&["d_head"], rule);
        }
        let heads = channels / d_head;
        if !heads.is_multiple_of(n_groups) {
            let rule = format!("n_groups = {n_groups} does not divide the {heads} heads");
            at.fault(&["n_groups"], rule);
        }
    }

    /// Returns how many values per position are kept for the backward pass: x, b and c before and after the convolution, gates,
    /// steps, results before and after gate and norm, and the states before each chunk of positions.
    pub fn activations(&self, d_model: usize) -> u128 {
        let (channels, mixed) = (
            self.channels(d_model) as u128,
            self.convolution_channels(d_model) as u128,
        );
        let states = (channels * self.d_state as u128).div_ceil(CHUNK as u128);
        2 * mixed + 4 * channels + self.n_heads(d_model) as u128 + states
    }

    /// Returns the multiplications per position of a forward pass in matrix products and convolutions: maps, taps, and the reads
    /// of the states.
    pub fn products(&self, d_model: usize) -> u128 {
        let (d, channels) = (d_model as u128, self.channels(d_model) as u128);
        let (mixed, heads) = (
            self.convolution_channels(d_model) as u128,
            self.n_heads(d_model) as u128,
        );
        let maps = (2 * channels + mixed + heads) * d;
        maps + mixed * self.d_conv as u128 + channels * self.d_state as u128
    }

    /// Returns the widths of the layer's state vectors.
    pub fn state_widths(&self, d_model: usize) -> Vec<usize> {
        let states = self.d_state * self.channels(d_model);
        vec![
            states,
            (self.d_conv - 1) * self.convolution_channels(d_model),
        ]
    }
}

/// Roles of the parameters of [`Mamba2`].
pub const ROLES: Roles = Roles::new(
    "Mamba2",
    &[
        ("conv", WEIGHT),
        ("conv_bias", BIAS),
        ("step_bias", BIAS),
        ("a_log", WEIGHT),
        ("skip", WEIGHT),
    ],
);

/// Mamba-2's layer with its parameters. C is the number of channels, H of heads, G of groups, N the size of a state.
#[derive(Module, Debug)]
pub struct Mamba2 {
    /// W_z, `[C, d_model]`.
    pub gate: Linear,
    /// W_x, `[C + 2GN, d_model]`: x, then b, then c.
    pub input: Linear,
    /// W_Δ, `[H, d_model]`.
    pub step: Linear,
    /// Taps of the convolution, `[C + 2GN, d_conv]`; the last one is for the position itself.
    pub conv: Param<Tensor<2>>,
    /// Bias of the convolution, `[C + 2GN]`.
    pub conv_bias: Option<Param<Tensor<1>>>,
    /// β, `[H]`.
    pub step_bias: Param<Tensor<1>>,
    /// ln(−a), `[H]`.
    pub a_log: Param<Tensor<1>>,
    /// D, `[H]`.
    pub skip: Param<Tensor<1>>,
    /// Norm over the C channels, group by group.
    pub norm: RmsNorm,
    /// W_o, `[d_model, C]`.
    pub output: Linear,
    d_state: usize,
    groups: usize,
    #[module(skip)]
    limits: Option<[f64; 2]>,
}

impl Mamba2 {
    /// Builds the layer for vectors of `d_model` elements.
    pub fn new(config: &Mamba2Config, d_model: usize, init: &Init) -> Self {
        let (channels, mixed) = (
            config.channels(d_model),
            config.convolution_channels(d_model),
        );
        let heads = config.n_heads(d_model);
        // Taps are drawn as in torch.
        let taps = 1.0 / (config.d_conv.max(1) as f32).sqrt();
        let [least, most] = INITIAL_DECAYS;
        let map = |d_out| Linear::new(d_model, d_out, config.bias, MatrixRole::Value, init);
        Self {
            gate: map(channels),
            input: map(mixed),
            step: map(heads),
            conv: init.uniform([mixed, config.d_conv], move |x| taps * (2.0 * x - 1.0)),
            conv_bias: config
                .conv_bias
                .then(|| init.uniform([mixed], move |x| taps * (2.0 * x - 1.0))),
            step_bias: init.uniform([heads], initial_step_bias([config.dt_min, config.dt_max])),
            a_log: init.uniform([heads], move |x| (least + x * (most - least)).ln()),
            skip: init.vector(heads, 1.0),
            norm: RmsNorm::new(channels, config.norm_eps, init),
            output: Linear::new(channels, d_model, config.bias, MatrixRole::Residual, init),
            d_state: config.d_state,
            groups: config.n_groups,
            limits: config.dt_limit,
        }
    }
}

/// The state consists of the states of all channels and the newest inputs of the convolution.
impl StatefulMixer for Mamba2 {
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
        let [_, taps] = self.conv.dims();
        let x = Operand::new(x);
        let (mixed, gate) = (
            self.input.forward_operand(x.clone()),
            self.gate.forward_operand(x.clone()),
        );
        let bias = self.step_bias.val();
        let bias = match &self.step.bias {
            Some(of_map) => bias + of_map.val(),
            None => bias,
        };
        let raw = x.linear(self.step.weight.val(), Some(bias));
        let kept = last.then(|| last_positions(&mixed, before.clone(), sequences, taps - 1));
        let convolution = ShortConvolution {
            x: mixed,
            weight: self.conv.val(),
            bias: self.conv_bias.as_ref().map(Param::val),
            before: before.filter(|_| taps > 1),
            silu: true,
        };
        let space = Ssd {
            mixed: short_convolution(convolution, sequences),
            raw,
            decay: self.a_log.val().exp().neg(),
            skip: self.skip.val(),
            state: states,
            groups: self.groups,
            d_state: self.d_state,
            limits: self.limits,
        };
        let (y, states) = ssd(space, sequences, last);
        let y = kernel::gated(gate, y, Activation::Silu);
        let state = states.zip(kept).map(|(states, kept)| vec![states, kept]);
        (
            self.output.forward(self.norm.by_groups(y, self.groups)),
            state,
        )
    }
}
