//! A mixture of experts (Shazeer et al. 2017): several feed-forward layers, of which each token uses the few chosen by a router,
//! y = Σ_{e ∈ top k} g_e·E_e(x) with p = softmax(W_r x), or the sigmoid of each score, in single precision.
//!
//! The weights g are the values p of the chosen experts, either divided by their sum (Jiang et al. 2024, Mixtral) or unchanged
//! (Fedus et al. 2022, Switch), times a factor. Every token also uses the shared experts (Dai et al. 2024, DeepSeekMoE).
//!
//! Each expert processes only its own tokens. Without a capacity no token is dropped. With one, an expert accepts
//! ⌈capacity_factor·n·k/experts⌉ of the n tokens of a row in training, in the order of their positions, and skips the rest: a
//! later token never changes an earlier one's result, and no row another's. Evaluation and decoding drop no tokens, so that
//! cached and uncached results agree.
//!
//! Each layer adds two losses. `balance` = E·Σ_e f_e·P_e (Switch, equations 4 to 6), which is k if all experts are used evenly:
//! f_e is the number of choices of expert e, before any are dropped, divided by the number of tokens, and P_e is the mean router
//! probability of expert e; sigmoids are first divided by their sum over all experts. `router_z` is the mean of the squared
//! log-sum-exp of the router's scores (Zoph et al. 2022, ST-MoE, equation 5).
//!
//! Padding is not routed, gets zeros except from shared experts, and does not count in any loss. The loss of a step is the mean
//! over its micro-batches, weighted by tokens. That is exact for `router_z`; `balance` is a product of two means, so it depends
//! on the size of micro-batches.

mod assignment;
mod config;
pub mod experts;
mod groups;
mod routing;
mod shared;

use super::super::Kind;
use super::super::init::{Init, MatrixRole};
use super::super::layer::{Layer, LayerContext};
use super::super::linear::Linear;
use super::super::pass::Pass;
use super::super::role::{FIXED, Roles};
use crate::kernel;
use crate::kernel::grouped::{Groups, combine, gather};
use assignment::{ExpertChoice, TokenRows};
use burn::module::{Module, RunningState};
use burn::tensor::activation::sigmoid;
use burn::tensor::{Int, Tensor, TensorData};
pub use config::{ExpertConfig, MoeConfig};
pub use experts::{ExpertLinear, Experts};
pub use groups::ExpertGroups;
pub use routing::Score;
pub use shared::SharedExperts;

/// Roles of the state that [`Moe`] keeps beside its maps.
pub const ROLES: Roles = Roles::new("Moe", &[("correction", FIXED)]);

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "moe",
    summary: "a mixture of experts: each token uses the top_k feed-forward layers that a router chooses",
    source: "Shazeer et al. 2017; Fedus et al. 2022, Switch; Jiang et al. 2024, Mixtral",
    example: "{ kind = \"moe\", n_experts = 4, top_k = 2, expert = { kind = \"gated\", d_ff = 344 } }",
};

impl Layer for Moe {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        // In decoding the lengths count all keys; the new input begins after the positions already read.
        let lengths = cx.visible.lengths.as_ref().map(|lengths| {
            let left = |length: &usize| length.saturating_sub(cx.span.offset);
            lengths.iter().map(left).collect::<Vec<_>>()
        });
        let Some(shared) = &self.shared else {
            return self.mix(x, lengths.as_deref(), cx.pass);
        };
        // Each tensor here has at most two uses: a sum of two gradients has only one order, so a recomputed block rounds the same
        // way.
        let [to_routed, to_shared] = [x.clone() * 1.0, x * 1.0];
        let routed = self.mix(to_routed, lengths.as_deref(), cx.pass);
        let pass = cx.pass;
        let of_shared = pass.in_part("shared", || match &self.shared_gate {
            None => shared.forward(to_shared, cx),
            Some(gate) => {
                let [to_gate, to_shared] = [to_shared.clone() * 1.0, to_shared * 1.0];
                shared.forward(to_shared, cx) * sigmoid(gate.forward(to_gate))
            }
        });
        kernel::add(routed, of_shared)
    }
}

/// A router and its experts.
#[derive(Module, Debug)]
pub struct Moe {
    /// The router, which scores the experts.
    pub router: Linear,
    /// All experts.
    pub experts: Experts,
    /// Experts that every token uses.
    pub shared: Option<SharedExperts>,
    /// The gate on the output of the shared experts, `[1, d_model]`.
    pub shared_gate: Option<Linear>,
    /// Correction added to the scores by which experts are chosen, `[n_experts]`; not a parameter.
    pub correction: Option<RunningState<Tensor<1>>>,
    n_experts: usize,
    top_k: usize,
    #[module(skip)]
    score: Score,
    scale: f64,
    #[module(skip)]
    groups: Option<ExpertGroups>,
    normalizes: bool,
    capacity_factor: Option<f64>,
    balance_loss: f64,
    z_loss: f64,
}

impl Moe {
    /// Builds the layer for vectors of `d_model` elements, with dropout after the experts' nonlinearity.
    pub fn new(config: &MoeConfig, d_model: usize, dropout: f64, init: &Init) -> Self {
        Self {
            router: Linear::new(
                d_model,
                config.n_experts,
                config.router_bias,
                MatrixRole::Inner,
                init,
            ),
            experts: Experts::new(&config.expert, config.n_experts, d_model, dropout, init),
            shared: config
                .shared_layer(d_model)
                .map(|shared| SharedExperts::new(&shared, d_model, dropout, init)),
            shared_gate: config.shared_gate.then(|| {
                Linear::new(
                    d_model,
                    1,
                    false,
                    MatrixRole::Inner,
                    &init.part("shared_gate"),
                )
            }),
            correction: config
                .correction
                .then(|| RunningState::new(Tensor::zeros([config.n_experts], init.device()))),
            n_experts: config.n_experts,
            top_k: config.top_k,
            score: config.score,
            scale: config.scale,
            groups: config.groups(),
            normalizes: config.normalizes(),
            capacity_factor: config.capacity_factor,
            balance_loss: config.balance_loss,
            z_loss: config.z_loss,
        }
    }

    /// Applies the routed experts to `x` `[batch, seq, d_model]`; the shape stays the same. Positions beyond the rows' `lengths`
    /// are padding.
    pub fn mix(&self, x: Tensor<3>, lengths: Option<&[usize]>, pass: &Pass) -> Tensor<3> {
        let [batch, seq, d_model] = x.dims();
        let tokens = TokenRows::new([batch, seq], lengths);
        let scores = kernel::to_f32(self.router.forward(x.clone()));
        let scores = scores.reshape([batch * seq, self.n_experts]);
        let weights = self.score.apply(scores.clone());
        let chosen = self.choose(&weights);
        let probabilities = self.score.likelihoods(&weights);
        self.add_losses(&tokens, &chosen, &scores, &probabilities, pass);
        let factor = self.capacity_factor.filter(|_| pass.is_training());
        let taken = tokens.assign(&chosen, [self.n_experts, self.top_k], factor);
        let groups = Groups::new(&taken, self.top_k, self.n_experts);
        if groups.rows() == 0 {
            return x.zeros_like();
        }
        let weights = self.chosen_weights(weights, &chosen);
        let rows = gather(x.clone().reshape([batch * seq, d_model]), &groups);
        let rows = self.experts.forward(rows, &groups, batch, pass);
        let weights = weights.cast(rows.dtype());
        combine(rows, weights, &groups).reshape([batch, seq, d_model])
    }

    /// Returns the chosen experts of every token from the values of all experts, `[tokens, experts]`.
    fn choose(&self, weights: &Tensor<2>) -> Vec<usize> {
        let mut known = kernel::untracked(weights.clone());
        if let Some(correction) = &self.correction {
            let correction = kernel::to_f32(kernel::untracked(correction.value()));
            known = known + correction.unsqueeze_dim(0);
        }
        let known: Vec<f32> = kernel::read(known).iter::<f32>().collect();
        let choice = ExpertChoice {
            n_experts: self.n_experts,
            top_k: self.top_k,
            groups: self.groups,
        };
        choice.of(&known)
    }

    /// Returns the weights of the chosen experts, `[tokens, top_k]`, from the values of all experts.
    fn chosen_weights(&self, weights: Tensor<2>, chosen: &[usize]) -> Tensor<2> {
        let [tokens, _] = weights.dims();
        let chosen: Vec<i32> = chosen.iter().map(|expert| *expert as i32).collect();
        let chosen = TensorData::new(chosen, [tokens, self.top_k]);
        let chosen = Tensor::<2, Int>::from_data(chosen, &weights.device());
        let weights = weights.gather(1, chosen);
        let weights = match self.normalizes {
            true => self.score.shares(weights),
            false => weights,
        };
        match self.scale {
            1.0 => weights,
            scale => weights * scale,
        }
    }

    /// Adds the balance loss and, if it has a coefficient, the z-loss.
    fn add_losses(
        &self,
        tokens: &TokenRows,
        chosen: &[usize],
        scores: &Tensor<2>,
        probabilities: &Tensor<2>,
        pass: &Pass,
    ) {
        let Some(shares) = tokens.shares(chosen, [self.n_experts, self.top_k]) else {
            return;
        };
        let shares = TensorData::new(shares, [1, self.n_experts]);
        let shares = Tensor::<2>::from_data(shares, (&scores.device(), scores.dtype()));
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
