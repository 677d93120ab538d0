//! The enhanced mask decoder: absolute positions for the guesses of hidden tokens alone (He et al. 2021, DeBERTa, section 3.2,
//! and the released code of its masked language model).
//!
//! The blocks know distances, and where two distances are alike they cannot tell a shop from a mall. H is the stream that the
//! last block reads, and P a table with a vector for each place. The last block is run with queries that know their place,
//! again and again with its own weights, and takes keys and values from H each time:
//!
//! ```text
//! z₀ = H + P        z_{s+1} = block(queries: z_s, keys and values: H)
//! ```
//!
//! The head reads z after the last step, through the final norm where the stack has one. The block's own pass over H, which a
//! fine-tuned model has, is made only for a task that reads it as well.

use super::encoder::{Encoder, EncoderConfig, Seen};
use super::{Demand, ModelInputs, Use};
use crate::faults::{LONGEST, TableFaults};
use crate::nn::init::Init;
use crate::nn::pass::Pass;
use crate::nn::role::{Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Steps at most.
const MOST_STEPS: usize = 64;

/// The knobs of the decoder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MaskDecoderConfig {
    /// How often the last block is run. Source: He et al. 2021, section 3.2.
    #[schemars(range(min = 1, max = MOST_STEPS))]
    pub steps: usize,
    /// Rows of the table of places; the data's context when absent.
    #[schemars(range(min = 1, max = crate::faults::LONGEST))]
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
    /// Faults of its keys in an encoder under a demand.
    pub(super) fn faults(&self, of: &EncoderConfig, demand: &Demand, at: &mut TableFaults) {
        at.count("steps", self.steps, MOST_STEPS);
        let depth = of.depth();
        let blocks = depth.blocks();
        let attends = |block| of.stack.block(&depth, block).attention.is_some();
        if blocks > 0 && !attends(blocks - 1) {
            at.fault(
                &["steps", "model.layers"],
                "mask_decoder runs the last block with queries and keys of its own, so that the last of [[model.layers]] \
                 needs attention",
            );
        }
        let last = (blocks > 0).then(|| of.stack.block(&depth, blocks - 1).attention);
        let shared = last
            .flatten()
            .filter(|last| last.facts().keys_are_queries());
        if let Some(shared) = shared {
            let rule = format!(
                "mask_decoder runs the last block with queries apart from its keys, and attention of kind = \"{}\" has one \
                 projection for both; use another kind there",
                shared.kind()
            );
            at.fault(&["steps", "model.attention.kind"], rule);
        }
        let Some(rows) = self.max_len else { return };
        let sound = at.count("max_len", rows, LONGEST);
        let longer = |context: &usize| sound && *context > rows;
        if demand.used_for == Use::HiddenTokens
            && let Some(context) = demand.context.filter(longer)
        {
            let rule = format!(
                "max_len = {rows} is shorter than the context of {context} tokens; leave it out to follow the data, or cut texts: \
                 data.context = {rows}"
            );
            at.fault(&["max_len", "data.context"], rule);
        }
    }

    /// Multiplications beyond those of an encoder that runs all its blocks once, over a text of so many tokens: the last
    /// block's for each step. `last` says whether a task reads the last block's own states as well.
    fn more_products(&self, of: &EncoderConfig, tokens: usize, last: bool) -> f64 {
        let depth = of.depth();
        let blocks = depth.blocks();
        let last_one = blocks.saturating_sub(1)..blocks;
        let block = of.stack.products_of(last_one, &depth, tokens, 0);
        let runs = self.steps as f64 - if last { 0.0 } else { 1.0 };
        runs * block as f64
    }
}

/// The roles of the parameters of [`MaskDecoder`].
pub const ROLES: Roles = Roles::new("MaskDecoder", &[("table", TABLE)]);

/// The places of hidden tokens, and how often they are asked about.
#[derive(Module, Debug)]
pub struct MaskDecoder {
    /// P, `[max_len, d_model]`.
    pub table: Param<Tensor<2>>,
    steps: usize,
}

impl MaskDecoder {
    /// Multiplications beyond those of an encoder that runs all its blocks once, over a text of so many tokens; 0 without a
    /// decoder. `last` says whether a task reads the last block's own states as well.
    pub fn products(model: &EncoderConfig, tokens: usize, last: bool) -> f64 {
        let decoder = model.mask_decoder.as_ref();
        decoder.map_or(0.0, |c| c.more_products(model, tokens, last))
    }

    /// The decoder of a model that has one; the model's inputs say how long texts are.
    pub fn of(model: &EncoderConfig, inputs: &ModelInputs) -> Option<Self> {
        let config = model.mask_decoder.as_ref()?;
        let init = Init::of_heads(inputs.device, inputs.seed, model.stack.init());
        let rows = config.max_len.unwrap_or(inputs.shape.context);
        Some(Self {
            table: init.of("mask_decoder").table(rows, model.stack.d_model),
            steps: config.steps,
        })
    }

    /// Tokens of the longest text.
    pub fn max_len(&self) -> usize {
        self.table.dims()[0]
    }

    /// The states `[batch, seq, d_model]` that a head guesses hidden tokens from, from the vectors of tokens that
    /// [`Encoder::embedded`] gives and that see each other so.
    pub fn forward(&self, encoder: &Encoder, x: Tensor<3>, seen: &Seen, pass: &Pass) -> Tensor<3> {
        self.states(encoder, x, seen, false, pass).guessing
    }

    /// The same, with the hidden states of the encoder when they are `wanted`.
    pub fn states(
        &self,
        encoder: &Encoder,
        x: Tensor<3>,
        seen: &Seen,
        wanted: bool,
        pass: &Pass,
    ) -> States {
        let x = encoder.projected(x, pass);
        let [_, seq, d] = x.dims();
        let context = || encoder.context(seq, seen, pass);
        let (stack, blocks) = (&encoder.stack, encoder.stack.blocks.len());
        let x = stack.through(0..blocks - 1, x, context());
        let last = wanted.then(|| {
            let x = stack.through(blocks - 1..blocks, x.clone(), context());
            stack.finished(x, pass)
        });
        let places = self.table.val().slice([0..seq, 0..d]).unsqueeze_dim(0);
        let queries = x.clone() + places;
        let guessing = pass.within("mask_decoder", || {
            stack.decoded(queries, x, self.steps, context())
        });
        States { guessing, last }
    }
}

/// The states that an encoder gives to a task that guesses hidden tokens.
#[derive(Clone, Debug)]
pub struct States {
    /// The states from which hidden tokens are guessed, `[batch, seq, d_model]`.
    pub guessing: Tensor<3>,
    /// The encoder's hidden states, when they are wanted.
    pub last: Option<Tensor<3>>,
}

impl States {
    /// Of an encoder without a decoder: its hidden states are both.
    pub fn alike(hidden: Tensor<3>) -> Self {
        Self {
            guessing: hidden.clone(),
            last: Some(hidden),
        }
    }
}
