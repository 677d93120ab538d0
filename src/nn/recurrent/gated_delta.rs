//! The layer of gated delta networks (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464, section 3) and, without decay,
//! of DeltaNet (Yang et al. 2024, arXiv:2406.06484, section 3).
//!
//! (q, k, v) = silu(conv(W x)); β = σ(W_β x), twice that with negative eigenvalues (Grazzi et al. 2024, arXiv:2411.12537);
//! α = exp(−e^a_log·softplus(W_Δ x + b_Δ)); o of `kernel::delta_rule`; y = W_o (norm(o)⊙silu(W_z x)) with a norm over each head under one
//! scale.
//!
//! Initial values are those of the authors' code: e^a_log is uniform up to 16, and b_Δ puts the first steps between 0.001 and 0.1, as
//! in [`super::mamba`]. b_Δ and a_log are vectors, which `decay = "matrices"` passes over. The taps of the convolution are a matrix by
//! their shape alone: Muon takes them for one unless `[optimizer] matrices` leaves `\.conv$` out.

use super::Kind;
use super::advancing::{Advancing, Beside};
use super::mamba::first_step;
use crate::faults::{TableFaults, WIDEST};
use crate::kernel::delta_rule::{CHUNK, DeltaRule, delta_rule};
use crate::kernel::short_convolution::{ShortConvolution, short_convolution};
use crate::kernel::{self, Activation, Operand, Sequences, composed::softplus};
use crate::nn::init::{Init, Role};
use crate::nn::linear::Linear;
use crate::nn::norm::RmsNorm;
use crate::nn::role::{Roles, WEIGHT};
use crate::nn::token_shift::newest;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "gated_delta",
    summary: "a decaying map of keys to values that each position corrects towards its own value (gated delta rule), behind a short convolution",
    source: "Yang, Kautz and Hatamizadeh 2024, section 3",
    example: "{ kind = \"gated_delta\", n_heads = 4, d_key = 64, d_value = 128 }",
};

/// Heads, numbers of a key or a value, and taps, at most.
const MOST: usize = 1024;

/// The range that e^a_log is drawn from at first; the least keeps its logarithm finite.
const FIRST_DECAYS: [f32; 2] = [0.01, 16.0];

/// The bounds of first steps.
const FIRST_STEPS: [f64; 2] = [1e-3, 0.1];

/// The knobs of the layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatedDeltaConfig {
    /// Heads, each a map of keys to values.
    #[schemars(range(min = 1, max = MOST))]
    pub n_heads: usize,
    /// Heads of queries and keys, a divisor of `n_heads`; `n_heads` when absent.
    #[schemars(range(min = 1, max = MOST))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_key_heads: Option<usize>,
    /// Numbers of a query and of a key; d_model / n_heads when absent.
    #[schemars(range(min = 1, max = MOST))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_key: Option<usize>,
    /// Numbers of a value; d_model / n_heads when absent.
    #[schemars(range(min = 1, max = MOST))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_value: Option<usize>,
    /// Positions that the convolution sees. Source: Yang et al. 2024, section 3.
    #[schemars(range(min = 1, max = MOST))]
    pub d_conv: usize,
    /// Whether states decay; without it this is DeltaNet. Source: Yang, Kautz and Hatamizadeh 2024, section 3.
    pub decay: bool,
    /// Whether a gate multiplies the results of heads. Source: Yang, Kautz and Hatamizadeh 2024, section 3.
    pub gate: bool,
    /// Whether β goes up to 2, so that a position may turn what it corrects around. Source: Grazzi et al. 2024.
    pub negative_eigenvalues: bool,
    /// Added to the mean square of the norm before the last map.
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
    /// Heads of queries and keys.
    pub fn n_key_heads(&self) -> usize {
        self.n_key_heads.unwrap_or(self.n_heads)
    }

    /// Numbers of a key in a model of width `d_model`.
    pub fn d_key(&self, d_model: usize) -> usize {
        self.d_key.unwrap_or(d_model / self.n_heads.max(1))
    }

    /// Numbers of a value in a model of width `d_model`.
    pub fn d_value(&self, d_model: usize) -> usize {
        self.d_value.unwrap_or(d_model / self.n_heads.max(1))
    }

    /// Numbers of the values of all heads in a model of width `d_model`.
    pub fn channels(&self, d_model: usize) -> usize {
        self.n_heads.saturating_mul(self.d_value(d_model))
    }

    /// Channels of the convolution in a model of width `d_model`: queries, keys and values.
    pub fn mixed(&self, d_model: usize) -> usize {
        let keys = self.n_key_heads().saturating_mul(self.d_key(d_model));
        keys.saturating_mul(2)
            .saturating_add(self.channels(d_model))
    }

    /// Faults of its keys in a model of width `d_model`, when that is sound.
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
            // A fault of the heads is said once.
            if key != "n_key_heads" || self.n_key_heads.is_some() {
                sound &= at.count(key, value, MOST);
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
                "d_model = {d_model} is not a multiple of n_heads = {n_heads}; change one, or give {key}"
            );
            return at.fault(&["n_heads", "model.d_model"], rule);
        }
        let mixed = self.mixed(d_model);
        if mixed > WIDEST {
            let rule = format!(
                "queries, keys and values have {mixed} numbers; at most {WIDEST} can be had"
            );
            at.fault(&["n_heads"], rule);
        }
    }

    /// Numbers that are kept of each position for the backward pass: what is mixed before and after the convolution, results before
    /// and after norm and gate, the gate, β and decays with what they are made of, and the states before each chunk of positions.
    pub fn kept(&self, d_model: usize) -> u128 {
        let (channels, mixed) = (self.channels(d_model) as u128, self.mixed(d_model) as u128);
        let states = (channels * self.d_key(d_model) as u128).div_ceil(CHUNK as u128);
        let gates = if self.gate { 2 * channels } else { 0 };
        let numbers = if self.decay { 6 } else { 2 };
        2 * mixed + 2 * channels + gates + numbers * self.n_heads as u128 + states
    }

    /// Multiplications of a forward pass for each position in products of matrices and convolutions: maps, taps, and the states
    /// that the key and the query read.
    pub fn products(&self, d_model: usize) -> u128 {
        let (d, channels) = (d_model as u128, self.channels(d_model) as u128);
        let (mixed, heads) = (self.mixed(d_model) as u128, self.n_heads as u128);
        let gate = if self.gate { channels } else { 0 };
        let decay = if self.decay { heads } else { 0 };
        let maps = (mixed + gate + heads + decay + channels) * d;
        maps + mixed * self.d_conv as u128 + 2 * channels * self.d_key(d_model) as u128
    }

    /// Widths of the vectors of its state.
    pub fn state_widths(&self, d_model: usize) -> Vec<usize> {
        let states = self.d_key(d_model) * self.channels(d_model);
        vec![states, (self.d_conv - 1) * self.mixed(d_model)]
    }
}

/// What the parameters of [`GatedDelta`] are.
pub const ROLES: Roles = Roles::new("GatedDelta", &[("conv", WEIGHT)]);

/// The layer with its parameters. H is the number of heads, G of key heads, K and V those of a key's and a value's numbers.
#[derive(Module, Debug)]
pub struct GatedDelta {
    /// W, `[2GK + HV, d_model]`: queries, then keys, then values.
    pub input: Linear,
    /// W_z, `[HV, d_model]`.
    pub gate: Option<Linear>,
    /// W_β, `[H, d_model]`.
    pub beta: Linear,
    /// What α is made of.
    pub decay: Option<Decay>,
    /// Taps of the convolution, `[2GK + HV, d_conv]`; the last one is of the position itself.
    pub conv: Param<Tensor<2>>,
    /// Over V numbers.
    pub norm: RmsNorm,
    /// W_o, `[d_model, HV]`.
    pub output: Linear,
    d_key: usize,
    key_heads: usize,
    negative: bool,
}

/// What the parameters of [`Decay`] are.
pub const DECAY_ROLES: Roles = Roles::new("Decay", &[("a_log", WEIGHT)]);

/// How far the states of H heads decay at each position.
#[derive(Module, Debug)]
pub struct Decay {
    /// W_Δ and b_Δ, `[H, d_model]`.
    pub step: Linear,
    /// `[H]`.
    pub a_log: Param<Tensor<1>>,
}

impl Decay {
    fn new(d_model: usize, heads: usize, init: &Init) -> Self {
        let [least, most] = FIRST_DECAYS;
        Self {
            step: Linear {
                weight: init.linear(d_model, heads, Role::Inner),
                bias: Some(init.uniform([heads], first_step(FIRST_STEPS))),
            },
            a_log: init.uniform([heads], move |x| (least + x * (most - least)).ln()),
        }
    }

    /// ln α, `[batch, seq, H]`.
    fn logarithms(&self, x: Operand) -> Tensor<3> {
        let rate = self.a_log.val().exp().neg();
        softplus(self.step.of(x)) * rate.reshape([1, 1, -1])
    }
}

impl GatedDelta {
    /// The layer for vectors of `d_model` elements.
    pub fn new(config: &GatedDeltaConfig, d_model: usize, init: &Init) -> Self {
        let (channels, mixed) = (config.channels(d_model), config.mixed(d_model));
        let heads = config.n_heads;
        // As torch draws a convolution's taps.
        let taps = 1.0 / (config.d_conv.max(1) as f32).sqrt();
        let map = |d_out, role| Linear::new(d_model, d_out, false, role, init);
        Self {
            input: map(mixed, Role::Value),
            gate: config.gate.then(|| map(channels, Role::Value)),
            beta: map(heads, Role::Inner),
            decay: config.decay.then(|| Decay::new(d_model, heads, init)),
            conv: init.uniform([mixed, config.d_conv], move |x| taps * (2.0 * x - 1.0)),
            norm: RmsNorm::new(config.d_value(d_model), config.norm_eps, init),
            output: Linear::new(channels, d_model, false, Role::Residual, init),
            d_key: config.d_key(d_model),
            key_heads: config.n_key_heads(),
            negative: config.negative_eigenvalues,
        }
    }
}

/// The state is the maps of all heads, and the newest inputs of the convolution.
impl Advancing for GatedDelta {
    fn advance(
        &self,
        x: Tensor<3>,
        state: Option<Vec<Tensor<2>>>,
        sequences: &Sequences,
        last: bool,
        _: &Beside<'_>,
    ) -> (Tensor<3>, Option<Vec<Tensor<2>>>) {
        let mut state = state.into_iter().flatten();
        let (states, before) = (state.next(), state.next());
        let [_, taps] = self.conv.dims();
        let x = Operand::new(x);
        let mixed = self.input.of(x.clone());
        let gate = self.gate.as_ref().map(|gate| gate.of(x.clone()));
        let beta = sigmoid(self.beta.of(x.clone()));
        let kept = last.then(|| newest(&mixed, before.clone(), sequences, taps - 1));
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
            decay: self.decay.as_ref().map(|decay| decay.logarithms(x)),
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
