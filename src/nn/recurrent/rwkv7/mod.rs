//! RWKV's time mixing, version 7 (Peng et al. 2025, arXiv:2503.14456, section 4.1): a generalised delta rule whose decays and
//! in-context learning rates depend on the input, after mixes of each position with the one before it.
//!
//! ```text
//! x_□ = μ_□⊙x_t + (1 − μ_□)⊙x_{t−1} for r, w, k, v, a and g, each with its own μ
//! r, k, v = W_□ x_□
//! v ← v + (v₁ − v)⊙σ(v₀ + B_v A_v x_v), with v₁ of the stack's first such layer
//! w = exp(−e^{−1/2}·σ(w₀ + B_w tanh(A_w x_w)))    η = σ(a₀ + B_a A_a x_a)    g = B_g σ(A_g x_g)
//! κ = k⊙ξ, brought to length 1 in each head         k̃ = k⊙(1 + (η − 1)⊙α)
//! S_t = S_{t−1}(diag(w) − κ(η⊙κ)ᵀ) + v k̃ᵀ          o = S_t r
//! y = W_o(g⊙(norm(o) + (Σ r⊙k̃⊙ρ) v)), norm and sum over each head
//! ```
//!
//! S and o are those of [`crate::kernel::generalized_delta`]; the width of all heads together is d_model. v₁ is passed from layer
//! to layer by [`crate::nn::first_values`]; a layer that computes with the first layer's parameters has no gate for it.
//!
//! Initial values of μ, w₀, a₀, v₀, ξ, α, ρ and of the norm's scale are those of the authors' code and depend on the channel and
//! the layer. W and A are drawn like all matrices of a model (in the authors' code W_o and A begin at zero, and keys ten times
//! smaller than receptances). B is drawn uniformly with the variance of the orthogonal matrices there, so that every parameter
//! learns from the first step.

mod config;
mod initial;

use super::Kind;
use super::stateful::{MixerContext, StatefulMixer};
use crate::kernel::generalized_delta::{GeneralizedDelta, generalized_delta};
use crate::kernel::{Activation, Operand, Sequences};
use crate::nn::first_values::FirstValues;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::layer::BlockShape;
use crate::nn::linear::Linear;
use crate::nn::norm::LayerNorm;
use crate::nn::role::{Roles, WEIGHT};
use crate::nn::token_shift::{Mix, last_positions, mix_exponent};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
pub use config::Rwkv7Config;
use initial::Channel;

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "rwkv7",
    summary: "key-value state that decays and is corrected at a rate per channel (RWKV-7), after a mix of neighbours",
    source: "Peng et al. 2025, section 4.1",
    example: "{ kind = \"rwkv7\", d_head = 64 }",
};

/// Maximum of −ln w: e^{−1/2}.
const MAX_DECAY_RATE: f64 = 0.606_530_659_712_633_4;

/// The square of the smallest length by which a key is divided: torch's `normalize` uses 1e-12.
const MIN_SQUARED_LENGTH: f64 = 1e-24;

/// Initial size of B, relative to an orthogonal matrix.
const INITIAL_SCALE: f32 = 0.1;

/// A low-rank map B act(A x) plus a vector.
#[derive(Module, Debug)]
pub struct LowRank {
    /// A, `[rank, d_model]`.
    pub down: Linear,
    /// B, `[d_model, rank]`; its bias is the added vector.
    pub up: Linear,
}

impl LowRank {
    fn new(d: usize, rank: usize, added: Option<Param<Tensor<1>>>, init: &Init) -> Self {
        let bound = INITIAL_SCALE * (3.0 / d as f32).sqrt();
        Self {
            down: Linear::new(d, rank, false, MatrixRole::Inner, init),
            up: Linear {
                weight: init.uniform([d, rank], move |x| bound * (2.0 * x - 1.0)),
                bias: added,
            },
        }
    }

    /// Returns σ(B x + …) for `x` in the low rank.
    fn sigmoid_output(&self, x: Tensor<3>) -> Tensor<3> {
        self.up.forward_activated(x, Activation::Sigmoid)
    }
}

/// Roles of the parameters of [`Rwkv7`].
pub const ROLES: Roles = Roles::new(
    "Rwkv7",
    &[("removed", WEIGHT), ("replaced", WEIGHT), ("bonus", WEIGHT)],
);

/// RWKV-7's time mixing with its parameters.
#[derive(Module, Debug)]
pub struct Rwkv7 {
    /// μ of receptances.
    pub mix_receptance: Mix,
    /// μ of decays.
    pub mix_decay: Mix,
    /// μ of keys.
    pub mix_key: Mix,
    /// μ of values.
    pub mix_value: Mix,
    /// μ of learning rates.
    pub mix_rate: Mix,
    /// μ of gates.
    pub mix_gate: Mix,
    /// W_r, `[d_model, d_model]`.
    pub receptance: Linear,
    /// W_k, `[d_model, d_model]`.
    pub key: Linear,
    /// W_v, `[d_model, d_model]`.
    pub value: Linear,
    /// Low-rank map for decays, with w₀.
    pub decay: LowRank,
    /// Low-rank map for learning rates, with a₀.
    pub rate: LowRank,
    /// Low-rank map for the share of the first layer's values, with v₀; `None` in the first layer.
    pub residual: Option<LowRank>,
    /// Low-rank map for gates, without an added vector.
    pub gate: LowRank,
    /// ξ, `[d_model]`: the weights with which elements of a key are removed.
    pub removed: Param<Tensor<1>>,
    /// α, `[d_model]`: how far a key follows its learning rate.
    pub replaced: Param<Tensor<1>>,
    /// ρ, `[d_model]`: the weight with which a position sees itself.
    pub bonus: Param<Tensor<1>>,
    /// Norm over each head.
    pub norm: LayerNorm,
    /// W_o, `[d_model, d_model]`.
    pub output: Linear,
    heads: usize,
    /// Whether the layer provides the stack's first values.
    makes_first_values: bool,
}

impl Rwkv7 {
    /// Builds the layer for a block of this shape.
    pub fn new(config: &Rwkv7Config, shape: &BlockShape, init: &Init) -> Self {
        let (shape, d) = (*shape, shape.d_model);
        let d_head = config.d_head(d).max(1);
        let early = mix_exponent(&shape);
        let mix = |share: f32| Mix::new(d, share * early, 0.0, init);
        let map = |role| Linear::new(d, d, false, role, init);
        let channel = move |i: usize| Channel::new(i, d, d_head);
        let low = |rank, added| LowRank::new(d, rank, added, init);
        let follows = config.value_residual && !shape.makes_first_values;
        Self {
            mix_receptance: mix(0.2),
            mix_decay: mix(0.9),
            mix_key: mix(0.7),
            mix_value: mix(0.7),
            mix_rate: mix(0.9),
            mix_gate: mix(0.2),
            receptance: map(MatrixRole::Inner),
            key: map(MatrixRole::Inner),
            value: map(MatrixRole::Value),
            decay: low(
                config.decay_rank(d),
                Some(init.values(d, move |i| channel(i).decay(&shape))),
            ),
            rate: low(
                config.rate_rank(d),
                Some(init.values(d, move |i| channel(i).rate())),
            ),
            residual: follows.then(|| {
                let first = init.values(d, move |i| channel(i).value());
                low(config.value_rank(d), Some(first))
            }),
            gate: low(config.gate_rank(d), None),
            removed: init.values(d, move |i| channel(i).removal()),
            replaced: init.vector(d, initial::INITIAL_ALPHA),
            bonus: init.vector(d, initial::INITIAL_RHO),
            norm: LayerNorm::new(d, config.norm_eps, initial::gain(&shape), init),
            output: Linear::new(d, d, false, MatrixRole::Residual, init),
            heads: d / d_head,
            makes_first_values: shape.makes_first_values,
        }
    }

    /// Computes v `[batch, seq, d_model]` from a mix of the same shape, with the share of the first layer's values.
    fn values(&self, x: Tensor<3>, first_values: Option<&FirstValues>) -> Tensor<3> {
        let x = Operand::new(x);
        let v = self.value.forward_operand(x.clone());
        if let Some(first) = first_values.filter(|_| self.makes_first_values) {
            first.put(&v);
        }
        let first = first_values.and_then(FirstValues::get);
        let (Some(gate), Some(first)) = (&self.residual, first) else {
            return v;
        };
        let share = gate.sigmoid_output(gate.down.forward_operand(x));
        v.clone() + (first - v) * share
    }
}

/// The state consists of the maps of all heads and the newest input.
impl StatefulMixer for Rwkv7 {
    fn advance(
        &self,
        x: Tensor<3>,
        state: Option<Vec<Tensor<2>>>,
        sequences: &Sequences,
        last: bool,
        beside: &MixerContext<'_>,
    ) -> (Tensor<3>, Option<Vec<Tensor<2>>>) {
        let ([batch, seq, d], heads) = (x.dims(), self.heads);
        let mut state = state.into_iter().flatten();
        let (states, before) = (state.next(), state.next());
        let kept = last.then(|| last_positions(&x, before.clone(), sequences, 1));
        let mixed = |mix: &Mix| mix.forward(x.clone(), before.clone(), sequences);
        let r = self.receptance.forward(mixed(&self.mix_receptance));
        let k = self.key.forward(mixed(&self.mix_key));
        let v = self.values(mixed(&self.mix_value), beside.first_values);
        let low = self.decay.down.forward(mixed(&self.mix_decay));
        let decay = self.decay.sigmoid_output(low.tanh()) * (-MAX_DECAY_RATE);
        let low = self.rate.down.forward(mixed(&self.mix_rate));
        let rate = self.rate.sigmoid_output(low);
        let opened = mixed(&self.mix_gate);
        let opened = self
            .gate
            .down
            .forward_activated(opened, Activation::Sigmoid);
        let gate = self.gate.up.forward(opened);
        let row = |x: &Param<Tensor<1>>| x.val().reshape([1, 1, d]);
        let by_head = |x: Tensor<3>| x.reshape([batch, seq, heads, d / heads]);
        let flat = |x: Tensor<4>| x.reshape([batch, seq, d]);
        let removed = by_head(k.clone() * row(&self.removed));
        let lengths = removed
            .clone()
            .square()
            .sum_dim(3)
            .clamp_min(MIN_SQUARED_LENGTH)
            .sqrt();
        let removed = flat(removed / lengths);
        let k = k * ((rate.clone() - 1.0) * row(&self.replaced) + 1.0);
        let rule = GeneralizedDelta {
            r: r.clone(),
            decay,
            k: k.clone(),
            v: v.clone(),
            a: removed.clone().neg(),
            b: removed * rate,
            state: states,
            d_head: d / heads,
        };
        let (o, states) = generalized_delta(rule, sequences, last);
        let seen = by_head(r * k * row(&self.bonus)).sum_dim(3);
        let bonus = flat(seen * by_head(v));
        let y = self.norm.by_groups(o, heads) + bonus;
        let state = states.zip(kept).map(|(states, kept)| vec![states, kept]);
        (self.output.forward(y * gate), state)
    }
}
