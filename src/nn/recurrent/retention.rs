//! The layer of retentive networks (Sun et al. 2023, arXiv:2307.08621, sections 2.1 and 2.2): multi-scale retention.
//!
//! (q, k, v) = W x; q and k of position n are rotated by the angles n·θ, and k is multiplied by 1/√K; the states of head h are
//! S' = γ_h S + k vᵀ with γ_h = 1 − 2^(−5−h); y = W_o (norm(S'ᵀq)⊙silu(W_z x)) with a norm without a scale over each head.
//!
//! This is the state space of [`crate::kernel::ssd`] with steps of 1, where x is v, b is k and c is q. The angles count from a
//! pass's first position. A stored state is rotated back by the number of positions of its row, so that the next pass can count
//! from 0 again.

use super::Kind;
use super::stateful::{MixerContext, StatefulMixer};
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel::ssd::{CHUNK, Ssd, ssd};
use crate::kernel::{self, Activation, Operand, Sequences, replay};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::norm::{RmsNorm, RmsNormConfig};
use crate::nn::pass::tables::Angles;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "retention",
    summary: "key-value state with a fixed decay per head (multi-scale retention), with rotation, gate and norm",
    source: "Sun et al. 2023, section 2.2",
    example: "{ kind = \"retention\", n_heads = 4 }",
};

/// Maximum width of a key or a value.
const MAX_HEAD_WIDTH: usize = 1024;

/// Maximum number of heads: γ of further heads would round to 1 in 32 bits.
const MAX_HEADS: usize = 18;

/// ln(e − 1), whose softplus is a step of 1.
const UNIT_STEP_BIAS: f32 = 0.541_324_85;

/// Settings of retention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionConfig {
    /// Number of heads, each with its own rate of decay. Source: Sun et al. 2023, equation 8.
    #[schemars(range(min = 1, max = MAX_HEADS))]
    pub n_heads: usize,
    /// Width of queries and keys of a head; d_model / n_heads when absent.
    #[schemars(range(min = 1, max = MAX_HEAD_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_key: Option<usize>,
    /// Width of values of a head; 2·d_model / n_heads when absent. Source: Sun et al. 2023, section 3.1.
    #[schemars(range(min = 1, max = MAX_HEAD_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_value: Option<usize>,
    /// Whether queries and keys are rotated by their positions. Source: Sun et al. 2023, equation 5.
    pub rotation: bool,
    /// Base of the angles' wavelengths.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub theta: f64,
    /// Whether a gate multiplies the results of heads. Source: Sun et al. 2023, equation 8.
    pub gate: bool,
    /// Added to the mean square in the norm before the last map.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub norm_eps: f64,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self {
            n_heads: 4,
            d_key: None,
            d_value: None,
            rotation: true,
            theta: 10_000.0,
            gate: true,
            norm_eps: 1e-6,
        }
    }
}

impl RetentionConfig {
    /// Returns the width of a head's keys in a model of width `d_model`.
    pub fn d_key(&self, d_model: usize) -> usize {
        self.d_key.unwrap_or(d_model / self.n_heads.max(1))
    }

    /// Returns the width of a head's values in a model of width `d_model`.
    pub fn d_value(&self, d_model: usize) -> usize {
        let twice = d_model.saturating_mul(2) / self.n_heads.max(1);
        self.d_value.unwrap_or(twice)
    }

    /// Returns the width of the values of all heads in a model of width `d_model`.
    pub fn channels(&self, d_model: usize) -> usize {
        self.n_heads.saturating_mul(self.d_value(d_model))
    }

    /// Returns the width of queries, keys and values of all heads in a model of width `d_model`.
    pub fn qkv_width(&self, d_model: usize) -> usize {
        let keys = self.n_heads.saturating_mul(self.d_key(d_model));
        keys.saturating_mul(2)
            .saturating_add(self.channels(d_model))
    }

    /// Reports invalid settings; `d_model` is the model's width, if that is valid.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) {
        let counts = [
            ("n_heads", self.n_heads, MAX_HEADS),
            ("d_key", self.d_key.unwrap_or(1), MAX_HEAD_WIDTH),
            ("d_value", self.d_value.unwrap_or(1), MAX_HEAD_WIDTH),
        ];
        let mut sound = true;
        for (key, value, most) in counts {
            sound &= at.count(key, value, most);
        }
        if let Some(d_model) = d_model.filter(|_| sound) {
            self.faults_of_sizes(d_model, at);
        }
        at.positive("theta", self.theta);
        at.positive("norm_eps", self.norm_eps);
    }

    fn faults_of_sizes(&self, d_model: usize, at: &mut TableFaults) {
        let n_heads = self.n_heads;
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
        let d_key = self.d_key(d_model);
        if self.rotation && !d_key.is_multiple_of(2) {
            let rule = format!(
                "rotation acts on pairs of elements, but d_key = {d_key} is odd; change it, or set rotation = false"
            );
            let key = if self.d_key.is_some() {
                "d_key"
            } else {
                "n_heads"
            };
            return at.fault(&[key], rule);
        }
        let mixed = self.qkv_width(d_model);
        if mixed > MAX_WIDTH {
            let rule = format!(
                "queries, keys and values have {mixed} elements; at most {MAX_WIDTH} are allowed"
            );
            at.fault(&["n_heads"], rule);
        }
    }

    /// Returns how many values per position are kept for the backward pass: queries, keys and values before and after the
    /// rotation, results before and after norm and gate, the gate, steps, and the states before each chunk of positions.
    pub fn activations(&self, d_model: usize) -> u128 {
        let (channels, mixed) = (
            self.channels(d_model) as u128,
            self.qkv_width(d_model) as u128,
        );
        let states = (channels * self.d_key(d_model) as u128).div_ceil(CHUNK as u128);
        let gates = if self.gate { 2 * channels } else { 0 };
        2 * mixed + 2 * channels + gates + self.n_heads as u128 + states
    }

    /// Returns the multiplications per position of a forward pass in matrix products: maps, and the reads of the states by the
    /// query.
    pub fn products(&self, d_model: usize) -> u128 {
        let (d, channels) = (d_model as u128, self.channels(d_model) as u128);
        let gate = if self.gate { channels } else { 0 };
        let maps = (self.qkv_width(d_model) as u128 + gate + channels) * d;
        maps + channels * self.d_key(d_model) as u128
    }

    /// Returns the widths of the layer's state vectors.
    pub fn state_widths(&self, d_model: usize) -> Vec<usize> {
        vec![self.d_key(d_model) * self.channels(d_model)]
    }
}

/// The layer with its parameters. H is the number of heads, K and V the widths of a key and a value.
#[derive(Module, Debug)]
pub struct Retention {
    /// W, `[2HK + HV, d_model]`: queries, then keys, then values.
    pub input: Linear,
    /// W_z, `[HV, d_model]`.
    pub gate: Option<Linear>,
    /// Norm over the V elements of a head's result, without a scale.
    pub norm: RmsNorm,
    /// W_o, `[d_model, HV]`.
    pub output: Linear,
    heads: usize,
    d_key: usize,
    /// Base of the angles' wavelengths, if there is a rotation.
    #[module(skip)]
    theta: Option<f64>,
}

impl Retention {
    /// Builds the layer for vectors of `d_model` elements.
    pub fn new(config: &RetentionConfig, d_model: usize, init: &Init) -> Self {
        let channels = config.channels(d_model);
        let map = |d_out| Linear::new(d_model, d_out, false, MatrixRole::Value, init);
        let norm = RmsNormConfig {
            eps: config.norm_eps,
            gain: false,
            ..RmsNormConfig::default()
        };
        Self {
            input: map(config.qkv_width(d_model)),
            gate: config.gate.then(|| map(channels)),
            norm: norm.init(config.d_value(d_model), init),
            output: Linear::new(channels, d_model, false, MatrixRole::Residual, init),
            heads: config.n_heads,
            d_key: config.d_key(d_model),
            theta: config.rotation.then_some(config.theta),
        }
    }

    /// Returns ln γ of all heads, `[H]`.
    fn decays(&self, device: &Device) -> Tensor<1> {
        let rate = |head: usize| (-(2.0_f64).powi(-5 - head as i32)).ln_1p() as f32;
        let rates: Vec<f32> = (0..self.heads).map(rate).collect();
        replay::floats(TensorData::new(rates, [self.heads]), device)
    }

    /// Returns the angles of the pairs of queries and keys at these positions.
    fn angles(&self, theta: f64, positions: Vec<usize>) -> Angles {
        Angles {
            theta,
            numbers: self.d_key,
            positions,
        }
    }

    /// Rotates queries or keys of all heads, `[batch, seq, HK]`, by their positions.
    fn rotate(&self, x: Tensor<3>, [cos, sin]: [Tensor<2>; 2]) -> Tensor<3> {
        let [batch, seq, width] = x.dims();
        let x = x.reshape([batch, seq, self.heads, self.d_key]);
        let x = kernel::rotary(x.swap_dims(1, 2), cos, sin, true);
        x.swap_dims(1, 2).reshape([batch, seq, width])
    }

    /// Rotates states `[batch, K·HV]`, with a key's elements outermost, by −n·θ, where n is the number of positions that each row
    /// has read: the next pass counts positions from 0.
    fn rotate_state_back(&self, states: Tensor<2>, theta: f64, positions: Vec<usize>) -> Tensor<2> {
        let ([batch, numbers], pairs) = (states.dims(), self.d_key / 2);
        let channels = numbers / self.d_key;
        let tables = self.angles(theta, positions).tables(&states.device());
        let [cos, sin] = tables.map(|x| x.cast(states.dtype()).reshape([batch, pairs, 1]));
        let states = states.reshape([batch, pairs, 2, channels]);
        let [x, y] = [0, 1].map(|i| states.clone().narrow(2, i, 1).squeeze_dim::<3>(2));
        let turned = [
            x.clone() * cos.clone() + y.clone() * sin.clone(),
            y * cos - x * sin,
        ];
        let turned = turned.map(|x| x.unsqueeze_dim::<4>(2)).to_vec();
        Tensor::cat(turned, 2).reshape([batch, numbers])
    }
}

/// The state consists of the maps of all heads.
impl StatefulMixer for Retention {
    fn advance(
        &self,
        x: Tensor<3>,
        state: Option<Vec<Tensor<2>>>,
        sequences: &Sequences,
        last: bool,
        beside: &MixerContext<'_>,
    ) -> (Tensor<3>, Option<Vec<Tensor<2>>>) {
        let ([batch, seq, _], device, dtype) = (x.dims(), x.device(), x.dtype());
        let tables = self.theta.map(|theta| {
            let angles = self.angles(theta, (0..seq).collect());
            beside.pass.tables(angles, &x)
        });
        let x = Operand::new(x);
        let mixed = self.input.forward_operand(x.clone());
        let keys = self.heads * self.d_key;
        let [_, _, width] = mixed.dims();
        let [q, k] = [0, keys].map(|from| mixed.clone().narrow(2, from, keys));
        let values = mixed.narrow(2, 2 * keys, width - 2 * keys);
        let k = k * (self.d_key as f64).sqrt().recip();
        let [q, k] = match tables {
            Some(tables) => [q, k].map(|x| self.rotate(x, tables.clone())),
            None => [q, k],
        };
        let space = Ssd {
            mixed: Tensor::cat(vec![values, k, q], 2),
            raw: Tensor::full([batch, seq, self.heads], UNIT_STEP_BIAS, (&device, dtype)),
            decay: self.decays(&device).cast(dtype),
            skip: Tensor::zeros([self.heads], (&device, dtype)),
            state: state.into_iter().flatten().next(),
            groups: self.heads,
            d_state: self.d_key,
            limits: None,
        };
        let (y, states) = ssd(space, sequences, last);
        let y = self.norm.by_parts(y, self.heads);
        let y = match &self.gate {
            Some(gate) => kernel::gated(gate.forward_operand(x), y, Activation::Silu),
            None => y,
        };
        let states = states.map(|states| match self.theta {
            Some(theta) => {
                let read = |row: usize| {
                    sequences
                        .lengths
                        .as_ref()
                        .map_or(seq, |all| all[row].min(seq))
                };
                let read: Vec<usize> = (0..batch).map(read).collect();
                self.rotate_state_back(states, theta, read)
            }
            None => states,
        });
        (self.output.forward(y), states.map(|states| vec![states]))
    }
}
