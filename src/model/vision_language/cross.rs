//! A cross-attention block that reads an image, between a decoder's blocks (Alayrac et al. 2022, Flamingo, section 2.2 and figure
//! 4).
//!
//! ```text
//! y = x + tanh(α)·attention(norm(x), image)      z = y + tanh(β)·feed_forward(norm(y))
//! ```
//!
//! α and β are learned numbers that start at 0, so that the decoder starts as it is without an image. Without gates it is the
//! cross-attention of an encoder-decoder, each layer in its residual connection.

use crate::faults::TableFaults;
use crate::model::DecoderConfig;
use crate::nn::attention::{Attention, AttentionConfig, AttentionShape, Visibility};
use crate::nn::feed_forward::{FeedForward, FeedForwardConfig};
use crate::nn::init::Init;
use crate::nn::layer::{BlockShape, LayerContext};
use crate::nn::pass::Pass;
use crate::nn::role::{BIAS, Declaration, Place, Roles};
use crate::nn::state::{LayerState, StateUse};
use crate::stack::NormPlacement;
use crate::stack::residual::{Residual, ResidualConfig};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of the cross-attention blocks. Norms and dropouts are those of the decoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CrossConfig {
    /// Distance between cross-attention blocks: one stands before the decoder's first block, and one before every `every`-th
    /// block after it.
    /// Source: Alayrac et al. 2022, section 2.2 and table 3.
    #[schemars(range(min = 1, max = 1000))]
    pub every: usize,
    /// Gate on each layer's output before the residual addition.
    pub gate: Gate,
    /// Attention to the image; when absent, with the heads of the decoder's first attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionConfig>,
    /// Feed-forward layer after the attention; no such layer when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed_forward: Option<FeedForwardConfig>,
}

/// The gate on a layer's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// tanh of a learned number that starts at 0.
    #[default]
    Tanh,
    /// No gate.
    None,
}

impl Default for CrossConfig {
    fn default() -> Self {
        Self {
            every: 1,
            gate: Gate::Tanh,
            attention: None,
            feed_forward: None,
        }
    }
}

impl CrossConfig {
    /// Checks its keys, beside a decoder.
    pub(super) fn faults(&self, decoder: &DecoderConfig, at: &mut TableFaults) {
        let blocks = decoder.n_layers();
        if at.count("every", self.every, 1000) && self.every > blocks {
            let every = self.every;
            let rule = format!(
                "every = {every} is more than the {blocks} blocks of the decoder; every = {blocks} adds one block, before the first"
            );
            at.fault(&["every"], rule);
        }
        let width = Some(decoder.stack.d_model);
        if let Some(attention) = &self.attention {
            at.nested("attention", |at| attention.faults_across(width, at));
        }
        if let Some(feed_forward) = &self.feed_forward {
            at.nested("feed_forward", |at| {
                feed_forward.faults(at);
                if feed_forward.reads_earlier_positions() {
                    let kind = feed_forward.kind();
                    let rule = format!(
                        "kind = \"{kind}\" carries a state from token to token, but these blocks keep none; use dense, gated or moe"
                    );
                    at.fault(&["kind"], rule);
                }
            });
        }
    }

    /// Number of cross-attention blocks beside `decoder` decoder blocks.
    pub(super) fn blocks(&self, decoder: usize) -> usize {
        decoder.div_ceil(self.every.max(1))
    }

    /// Returns the config of attention to the image, beside a decoder.
    pub fn attention_config(&self, decoder: &DecoderConfig) -> AttentionConfig {
        let own = self.attention.as_ref();
        let heads = own.unwrap_or_else(|| decoder.stack.attention_of(&decoder.depth()));
        heads.across()
    }

    /// Multiplications of a forward pass over `tokens` tokens and `memory` vectors of an image, each of `d_memory` elements.
    pub(super) fn products(
        &self,
        decoder: &DecoderConfig,
        d_memory: usize,
        [tokens, memory]: [usize; 2],
    ) -> u128 {
        let d = decoder.stack.d_model;
        let attention = self.attention_config(decoder);
        let attention = attention.products_across_from([d, d_memory], tokens, memory);
        let feed_forward = self.feed_forward.as_ref().map_or(0, |c| c.products(d));
        let blocks = self.blocks(decoder.n_layers()) as u128;
        blocks * (attention + tokens as u128 * feed_forward)
    }

    /// Elements kept for the backward pass over `tokens` tokens and `memory` vectors of an image.
    pub(super) fn activations(
        &self,
        decoder: &DecoderConfig,
        [tokens, memory]: [usize; 2],
    ) -> u128 {
        let d = decoder.stack.d_model;
        let attention = self.attention_config(decoder).kept(d);
        let feed_forward = self.feed_forward.as_ref().map_or(0, |c| c.activations(d));
        let of_tokens = tokens as u128 * (6 * d as u128 + attention + feed_forward);
        let blocks = self.blocks(decoder.n_layers()) as u128;
        blocks.saturating_mul(of_tokens.saturating_add(memory as u128 * attention))
    }

    /// Number of parameters that a single token does not use: those of the experts it is not routed to.
    pub(in crate::model) fn inactive_parameters(&self, decoder: &DecoderConfig) -> usize {
        let d = decoder.stack.d_model;
        let each = self
            .feed_forward
            .as_ref()
            .map_or(0, |c| c.inactive_parameters(d));
        each.saturating_mul(self.blocks(decoder.n_layers()))
    }
}

/// The shape of one cross-attention block.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrossShape<'a> {
    /// The decoder.
    pub decoder: &'a DecoderConfig,
    /// Width of the image's vectors.
    pub d_memory: usize,
    /// Number of the block among the cross-attention blocks, from 0.
    pub number: usize,
}

/// Places of the parameters of [`CrossBlock`].
pub const ROLES: Roles = Roles::new(
    "CrossBlock",
    &[
        ("attention", Declaration::Place(Place::Mixer)),
        ("attention_residual", Declaration::Place(Place::Mixer)),
        ("attention_gate", Declaration::Place(Place::Mixer)),
        ("attention_gate", BIAS),
        ("feed_forward", Declaration::Place(Place::FeedForward)),
        (
            "feed_forward_residual",
            Declaration::Place(Place::FeedForward),
        ),
        ("feed_forward_gate", Declaration::Place(Place::FeedForward)),
        ("feed_forward_gate", BIAS),
    ],
);

/// A block with cross-attention to an image.
#[derive(Module, Debug)]
pub struct CrossBlock {
    /// Attention with queries from the text, keys and values from the image.
    pub attention: Attention,
    /// The residual connection around attention.
    pub attention_residual: Residual,
    /// The gate α of attention, `[1]`.
    pub attention_gate: Option<Param<Tensor<1>>>,
    /// The feed-forward layer.
    pub feed_forward: Option<FeedForward>,
    /// The residual connection around the feed-forward layer.
    pub feed_forward_residual: Option<Residual>,
    /// The gate β of the feed-forward layer, `[1]`.
    pub feed_forward_gate: Option<Param<Tensor<1>>>,
}

impl CrossBlock {
    /// Builds a block of this shape.
    pub(super) fn new(config: &CrossConfig, shape: &CrossShape, init: &Init) -> Self {
        let stack = &shape.decoder.stack;
        let (d_model, dropouts) = (stack.d_model, stack.dropouts());
        let joined = ResidualConfig::plain(dropouts.residual);
        let residual =
            || Residual::new(NormPlacement::default(), &stack.norm, d_model, joined, init);
        let attends = AttentionShape {
            d_memory: shape.d_memory,
            dropout: dropouts.attention,
            ..AttentionShape::standalone(d_model, 0)
        };
        let block = BlockShape {
            d_model,
            layer: shape.number,
            blocks: config.blocks(shape.decoder.n_layers()),
            makes_first_values: false,
        };
        let gate = || (config.gate == Gate::Tanh).then(|| init.vector(1, 0.0));
        let feed_forward = config.feed_forward.as_ref();
        Self {
            attention: config
                .attention_config(shape.decoder)
                .init(&attends, &init.part("attention")),
            attention_residual: residual(),
            attention_gate: gate(),
            feed_forward: feed_forward
                .map(|c| c.init(&block, dropouts.feed_forward, &init.part("feed_forward"))),
            feed_forward_residual: feed_forward.map(|_| residual()),
            feed_forward_gate: feed_forward.and_then(|_| gate()),
        }
    }

    /// Returns the cache of the image's keys and values before the first call in decoding.
    pub(super) fn empty_state(&self, of: StateUse) -> LayerState {
        self.attention.layer().empty_state(of)
    }

    /// Runs the block: stream `x` `[batch, seq, d_model]` → the same shape, with the vectors of each row's image, `memory`
    /// `[batch, vectors, d_memory]`.
    pub(super) fn forward(
        &self,
        x: Tensor<3>,
        memory: &Tensor<3>,
        kept: Option<&mut LayerState>,
        (number, visible): (usize, &Visibility),
        pass: &Pass,
    ) -> Tensor<3> {
        let seq = x.dims()[1];
        let mut cx = LayerContext::standalone(memory.dims()[1], pass);
        (cx.layer, cx.owner) = (number, number);
        cx.span.queries = seq;
        cx.memory = Some(memory);
        cx.state = kept;
        let x = self
            .attention_residual
            .apply(x, "cross_attention", 0.0, pass, |x| {
                let y = self.attention.layer().forward(x, &mut cx);
                apply_gate(y, self.attention_gate.as_ref())
            });
        let (Some(residual), Some(feed_forward)) =
            (&self.feed_forward_residual, &self.feed_forward)
        else {
            return x;
        };
        residual.apply(x, "feed_forward", 0.0, pass, |x| {
            let mut cx = LayerContext {
                layer: number,
                owner: number,
                visible,
                ..LayerContext::standalone(seq, pass)
            };
            let y = feed_forward.layer().forward(x, &mut cx);
            apply_gate(y, self.feed_forward_gate.as_ref())
        })
    }
}

/// Applies the gate to a layer's output, if there is one.
fn apply_gate(y: Tensor<3>, gate: Option<&Param<Tensor<1>>>) -> Tensor<3> {
    match gate {
        Some(gate) => y.clone() * gate.val().tanh().cast(y.dtype()).reshape([1, 1, 1]),
        None => y,
    }
}
