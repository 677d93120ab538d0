//! `[model.retrieval]`: the blocks that attend to neighbours, the number of neighbours, and their encoder.

use super::encoder::NeighbourEncoderConfig;
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::model::decoder::DecoderConfig;
use crate::model::{Demand, Use};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::{self, MultiHeadConfig};
use crate::nn::position::{ActsOn, HeadEffect};
use crate::stack::{Depth, StackConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of neighbours of a chunk.
const MAX_NEIGHBOURS: usize = 256;
/// Maximum number of tokens of a chunk.
const MAX_CHUNK: usize = 1 << 16;

/// The settings of retrieval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetrievalConfig {
    /// Length of a chunk in tokens. Source: Borgeaud et al. 2022, section 2.2.
    #[schemars(range(min = 1, max = MAX_CHUNK))]
    pub chunk: usize,
    /// Number of neighbours of each chunk; with its continuation, each is twice as long as a chunk. Source: Borgeaud et al. 2022,
    /// section 2.2.
    #[schemars(range(min = 1, max = MAX_NEIGHBOURS))]
    pub neighbours: usize,
    /// The blocks that attend to neighbours, between attention and the feed-forward layer, counted from 1.
    /// Source: Borgeaud et al. 2022, section 2.4, every third block from the sixth.
    pub layers: Vec<usize>,
    /// The cross-attention to neighbours; when absent, with the heads of the first block's attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionConfig>,
    /// The encoder of neighbours.
    pub encoder: NeighbourEncoderConfig,
}

impl Default for RetrievalConfig {
    fn default() -> Self {
        Self {
            chunk: 64,
            neighbours: 2,
            layers: vec![6, 9, 12],
            attention: None,
            encoder: NeighbourEncoderConfig::default(),
        }
    }
}

/// Checks attention to a memory that has positions.
pub(super) fn memory_attention_faults(attention: &AttentionConfig, at: &mut TableFaults) {
    let across = attention.across();
    if across.kind() != multi_head::KIND.kind {
        let rule = format!(
            "kind = \"{}\" cannot attend to neighbours; use multi_head",
            attention.kind()
        );
        at.fault(&["kind", "model.attention.kind"], rule);
    }
}

/// Checks a list of block numbers, counted from 1, of a stack of `most` blocks.
pub(super) fn block_number_faults(blocks: &[usize], key: &str, most: usize, at: &mut TableFaults) {
    if blocks.is_empty() {
        at.fault(
            &[key],
            format!("{key} = [] is empty; list blocks from 1 to {most}"),
        );
    }
    if let Some(wrong) = blocks.iter().find(|block| !(1..=most).contains(*block)) {
        let rule = format!(
            "{key} = {blocks:?} contains block {wrong}, but blocks are numbered from 1 to {most}"
        );
        at.fault(&[key], rule);
    }
    if blocks.windows(2).any(|pair| pair[0] >= pair[1]) {
        let rule = format!("{key} = {blocks:?} must be in ascending order, each block once");
        at.fault(&[key], rule);
    }
}

impl RetrievalConfig {
    /// Maximum length of a neighbour with its continuation, in tokens.
    pub fn neighbour_width(&self) -> usize {
        self.chunk.saturating_mul(2)
    }

    /// Width of the encoded neighbours.
    pub(in crate::model) fn d_encoder(&self, of: &StackConfig) -> usize {
        self.encoder.d_model.unwrap_or(of.d_model)
    }

    /// Returns the cross-attention to neighbours in a decoder with these blocks.
    pub(in crate::model) fn attention<'a>(
        &'a self,
        of: &'a StackConfig,
        depth: &Depth<'a>,
    ) -> &'a AttentionConfig {
        self.attention
            .as_ref()
            .unwrap_or_else(|| of.attention_of(depth))
    }

    /// Checks its keys, in a decoder under a demand.
    pub(in crate::model) fn faults(
        &self,
        of: &DecoderConfig,
        demand: &Demand,
        at: &mut TableFaults,
    ) {
        let sized = at.count("chunk", self.chunk, MAX_CHUNK);
        at.count("neighbours", self.neighbours, MAX_NEIGHBOURS);
        block_number_faults(&self.layers, "layers", of.n_layers(), at);
        self.combination_faults(of, demand, at);
        let (stack, depth) = (&of.stack, of.depth_without_retrieval());
        let attention = self.attention(stack, &depth);
        let d_model = Some(stack.d_model).filter(|d| (1..=MAX_WIDTH).contains(d));
        at.nested("attention", |at| {
            if self.attention.is_some() {
                attention.faults_across(d_model, at);
            }
            memory_attention_faults(attention, at);
            let own = stack.attention_of(&depth);
            let same = attention.d_head(stack.d_model) == own.d_head(stack.d_model);
            if d_model.is_some() && !same && stack.position.has_heads() {
                let rule = "heads have a different width than the decoder's heads, on which its positions act; make the widths \
                            equal";
                at.fault(&["n_heads", "model.position.kind"], rule);
            }
        });
        at.nested("encoder", |at| {
            self.encoder.faults(stack, self.neighbour_width(), at)
        });
        if let Some(context) = demand.context.filter(|_| sized)
            && !context.is_multiple_of(self.chunk)
        {
            let rule = format!(
                "chunk = {} does not divide the context of {context} tokens; make the context a multiple of it",
                self.chunk
            );
            at.fault(&["chunk", "data.context"], rule);
        }
    }

    /// Checks the keys and the task that retrieval is combined with.
    fn combination_faults(&self, of: &DecoderConfig, demand: &Demand, at: &mut TableFaults) {
        let stack = &of.stack;
        let mut without = |wrong: bool, keys: &[&str], rule: &str| {
            if wrong {
                at.fault(keys, rule);
            }
        };
        without(
            demand.used_for != Use::NextTokens,
            &["model.retrieval", "task.kind"],
            "retrieval has no effect: neighbours are found only for texts of [task] kind = \"causal_lm\"; remove it",
        );
        without(
            stack.position.facts().acts_on() == ActsOn::Heads(HeadEffect::FadingRotation),
            &["model.position.kind", "model.retrieval"],
            "kind = \"xpos\" needs keys before their queries, but tokens attend to neighbours that continue after them; use \
             rotary, alibi, relative_bias or none",
        );
        without(
            stack.norm_placement.needs_norm() || stack.norm_placement.is_parallel(),
            &["model.retrieval", "model.norm_placement"],
            "retrieval adds nothing where a chunk has no neighbours, and only norm_placement = \"pre\" leaves the residual stream \
             unchanged there; set it to \"pre\"",
        );
        without(
            stack.reversible.is_some(),
            &["model.retrieval", "model.reversible"],
            "retrieval adds cross-attention, but reversible is defined only for blocks of two layers; remove one of them",
        );
        without(
            !stack.share_layers.is_none(),
            &["model.retrieval", "model.share_layers"],
            "retrieval adds a layer to some blocks only, but share_layers needs equal blocks; remove one of them",
        );
        without(
            demand.inner_layers,
            &["task.intermediate_layers", "model.retrieval"],
            "intermediate_layers = true reads hidden states that do not depend on neighbours yet; remove it or [model.retrieval]",
        );
        let depth = of.depth_without_retrieval();
        let mut attentions = stack
            .distinct_blocks(depth)
            .filter_map(|block| block.attention);
        without(
            attentions.any(|attention| attention.segments().is_some()),
            &["model.attention.memory", "model.retrieval"],
            "memory carries a text from step to step, but neighbours are found for independent windows; remove one of them",
        );
    }

    /// Elements kept per token of the text for the backward pass: by the decoder's cross-attention to neighbours, and by the
    /// encoder for the neighbours' tokens.
    pub(in crate::model) fn activations_per_token(&self, of: &DecoderConfig) -> u128 {
        let stack = self.encoder.stack(&of.stack);
        let (d, d_encoder) = (of.stack.d_model, stack.d_model);
        let heads = self
            .attention(&of.stack, &of.depth_without_retrieval())
            .across();
        let looking = 2 * d as u128 + heads.kept(d);
        let attention = stack.attention.kept(d_encoder) + stack.attention.across().kept(d_encoder);
        let block = 6 * d_encoder as u128 + attention + stack.feed_forward.activations(d_encoder);
        let texts = 2 * self.neighbours as u128 * self.encoder.n_layers as u128;
        self.layers.len() as u128 * looking + texts * block
    }

    /// Multiplications of a forward pass over `tokens` tokens, in addition to those of the decoder without neighbours.
    pub(in crate::model) fn products(&self, of: &DecoderConfig, tokens: usize) -> u128 {
        let (m, k, width) = (self.chunk.max(1), self.neighbours, self.neighbour_width());
        let chunks = tokens / m;
        let (d, stack) = (of.stack.d_model, self.encoder.stack(&of.stack));
        let d_encoder = stack.d_model;
        let texts = chunks as u128 * k as u128;
        let input = match d_encoder == d {
            true => 0,
            false => width as u128 * (d * d_encoder) as u128,
        };
        let looking = self
            .encoder
            .cross
            .as_ref()
            .map_or(self.encoder.n_layers, Vec::len);
        let own = stack.products(&self.encoder.depth_without_cross(), width, 0);
        let heads = stack.attention.across().heads();
        let conditioned =
            looking as u128 * cross_attention_products(&heads, [d_encoder, d], [width, m, m]);
        let heads = self
            .attention(&of.stack, &of.depth_without_retrieval())
            .across()
            .heads();
        let (queries, keys) = (chunks * m, k * width);
        let each = cross_attention_products(&heads, [d, d_encoder], [queries, chunks * keys, keys]);
        // Vectors of distances are projected once for all texts.
        let shape = stack.position_shape(&self.encoder.depth_without_cross(), width);
        let distances = stack.position.facts().products(&shape, [width, width, 0]);
        let again = texts.saturating_sub(1) * self.encoder.n_layers as u128 * distances;
        texts * (input + own + conditioned) - again + self.layers.len() as u128 * each
    }
}

/// Multiplications of cross-attention from a stream of width `d_model` to a memory of width `d_memory`: `queries` queries, keys of
/// `sources` positions, and `keys` keys seen by each query.
fn cross_attention_products(
    heads: &MultiHeadConfig,
    [d_model, d_memory]: [usize; 2],
    [queries, sources, keys]: [usize; 3],
) -> u128 {
    let all = [
        d_model,
        d_memory,
        queries,
        sources,
        keys,
        heads.d_head(d_model),
    ];
    let [d_model, d_memory, queries, sources, keys, d_head] = all.map(|n| n as u128);
    let width = heads.n_heads as u128 * d_head;
    let kv_width = heads.n_kv_heads() as u128 * d_head;
    2 * d_model * queries * width + 2 * d_memory * sources * kv_width + 2 * queries * keys * width
}
