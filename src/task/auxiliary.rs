//! Auxiliary losses of deep character transformers (Al-Rfou et al. 2019, "Character-level language modeling with deeper
//! self-attention", section 3.1): predictions from the layers before the last, and of the token after the next.
//!
//! With n layers, at step s of S, w the weight of the second target and P the mean of −log p over scored positions, the
//! loss is
//!
//! ```text
//! Σ_{l ≤ n, l alive} P_l(x_{t+1}) + w·P_l(x_{t+2}),   l < n alive while s < S·l/(2n), l = n always
//! ```
//!
//! All active losses have the same weight: the lowest layer's stops first, and in the second half of training no layer
//! before the last counts. Each layer and each target has its own linear map onto the vocabulary, with a bias, that
//! reads the layer's output; only the last layer's next-token prediction uses the network's LM head. These maps are
//! trained and kept in checkpoints, and dropped when the model is used.

use super::self_distillation;
use super::{CausalLmConfig, Divisor, Scored, Term, host};
use crate::data::Shape;
use crate::data::batch::TextBatch;
use crate::evaluate::metric::Metric;
use crate::kernel;
use crate::model::{
    BuildContext, ModelConfig, contrastive_head, generator, pixel_decoder, projection_head,
};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::role::{Declaration, Place, Roles};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use std::ops::Range;

const LAYER_LOSS: Metric = Metric::lower("layer_loss");
const SECOND_LOSS: Metric = Metric::lower("second_loss");
const LAYER_SECOND_LOSS: Metric = Metric::lower("layer_second_loss");

/// Metrics in the training journal: the next-token loss, averaged over the active layers before the last; the last
/// layer's loss of the token after the next; that loss averaged over the active layers before the last.
pub const METRICS: &[Metric] = &[LAYER_LOSS, SECOND_LOSS, LAYER_SECOND_LOSS];

/// Name of a task's field with the parameters that are only used in training.
pub(super) const FIELD: &str = "auxiliary";

/// Role of a task's [`Auxiliary`] parameters.
pub const ROLES: Roles = Roles::new("CausalLm", &[(FIELD, Declaration::Place(Place::Auxiliary))]);

/// The maps onto the vocabulary that are only used in training.
#[derive(Module, Debug)]
pub struct Auxiliary {
    /// Maps of the layers before the last, from the first; empty if these layers predict nothing.
    pub layers: Vec<LayerHeads>,
    /// Map of the last layer for the token after the next.
    pub second: Option<Linear>,
    /// Number of layers of the network.
    depth: usize,
    second_weight: f64,
}

/// The maps of one layer.
#[derive(Module, Debug)]
pub struct LayerHeads {
    /// Map for the next token.
    pub next: Linear,
    /// Map for the token after the next.
    pub second: Option<Linear>,
}

/// Hidden states that a pass predicts from.
pub(super) struct States<'a> {
    /// States of the last layer after the final norm, `[batch, seq, d_model]`.
    pub last: &'a Tensor<3>,
    /// States of the active layers before the last, from the lowest, each `[batch, seq, d_model]`.
    pub layers: Vec<Tensor<3>>,
}

impl Auxiliary {
    /// Builds the maps that a config asks for; `None` if it asks for none.
    pub fn new(
        config: &CausalLmConfig,
        model: &ModelConfig,
        inputs: &BuildContext,
    ) -> Option<Self> {
        if !has_heads(config) {
            return None;
        }
        let init = Init::of_heads(inputs.device, inputs.seed, model.init_settings()).part(FIELD);
        let (d_model, vocab, depth) = (model.d_output(), inputs.shape.vocab_size, layers(model));
        let map =
            |part: &str| Linear::new(d_model, vocab, true, MatrixRole::Head, &init.part(part));
        let second = |part: &str| config.second_target.map(|_| map(part));
        let before_last = match config.intermediate_layers {
            true => 1..depth.max(1),
            false => 1..1,
        };
        let heads = before_last.map(|layer| LayerHeads {
            next: map(&format!("{layer} next")),
            second: second(&format!("{layer} second")),
        });
        Some(Self {
            layers: heads.collect(),
            second: second("second"),
            depth,
            second_weight: config.second_target.unwrap_or(0.0),
        })
    }

    /// Returns the layers, counted from 1, whose predictions count before step `step` of `steps` is taken: those beyond
    /// 2n·step/steps. Empty if no training is under way.
    pub(super) fn active_layers(&self, step: u64, steps: u64) -> Range<usize> {
        if self.layers.is_empty() {
            return 0..0;
        }
        let passed = u128::from(step) * 2 * self.depth as u128;
        let first = passed.checked_div(u128::from(steps)).map(|n| n + 1);
        let first = first.and_then(|first| usize::try_from(first).ok());
        first.unwrap_or(self.depth).min(self.depth)..self.depth
    }

    /// Adds the auxiliary terms to the loss, beside the last layer's next-token loss.
    pub(super) fn add(
        &self,
        mut scored: Scored,
        states: States,
        texts: &TextBatch,
        device: &Device,
        smoothing: f64,
    ) -> Scored {
        let next = host::vector(&texts.targets, device);
        let second = texts.second.as_ref();
        let second = second.map(|second| host::vector(second, device));
        let next = (&next, Divisor::Scored, 1.0);
        let second = second
            .as_ref()
            .map(|t| (t, Divisor::Second, self.second_weight));
        let term = |states: &Tensor<3>, map: &Linear, (targets, over, coefficient): Target| Term {
            sum: loss(states, map, targets, smoothing),
            over,
            coefficient,
        };
        if let (Some(map), Some(second)) = (&self.second, second) {
            scored = scored.with_added(SECOND_LOSS, term(states.last, map, second));
        }
        let alive = &self.layers[self.layers.len() - states.layers.len()..];
        for (states, heads) in states.layers.iter().zip(alive) {
            scored = scored.with_added(LAYER_LOSS, term(states, &heads.next, next));
            if let (Some(map), Some(second)) = (&heads.second, second) {
                scored = scored.with_added(LAYER_SECOND_LOSS, term(states, map, second));
            }
        }
        scored
    }
}

/// Targets `[batch·seq]`, the divisor of their loss, and the factor of their loss.
type Target<'a> = (&'a Tensor<1, Int>, Divisor, f64);

/// Returns the sum of a map's losses on hidden states `[batch, seq, d_model]`.
fn loss(states: &Tensor<3>, map: &Linear, targets: &Tensor<1, Int>, smoothing: f64) -> Tensor<1> {
    let [batch, seq, d] = states.dims();
    let states = states.clone().reshape([batch * seq, d]);
    kernel::head_loss(states, map.head(), targets.clone(), smoothing).sum
}

/// Returns whether a config asks for maps beside the network's LM head.
fn has_heads(config: &CausalLmConfig) -> bool {
    config.intermediate_layers || config.second_target.is_some()
}

/// Returns the number of layers of a language model.
fn layers(model: &ModelConfig) -> usize {
    let blocks = model.stack_depths().map(|depths| depths.decoder);
    blocks.unwrap_or_else(|| model.recurrent_config().map_or(0, |cells| cells.n_layers))
}

/// Returns the number of multiplications that a config adds to a forward pass, on average over training; it can be
/// negative. Positions that are not scored need no LM head, and each auxiliary map costs one more projection onto the
/// vocabulary. Layer l of n uses its maps for l/2n of training, so all layers before the last together for (n − 1)/4 of
/// it.
pub(super) fn products(config: &CausalLmConfig, model: &ModelConfig, shape: &Shape) -> f64 {
    let scored = config.positions.of(shape.context) as f64;
    let layers = match config.intermediate_layers {
        true => 1.0 + (layers(model).max(1) - 1) as f64 / 4.0,
        false => 1.0,
    };
    let targets = if config.second_target.is_some() {
        2.0
    } else {
        1.0
    };
    let map = model.d_output() as f64 * shape.vocab_size as f64;
    let own = model.logit_products(shape.vocab_size);
    map * (scored * layers * targets - scored) + own * (scored - shape.context as f64)
}

/// Returns whether a parameter is only used in training: another model of this task, and other tasks, do without it.
pub fn is_training_only(path: &str) -> bool {
    let alone = [
        FIELD,
        generator::NAME,
        pixel_decoder::NAME,
        projection_head::NAME,
        contrastive_head::NAME,
        self_distillation::CENTRE,
    ];
    let first = path.split('.').next();
    first.is_some_and(|first| alone.contains(&first))
}
