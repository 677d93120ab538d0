//! The enhanced mask decoder: absolute positions only for predictions of masked tokens (He et al. 2021, DeBERTa, section 3.2,
//! and the released code of its masked language model).
//!
//! The blocks know only distances, so tokens at equal distances cannot be told apart (the paper's example: a store and a mall). H
//! is the stream that the last block reads, and P a table with a vector for each position. The last block is run repeatedly, with
//! its own weights, on queries that know their position; keys and values are computed from H each time:
//!
//! ```text
//! z₀ = H + P        z_{s+1} = block(queries: z_s, keys and values: H)
//! ```
//!
//! The head reads z after the last step, through the final norm if the stack has one. The block's ordinary pass over H, which a
//! fine-tuned model uses, is computed only if the task also reads its output.

use super::encoder::{Encoder, EncoderConfig, MasksAndPositions};
use super::{BuildContext, Demand, Use};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::nn::init::Init;
use crate::nn::pass::Pass;
use crate::nn::role::{Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of steps.
const MAX_STEPS: usize = 64;

/// The settings of the mask decoder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MaskDecoderConfig {
    /// Number of times the last block is run. Source: He et al. 2021, section 3.2.
    #[schemars(range(min = 1, max = MAX_STEPS))]
    pub steps: usize,
    /// Rows of the table of positions; the data's context when absent.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_len: Option<usize>,
}

impl Default for MaskDecoderConfig {
    fn default() -> Self {
        Self {
            steps: 2,
            max_len: None,
        }
    }
}

impl MaskDecoderConfig {
    /// Checks its keys, in an encoder under a demand.
    pub(super) fn faults(&self, of: &EncoderConfig, demand: &Demand, at: &mut TableFaults) {
        at.count("steps", self.steps, MAX_STEPS);
        let depth = of.depth();
        let blocks = depth.blocks();
        let attends = |block| of.stack.block(&depth, block).attention.is_some();
        if blocks > 0 && !attends(blocks - 1) {
            at.fault(
                &["steps", "model.layers"],
                "mask_decoder runs the last block with separate queries and keys, so the last of [[model.layers]] needs attention",
            );
        }
        let last = (blocks > 0).then(|| of.stack.block(&depth, blocks - 1).attention);
        let shared = last
            .flatten()
            .filter(|last| last.facts().keys_are_queries());
        if let Some(shared) = shared {
            let rule = format!(
                "mask_decoder runs the last block with queries that differ from its keys, but attention of kind = \"{}\" has one \
                 projection for both; use another kind in that block",
                shared.kind()
            );
            at.fault(&["steps", "model.attention.kind"], rule);
        }
        let Some(rows) = self.max_len else { return };
        let sound = at.count("max_len", rows, MAX_POSITIONS);
        let longer = |context: &usize| sound && *context > rows;
        if demand.used_for == Use::MaskedTokens
            && let Some(context) = demand.context.filter(longer)
        {
            let rule = format!(
                "max_len = {rows} is shorter than the context of {context} tokens; remove it to follow the data, or shorten texts \
                 with data.context = {rows}"
            );
            at.fault(&["max_len", "data.context"], rule);
        }
    }

    /// Multiplications in addition to those of an encoder that runs each block once, over a text of `tokens`: those of the last
    /// block for each step. `last` says whether a task also reads the last block's ordinary output.
    fn extra_products(&self, of: &EncoderConfig, tokens: usize, last: bool) -> f64 {
        let depth = of.depth();
        let blocks = depth.blocks();
        let last_one = blocks.saturating_sub(1)..blocks;
        let block = of.stack.products_of_blocks(last_one, &depth, tokens, 0);
        let runs = self.steps as f64 - if last { 0.0 } else { 1.0 };
        runs * block as f64
    }
}

/// Places of the parameters of [`MaskDecoder`].
pub const ROLES: Roles = Roles::new("MaskDecoder", &[("table", TABLE)]);

/// The position table and number of steps of the mask decoder.
#[derive(Module, Debug)]
pub struct MaskDecoder {
    /// The position table P, `[max_len, d_model]`.
    pub table: Param<Tensor<2>>,
    steps: usize,
}

impl MaskDecoder {
    /// Multiplications in addition to those of an encoder that runs each block once, over a text of `tokens`; 0 without a mask
    /// decoder. `last` says whether a task also reads the last block's ordinary output.
    pub fn products(model: &EncoderConfig, tokens: usize, last: bool) -> f64 {
        let decoder = model.mask_decoder.as_ref();
        decoder.map_or(0.0, |c| c.extra_products(model, tokens, last))
    }

    /// Builds the mask decoder of a model, if it has one; its table is as long as the longest text unless configured otherwise.
    pub fn build(model: &EncoderConfig, inputs: &BuildContext) -> Option<Self> {
        let config = model.mask_decoder.as_ref()?;
        let init = Init::of_heads(inputs.device, inputs.seed, model.stack.init_settings());
        let rows = config.max_len.unwrap_or(inputs.shape.context);
        Some(Self {
            table: init.part("mask_decoder").table(rows, model.stack.d_model),
            steps: config.steps,
        })
    }

    /// Length of the longest text, in tokens.
    pub fn max_len(&self) -> usize {
        self.table.dims()[0]
    }

    /// Computes the hidden states `[batch, seq, d_model]` from which masked tokens are predicted, given the embeddings `x` of
    /// [`Encoder::embed`]; `seen` says which tokens see each other.
    pub fn forward(
        &self,
        encoder: &Encoder,
        x: Tensor<3>,
        seen: &MasksAndPositions,
        pass: &Pass,
    ) -> Tensor<3> {
        self.states(encoder, x, seen, false, pass).prediction
    }

    /// Computes the same states, with the encoder's ordinary hidden states if they are `wanted`.
    pub fn states(
        &self,
        encoder: &Encoder,
        x: Tensor<3>,
        seen: &MasksAndPositions,
        wanted: bool,
        pass: &Pass,
    ) -> MaskedLmStates {
        let x = encoder.project_input(x, pass);
        let [_, seq, d] = x.dims();
        let context = || encoder.stack_context(seq, seen, pass);
        let (stack, blocks) = (&encoder.stack, encoder.stack.blocks.len());
        let x = stack.run_blocks(0..blocks - 1, x, context());
        let last = wanted.then(|| {
            let x = stack.run_blocks(blocks - 1..blocks, x.clone(), context());
            stack.finish(x, pass)
        });
        let places = self.table.val().slice([0..seq, 0..d]).unsqueeze_dim(0);
        let queries = x.clone() + places;
        let guessing = pass.in_network("mask_decoder", || {
            stack.decode_queries(queries, x, self.steps, context())
        });
        MaskedLmStates {
            prediction: guessing,
            encoder_output: last,
        }
    }
}

/// The hidden states that an encoder gives to a task that predicts masked tokens.
#[derive(Clone, Debug)]
pub struct MaskedLmStates {
    /// The states from which masked tokens are predicted, `[batch, seq, d_model]`.
    pub prediction: Tensor<3>,
    /// The encoder's ordinary hidden states, if they are wanted.
    pub encoder_output: Option<Tensor<3>>,
}

impl MaskedLmStates {
    /// The states of an encoder without a mask decoder: its hidden states serve for both.
    pub fn without_mask_decoder(hidden: Tensor<3>) -> Self {
        Self {
            prediction: hidden.clone(),
            encoder_output: Some(hidden),
        }
    }
}
