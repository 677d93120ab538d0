//! The layer of gated delta networks (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464, section 3) and, without decay, of
//! DeltaNet (Yang et al. 2024, arXiv:2406.06484, section 3).
//!
//! (q, k, v) = silu(conv(W x)); β = σ(W_β x), or twice that with negative eigenvalues (Grazzi et al. 2024, arXiv:2411.12537);
//! α = exp(−e^a_log·softplus(W_Δ x + b_Δ)); o is the result of `kernel::delta_rule`; y = W_o (norm(o)⊙silu(W_z x)) with a norm
//! over each head, all heads sharing one scale.
//!
//! Initial values are those of the authors' code: e^a_log is uniform up to 16, and b_Δ sets the initial steps between 0.001 and
//! 0.1, as in [`super::mamba`]. b_Δ and a_log are vectors, which `decay = "matrices"` skips. The taps of the convolution are a
//! matrix only by their shape: Muon treats them as one unless `[optimizer] matrices` excludes `\.conv$`.

use super::Kind;
use super::mamba::initial_step_bias;
use super::stateful::{MixerContext, StatefulMixer};
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel::delta_rule::{CHUNK, DeltaRule, delta_rule};
use crate::kernel::short_convolution::{ShortConvolution, short_convolution};
use crate::kernel::{self, Activation, Operand, Sequences, composed::softplus};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::norm::RmsNorm;
use crate::nn::role::{Roles, WEIGHT};
use crate::nn::token_shift::last_positions;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "gated_delta",
    summary: "a decaying key-value state that each position corrects (gated delta rule), after a short convolution",
    source: "Yang, Kautz and Hatamizadeh 2024, section 3",
    example: "{ kind = \"gated_delta\", n_heads = 4, d_key = 64, d_value = 128 }",
};

/// Maximum number of heads, of elements of a key or a value, and of taps.
const MAX_SIZE: usize = 1024;

/// The range from which e^a_log is initially drawn; its minimum keeps the logarithm finite.
const INITIAL_DECAYS: [f32; 2] = [0.01, 16.0];

/// The range of initial steps.
const INITIAL_STEPS: [f64; 2] = [1e-3, 0.1];

/// Settings of the gated delta rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatedDeltaConfig {
    /// Number of heads, each a map of keys to values.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    pub n_heads: usize,
    /// Number of heads of queries and keys, a divisor of `n_heads`; `n_heads` when absent.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_key_heads: Option<usize>,
    /// Width of queries and keys of a head; d_model / n_heads when absent.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_key: Option<usize>,
    /// Width of values of a head; d_model / n_heads when absent.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_value: Option<usize>,
    /// Number of positions that the convolution sees. Source: Yang et al. 2024, section 3.
    #[schemars(range(min = 1, max = MAX_SIZE))]
    pub d_conv: usize,
    /// Whether states decay; without it this is DeltaNet. Source: Yang, Kautz and Hatamizadeh 2024, section 3.
    pub decay: bool,
    /// Whether a gate multiplies the results of heads. Source: Yang, Kautz and Hatamizadeh 2024, section 3.
    pub gate: bool,
    /// Whether β ranges up to 2 instead of 1, so that a position may reverse what it corrects. Source: Grazzi et al. 2024.
    pub negative_eigenvalues: bool,
    /// Added to the mean square in the norm before the last map.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub norm_eps: f64,
}

impl Default for GatedDeltaConfig {
    fn default() -> Self {
        Self {
            n_heads: 4,
            n_key_heads: None,
            d_key: None,
            d_value: None,
            d_conv: 4,
            decay: true,
            gate: true,
            negative_eigenvalues: false,
            norm_eps: 1e-5,
        }
    }
}

impl GatedDeltaConfig {
    /// Returns the number of heads of queries and keys.
    pub fn n_key_heads(&self) -> usize {
        self.n_key_heads.unwrap_or(self.n_heads)
    }

    /// Returns the width of a head's keys in a model of width `d_model`.
    pub fn d_key(&self, d_model: usize) -> usize {
        self.d_key.unwrap_or(d_model / self.n_heads.max(1))
    }

    /// Returns the width of a head's values in a model of width `d_model`.
    pub fn d_value(&self, d_model: usize) -> usize {
        self.d_value.unwrap_or(d_model / self.n_heads.max(1))
    }

    /// Returns the width of the values of all heads in a model of width `d_model`.
    pub fn channels(&self, d_model: usize) -> usize {
        self.n_heads.saturating_mul(self.d_value(d_model))
    }

    /// Returns the number of channels of the convolution in a model of width `d_model`: queries, keys and values.
    pub fn convolution_channels(&self, d_model: usize) -> usize {
        let keys = self.n_key_heads().saturating_mul(self.d_key(d_model));
        keys.saturating_mul(2)
            .saturating_add(self.channels(d_model))
    }

    /// Reports invalid settings; `d_model` is the model's width, if that is valid.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) {
        let counts = [
            ("n_heads", self.n_heads),
            ("n_key_heads", self.n_key_heads()),
            ("d_key", self.d_key.unwrap_or(1)),
            ("d_value", self.d_value.unwrap_or(1)),
            ("d_conv", self.d_conv),
        ];
        let mut sound = true;
        for (key, value) in counts {
            // A fault of the heads is reported only once.
            if key != "n_key_heads" || self.n_key_heads.is_some() {
                sound &= at.count(key, value, MAX_SIZE);
            }
        }
        if sound {
            self.faults_of_heads(d_model, at);
        }
        at.positive("norm_eps", self.norm_eps);
    }

    fn faults_of_heads(&self, d_model: Option<usize>, at: &mut TableFaults) {
        let (n_heads, n_key_heads) = (self.n_heads, self.n_key_heads());
        if !n_heads.is_multiple_of(n_key_heads) {
            let rule =
                format!("n_heads = {n_heads} is not a multiple of n_key_heads = {n_key_heads}");
            at.fault(&["n_heads", "n_key_heads"], rule);
        }
        let Some(d_model) = d_model else { return };
        let absent = [("d_key", self.d_key), ("d_value", self.d_value)];
        let absent = absent.iter().find(|(_, width)| width.is_none());
        if let Some((key, _)) = absent
            && !d_model.is_multiple_of(n_heads)
        {
            let rule = format!(
                "d_model = {d_model} is not a multiple of n_heads = {n_heads}; change one, or set {key}"
            );
            return at.fault(&["n_heads", "model.d_model"], rule);
        }
        let mixed = self.convolution_channels(d_model);
        if mixed > MAX_WIDTH {
            let rule = format!(
                "queries, keys and values have {mixed} elements; at most {MAX_WIDTH} are allowed"
            );
            at.fault(&["n_heads"], rule);
        }
    }

    /// Returns how many values per position are kept for the backward pass: queries, keys and values before and after the
    /// convolution, results before and after norm and gate, the gate, β and decays with the values they are computed from, and
    /// the states before each chunk of positions.
    pub fn activations(&self, d_model: usize) -> u128 {
        let (channels, mixed) = (
            self.channels(d_model) as u128,
            self.convolution_channels(d_model) as u128,
        );
        let states = (channels * self.d_key(d_model) as u128).div_ceil(CHUNK as u128);
        let gates = if self.gate { 2 * channels } else { 0 };
        let numbers = if self.decay { 6 } else { 2 };
        2 * mixed + 2 * channels + gates + numbers * self.n_heads as u128 + states
    }

    /// Returns the multiplications per position of a forward pass in matrix products and convolutions: maps, taps, and the reads
    /// of the states by key and query.
    pub fn products(&self, d_model: usize) -> u128 {
        let (d, channels) = (d_model as u128, self.channels(d_model) as u128);
        let (mixed, heads) = (
            self.convolution_channels(d_model) as u128,
            self.n_heads as u128,
        );
        let gate = if self.gate { channels } else { 0 };
        let decay = if self.decay { heads } else { 0 };
        let maps = (mixed + gate + heads + decay + channels) * d;
        maps + mixed * self.d_conv as u128 + 2 * channels * self.d_key(d_model) as u128
    }

    /// Returns the widths of the layer's state vectors.
    pub fn state_widths(&self, d_model: usize) -> Vec<usize> {
        let states = self.d_key(d_model) * self.channels(d_model);
        vec![
            states,
            (self.d_conv - 1) * self.convolution_channels(d_model),
        ]
    }
}

/// Roles of the parameters of [`GatedDelta`].
pub const ROLES: Roles = Roles::new("GatedDelta", &[("conv", WEIGHT)]);

/// The layer with its parameters. H is the number of heads, G of key heads, K and V the widths of a key and a value.
#[derive(Module, Debug)]
pub struct GatedDelta {
    /// W, `[2GK + HV, d_model]`: queries, then keys, then values.
    pub input: Linear,
    /// W_z, `[HV, d_model]`.
    pub gate: Option<Linear>,
    /// W_β, `[H, d_model]`.
    pub beta: Linear,
    /// The parameters of α.
    pub decay: Option<Decay>,
    /// Taps of the convolution, `[2GK + HV, d_conv]`; the last one is for the position itself.
    pub conv: Param<Tensor<2>>,
    /// Norm over the V elements of a head's result.
    pub norm: RmsNorm,
    /// W_o, `[d_model, HV]`.
    pub output: Linear,
    d_key: usize,
    key_heads: usize,
    negative: bool,
}

/// Roles of the parameters of [`Decay`].
pub const DECAY_ROLES: Roles = Roles::new("Decay", &[("a_log", WEIGHT)]);

/// The decay of the states of H heads at each position.
#[derive(Module, Debug)]
pub struct Decay {
    /// W_Δ and b_Δ, `[H, d_model]`.
    pub step: Linear,
    /// a_log, `[H]`.
    pub a_log: Param<Tensor<1>>,
}

impl Decay {
    fn new(d_model: usize, heads: usize, init: &Init) -> Self {
        let [least, most] = INITIAL_DECAYS;
        Self {
            step: Linear {
                weight: init.linear(d_model, heads, MatrixRole::Inner),
                bias: Some(init.uniform([heads], initial_step_bias(INITIAL_STEPS))),
            },
            a_log: init.uniform([heads], move |x| (least + x * (most - least)).ln()),
        }
    }

    /// Returns ln α, `[batch, seq, H]`.
    fn log_decays(&self, x: Operand) -> Tensor<3> {
        let rate = self.a_log.val().exp().neg();
        softplus(self.step.forward_operand(x)) * rate.reshape([1, 1, -1])
    }
}

impl GatedDelta {
    /// Builds the layer for vectors of `d_model` elements.
    pub fn new(config: &GatedDeltaConfig, d_model: usize, init: &Init) -> Self {
        let (channels, mixed) = (
            config.channels(d_model),
            config.convolution_channels(d_model),
        );
        let heads = config.n_heads;
        // Taps are drawn as in torch.
        let taps = 1.0 / (config.d_conv.max(1) as f32).sqrt();
        let map = |d_out, role| Linear::new(d_model, d_out, false, role, init);
        Self {
            input: map(mixed, MatrixRole::Value),
            gate: config.gate.then(|| map(channels, MatrixRole::Value)),
            beta: map(heads, MatrixRole::Inner),
            decay: config.decay.then(|| Decay::new(d_model, heads, init)),
            conv: init.uniform([mixed, config.d_conv], move |x| taps * (2.0 * x - 1.0)),
            norm: RmsNorm::new(config.d_value(d_model), config.norm_eps, init),
            output: Linear::new(channels, d_model, false, MatrixRole::Residual, init),
            d_key: config.d_key(d_model),
            key_heads: config.n_key_heads(),
            negative: config.negative_eigenvalues,
        }
    }
}

/// The state consists of the maps of all heads and the newest inputs of the convolution.
impl StatefulMixer for GatedDelta {
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
        let mixed = self.input.forward_operand(x.clone());
        let gate = self
            .gate
            .as_ref()
            .map(|gate| gate.forward_operand(x.clone()));
        let beta = sigmoid(self.beta.forward_operand(x.clone()));
        let kept = last.then(|| last_positions(&mixed, before.clone(), sequences, taps - 1));
        let convolution = ShortConvolution {
            x: mixed,
            weight: self.conv.val(),
            bias: None,
            before: before.filter(|_| taps > 1),
            silu: true,
        };
        let [_, _, heads] = beta.dims();
        let rule = DeltaRule {
            mixed: short_convolution(convolution, sequences),
            beta: if self.negative { beta * 2.0 } else { beta },
            decay: self.decay.as_ref().map(|decay| decay.log_decays(x)),
            state: states,
            n_key_heads: self.key_heads,
            d_key: self.d_key,
        };
        let (y, states) = delta_rule(rule, sequences, last);
        let y = self.norm.by_parts(y, heads);
        let y = match gate {
            Some(gate) => kernel::gated(gate, y, Activation::Silu),
            None => y,
        };
        let state = states.zip(kept).map(|(states, kept)| vec![states, kept]);
        (self.output.forward(y), state)
    }
}
