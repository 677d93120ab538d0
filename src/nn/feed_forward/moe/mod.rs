//! A mixture of experts (Shazeer et al. 2017): several feed-forward layers, of which each token uses the few that a
//! router chooses, y = Σ_{e ∈ top k} g_e·E_e(x) with p = softmax(W_r x) in single precision.
//!
//! The weights g are the chosen probabilities, divided by their sum (Jiang et al. 2024, Mixtral) or as they are (Fedus
//! et al. 2022, Switch). Each expert multiplies its own tokens alone. Without a capacity no token is passed over. With
//! one, an expert takes ⌈capacity_factor·n·k/experts⌉ of the n tokens of a row in training, in the order of their
//! positions, and the others pass by it: a later token never changes an earlier one's result, and no row another's.
//! Evaluation and decoding pass over none, so that cached and uncached results agree.
//!
//! Losses from inside: `balance` = E·Σ_e f_e·P_e, with f_e the number of choices of expert e by the number of tokens
//! (before any are passed over) and P_e its mean probability (Switch, equations 4 to 6; k when all are even); `router_z`,
//! the mean of the squared log-sum-exp of the router's scores (Zoph et al. 2022, ST-MoE, equation 5). Each layer adds its
//! own. Positions that the visibility calls padding are no tokens: they are not routed, get zeros, and no loss counts
//! them. A loss of a step is the mean of its micro-batches' by their tokens: for `router_z` that of the whole batch, for
//! `balance`, a product of two means, not.

pub mod experts;
mod route;

use super::super::Kind;
use super::super::init::{Init, Role};
use super::super::layer::{Layer, LayerContext};
use super::super::linear::Linear;
use super::super::pass::Pass;
use super::{DenseConfig, GatedConfig};
use crate::faults::TableFaults;
use crate::kernel;
use crate::kernel::grouped::{Groups, combine, gather};
use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
pub use experts::{ExpertLinear, Experts};
use route::{Tokens, likelihoods};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "moe",
    summary: "a mixture of experts: each token uses the top_k feed-forward layers that a router chooses",
    source: "Shazeer et al. 2017; Fedus et al. 2022, Switch; Jiang et al. 2024, Mixtral",
    example: "{ kind = \"moe\", n_experts = 4, top_k = 2, expert = { kind = \"gated\", d_ff = 344 } }",
};

/// The knobs of a mixture of experts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MoeConfig {
    /// Number of experts.
    pub n_experts: usize,
    /// Experts that a token uses.
    pub top_k: usize,
    /// Each expert.
    pub expert: ExpertConfig,
    /// Whether a token's weights are divided by their sum; when absent, they are if it uses more than one expert. With
    /// `top_k = 1` and true the one weight is always 1, as in a Mixtral of one expert a token: the router then learns from
    /// its own losses alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalize_weights: Option<bool>,
    /// An expert takes so many times its even share of a row's tokens, in training; any number when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_factor: Option<f64>,
    /// Coefficient of the balance loss; 0 measures it only.
    pub balance_loss: f64,
    /// Coefficient of the router's z-loss; 0 leaves it out.
    pub z_loss: f64,
}

impl Default for MoeConfig {
    fn default() -> Self {
        Self {
            n_experts: 8,
            top_k: 2,
            expert: ExpertConfig::default(),
            normalize_weights: None,
            capacity_factor: None,
            balance_loss: 0.01,
            z_loss: 0.0,
        }
    }
}

/// The form of each expert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ExpertConfig {
    /// W₂·act(W₁x), as in Switch.
    Dense(DenseConfig),
    /// W₂(act(W₁x)⊙W₃x), as in Mixtral.
    Gated(GatedConfig),
}

impl Default for ExpertConfig {
    fn default() -> Self {
        Self::Gated(GatedConfig::default())
    }
}

impl ExpertConfig {
    /// The key of its inner width, when it is given.
    pub(super) fn given_width(&self) -> Option<usize> {
        match self {
            Self::Dense(c) => c.d_ff,
            Self::Gated(c) => c.d_ff,
        }
    }

    /// The key of its inner width.
    pub(super) fn width_key(&mut self) -> &mut Option<usize> {
        match self {
            Self::Dense(c) => &mut c.d_ff,
            Self::Gated(c) => &mut c.d_ff,
        }
    }

    /// The inner width for vectors of `d_model` elements.
    pub fn d_ff(&self, d_model: usize) -> usize {
        match self {
            Self::Dense(c) => c.d_ff(d_model),
            Self::Gated(c) => c.d_ff(d_model),
        }
    }
}

impl MoeConfig {
    /// Whether a token's weights are divided by their sum.
    pub fn normalizes(&self) -> bool {
        self.normalize_weights.unwrap_or(self.top_k > 1)
    }

    /// Whether the gradient of a step depends on how it is cut into micro-batches: the balance loss is a product of
    /// two means over the tokens of one micro-batch.
    pub fn couples_rows(&self) -> bool {
        self.balance_loss > 0.0
    }
}

impl MoeConfig {
    /// Faults of its keys.
    pub fn faults(&self, at: &mut TableFaults) {
        let experts = at.count("n_experts", self.n_experts, MOST_EXPERTS);
        if experts && at.count("top_k", self.top_k, MOST_EXPERTS) && self.top_k > self.n_experts {
            let rule = format!(
                "top_k = {} is more than n_experts = {}",
                self.top_k, self.n_experts
            );
            at.fault(&["top_k", "n_experts"], rule);
        }
        if let Some(factor) = self.capacity_factor {
            at.positive("capacity_factor", factor);
        }
        for (key, coefficient) in [("balance_loss", self.balance_loss), ("z_loss", self.z_loss)] {
            if !(coefficient >= 0.0 && coefficient.is_finite()) {
                at.fault(
                    &[key],
                    format!("{key} = {coefficient:?} must be at least 0"),
                );
            }
        }
        at.within("expert", |at| match &self.expert {
            ExpertConfig::Dense(c) => c.faults(at),
            ExpertConfig::Gated(c) => c.faults(at),
        });
        let chunk = match &self.expert {
            ExpertConfig::Dense(c) => c.chunk,
            ExpertConfig::Gated(c) => c.chunk,
        };
        if chunk.is_some() {
            let rule = "chunk has no effect in an expert, which computes the positions that are sent to it; leave it out";
            at.within("expert", |at| at.fault(&["chunk"], rule));
        }
    }

    /// Numbers that are kept of each position for the backward pass, in a model of width `d_model`: the router's, and
    /// for each expert that a token uses its input, its result and what is between.
    pub fn kept(&self, d_model: usize) -> u128 {
        let inner = match &self.expert {
            ExpertConfig::Dense(c) => c.kept(d_model),
            ExpertConfig::Gated(c) => c.kept(d_model),
        };
        2 * self.n_experts as u128 + self.top_k as u128 * (2 * d_model as u128 + inner)
    }

    /// Multiplications of a forward pass for each position: the router's, and those of the experts that it uses.
    pub fn products(&self, d_model: usize) -> u128 {
        let expert = match &self.expert {
            ExpertConfig::Dense(c) => c.products(d_model),
            ExpertConfig::Gated(c) => c.products(d_model),
        };
        d_model as u128 * self.n_experts as u128 + self.top_k as u128 * expert
    }

    /// Parameters that a token does not use in a model of width `d_model`.
    pub fn unused(&self, d_model: usize) -> usize {
        let d_ff = self.expert.d_ff(d_model);
        let (matrices, vectors) = match &self.expert {
            ExpertConfig::Dense(c) => (2, usize::from(c.bias)),
            ExpertConfig::Gated(c) => (3, 2 * usize::from(c.bias)),
        };
        let unused = self.n_experts.saturating_sub(self.top_k);
        let of_matrices = d_model.saturating_mul(d_ff).saturating_mul(matrices);
        let of_vectors = match vectors {
            0 => 0,
            inner => d_model.saturating_add(inner.saturating_mul(d_ff)),
        };
        of_matrices
            .saturating_add(of_vectors)
            .saturating_mul(unused)
    }
}

/// Bound of the number of experts.
const MOST_EXPERTS: usize = 1 << 16;

impl Layer for Moe {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        // In decoding the lengths are of all keys: what comes now begins behind those that were read.
        let lengths = cx.visible.lengths.as_ref().map(|lengths| {
            let left = |length: &usize| length.saturating_sub(cx.span.offset);
            lengths.iter().map(left).collect::<Vec<_>>()
        });
        self.mix(x, lengths.as_deref(), cx.pass)
    }
}

/// A router and its experts.
#[derive(Module, Debug)]
pub struct Moe {
    /// Scores of experts, without bias.
    pub router: Linear,
    /// All experts.
    pub experts: Experts,
    n_experts: usize,
    top_k: usize,
    normalizes: bool,
    capacity_factor: Option<f64>,
    balance_loss: f64,
    z_loss: f64,
}

impl Moe {
    /// The layer for vectors of `d_model` elements, with dropout after the experts' nonlinearity.
    pub fn new(config: &MoeConfig, d_model: usize, dropout: f64, init: &Init) -> Self {
        Self {
            router: Linear::new(d_model, config.n_experts, false, Role::Inner, init),
            experts: Experts::new(&config.expert, config.n_experts, d_model, dropout, init),
            n_experts: config.n_experts,
            top_k: config.top_k,
            normalizes: config.normalizes(),
            capacity_factor: config.capacity_factor,
            balance_loss: config.balance_loss,
            z_loss: config.z_loss,
        }
    }

    /// `[batch, seq, d_model]` → the same shape; beyond the rows' `lengths` are no tokens.
    pub fn mix(&self, x: Tensor<3>, lengths: Option<&[usize]>, pass: &Pass) -> Tensor<3> {
        let [batch, seq, d_model] = x.dims();
        let tokens = Tokens::new([batch, seq], lengths);
        let scores = kernel::full(self.router.forward(x.clone()));
        let scores = scores.reshape([batch * seq, self.n_experts]);
        let probabilities = likelihoods(scores.clone());
        let known = kernel::read(kernel::untracked(probabilities.clone()));
        let known: Vec<f32> = known.iter::<f32>().collect();
        let chosen = route::choose(&known, self.n_experts, self.top_k);
        self.add_losses(&tokens, &chosen, &scores, &probabilities, pass);
        let factor = self.capacity_factor.filter(|_| pass.trains());
        let taken = tokens.taken(&chosen, [self.n_experts, self.top_k], factor);
        let groups = Groups::new(&taken, self.top_k, self.n_experts);
        if groups.rows() == 0 {
            return x.zeros_like();
        }
        let weights = self.weights(probabilities, &chosen);
        let rows = gather(x.clone().reshape([batch * seq, d_model]), &groups);
        let rows = self.experts.forward(rows, &groups, batch, pass);
        let weights = weights.cast(rows.dtype());
        combine(rows, weights, &groups).reshape([batch, seq, d_model])
    }

    /// The weights of the chosen experts, `[tokens, top_k]`.
    fn weights(&self, probabilities: Tensor<2>, chosen: &[usize]) -> Tensor<2> {
        let [tokens, _] = probabilities.dims();
        let chosen: Vec<i32> = chosen.iter().map(|expert| *expert as i32).collect();
        let chosen = TensorData::new(chosen, [tokens, self.top_k]);
        let chosen = Tensor::<2, Int>::from_data(chosen, &probabilities.device());
        let weights = probabilities.gather(1, chosen);
        match self.normalizes {
            true => weights.clone() / weights.sum_dim(1),
            false => weights,
        }
    }

    /// Adds the balance loss, and the z-loss when it has a coefficient.
    fn add_losses(
        &self,
        tokens: &Tokens,
        chosen: &[usize],
        scores: &Tensor<2>,
        probabilities: &Tensor<2>,
        pass: &Pass,
    ) {
        let Some(shares) = tokens.shares(chosen, [self.n_experts, self.top_k]) else {
            return;
        };
        let shares = TensorData::new(shares, [1, self.n_experts]);
        let shares = Tensor::<2>::from_data(shares, &scores.device());
        let mean = tokens.of(probabilities).mean_dim(0);
        let balance = (mean * shares).sum() * self.n_experts as f64;
        pass.add_loss("balance", balance, self.balance_loss);
        if self.z_loss > 0.0 {
            let scores = tokens.of(scores);
            let highest = scores.clone().detach().max_dim(1);
            let log_sum = (scores - highest.clone()).exp().sum_dim(1).log() + highest;
            pass.add_loss("router_z", log_sum.square().mean(), self.z_loss);
        }
    }
}
