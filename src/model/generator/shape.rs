//! The shape of a generator beside an encoder: its narrower widths, and the cases in which they do not fit.

use super::super::encoder::EncoderConfig;
use super::super::heads::MlmHead;
use super::super::mask_decoder::MaskDecoder;
use super::super::{Demand, ModelConfig, Use};
use crate::faults::{Faults, TableFaults};
use crate::nn::attention::AttentionConfig;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::position::KnownSizes;
use crate::stack::StackConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The relation of a generator's embedding tables to those of the encoder that is trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TableSharing {
    /// One embedding of tokens, segments and positions for both (Clark et al. 2020, section 3.2).
    #[default]
    Shared,
    /// Each network has its own tables; the generator's are as wide as its own stream.
    Unshared,
    /// The encoder's vector of a token is the generator's, without gradients to it, plus a difference that starts at zero:
    /// E + Δ (He et al. 2021, DeBERTaV3, section 3.3). All other parameters are separate.
    Disentangled,
}

/// The shape of a generator beside an encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeneratorShape {
    /// Ratio of its width, heads and hidden widths to the encoder's.
    pub size: f64,
    /// Number of its blocks; the encoder's number when absent.
    pub n_layers: Option<usize>,
    /// The relation of its embedding tables to the encoder's.
    pub tables: TableSharing,
}

/// Relative tolerance for a width times `size` to count as a whole number, for sizes such as 0.3333.
const WHOLE_NUMBER_TOLERANCE: f64 = 2e-3;

impl GeneratorShape {
    /// Returns the generator as the config of a separate network, for plans; `None` beside a model that is no encoder.
    pub fn network_config(&self, model: &ModelConfig) -> Option<ModelConfig> {
        Some(ModelConfig::Encoder(
            self.config(model.masked_lm_encoder()?),
        ))
    }

    /// Returns the config of the generator of an encoder.
    pub fn config(&self, encoder: &EncoderConfig) -> EncoderConfig {
        let whole = common_divisor_of_sizes(encoder);
        let parts = (self.size * whole as f64).round().max(1.0) as usize;
        let scaled = |n: usize| (n / whole).saturating_mul(parts).max(1);
        let attention = |c: &AttentionConfig| c.with_heads(scaled);
        let feed_forward = |c: &FeedForwardConfig| c.with_width(scaled);
        let stack = &encoder.stack;
        let d_model = scaled(stack.d_model);
        let wide = encoder.d_embedding();
        let mut layers = encoder.layers.clone();
        for group in &mut layers {
            group.attention = group.attention.as_ref().map(attention);
            group.feed_forward = group.feed_forward.as_ref().map(feed_forward);
        }
        EncoderConfig {
            n_layers: self.n_layers.or(encoder.n_layers),
            layers,
            stack: StackConfig {
                d_model,
                attention: attention(&stack.attention),
                feed_forward: feed_forward(&stack.feed_forward),
                ..stack.clone()
            },
            d_embedding: match self.tables {
                TableSharing::Unshared => None,
                TableSharing::Shared | TableSharing::Disentangled => {
                    Some(wide).filter(|wide| *wide != d_model)
                }
            },
            ..encoder.with_pooler_if(false)
        }
    }

    /// Reports a size that makes the generator's width, number of heads or a hidden width no whole number.
    fn size_fault(&self, encoder: &EncoderConfig) -> Option<String> {
        let whole = common_divisor_of_sizes(encoder);
        let parts = self.size * whole as f64;
        if (parts - parts.round()).abs() <= WHOLE_NUMBER_TOLERANCE * parts
            && parts >= 1.0 - WHOLE_NUMBER_TOLERANCE
        {
            return None;
        }
        let rule = format!(
            "size = {:?}: the generator's d_model, heads and d_ff must be whole numbers",
            self.size
        );
        let near = parts.round().clamp(1.0, whole as f64) / whole as f64;
        Some(match whole {
            1 => format!(
                "{rule}, but those of the encoder ({}) have no common divisor above 1: set size = 1.0, or give [model] numbers \
                 with a common divisor",
                list_in_words(sizes(encoder))
            ),
            _ => {
                format!("{rule}, so size must be a multiple of 1/{whole}; the nearest is {near:?}")
            }
        })
    }

    /// Checks the shape beside an encoder; the encoder's own faults are reported elsewhere.
    pub(in crate::model) fn faults(&self, encoder: &EncoderConfig, at: &mut TableFaults) {
        const SIZE: &str = "task.generator.size";
        if let Some(rule) = self.size_fault(encoder) {
            at.fault(&[SIZE, "d_model"], rule);
            return;
        }
        let (config, grouped) = (self.config(encoder), encoder.depth().grouped_blocks());
        if let Some(n) = self.n_layers
            && grouped > 0
            && !n.is_multiple_of(grouped)
        {
            let rule = format!(
                "n_layers = {n} is not a multiple of {grouped}, the blocks of [[model.layers]]; remove it or set a multiple"
            );
            at.fault(&["task.generator.n_layers", "layers"], rule);
        }
        let wide = encoder.d_embedding();
        let untransformed = config.tie_embeddings && !config.head_transform;
        if self.tables != TableSharing::Unshared && untransformed && wide != config.stack.d_model {
            let rule = format!(
                "the generator's head is the embedding table, whose vectors have {wide} elements, but its hidden states have {}: \
                 set head_transform = true or tie_embeddings = false",
                config.stack.d_model
            );
            at.fault(&["head_transform", "tie_embeddings", SIZE], rule);
        }
        if self.tables == TableSharing::Shared && encoder.mask_decoder.is_some() {
            let rule = "mask_decoder is part of the generator, which has no separate encoder with shared tables; remove it, or \
                        set [task] embeddings = \"unshared\" or \"disentangled\"";
            at.fault(&["mask_decoder", "task.embeddings"], rule);
        }
        // Widths that are configured as absolute numbers may fit the encoder but not its narrower copy.
        let narrower = |config: &EncoderConfig| {
            let mut found = Faults::default();
            let d = config.stack.d_model;
            let head = config.stack.attention_of(&config.depth()).d_head(d);
            let known = KnownSizes {
                d_model: Some(d),
                d_head: Some(head),
                context: None,
                is_image: false,
            };
            let position = config.stack.position.facts();
            position.faults(&known, &mut found.of("model.position"));
            let narrow = config.d_embedding;
            let narrow = narrow.and_then(|e| position.embedding_width_fault(e, d));
            let rules = found.found.into_iter().map(|(_, rule)| rule);
            rules.chain(narrow).collect::<Vec<String>>()
        };
        if self.tables != TableSharing::Shared && narrower(encoder).is_empty() {
            for rule in narrower(&config) {
                at.fault(&["position.kind", SIZE], format!("generator: {rule}"));
            }
        }
    }

    /// Multiplications of a forward pass over a text of `tokens` tokens, `guessed` of which are predicted.
    pub fn products(
        &self,
        encoder: &EncoderConfig,
        vocab: usize,
        tokens: usize,
        guessed: f64,
    ) -> f64 {
        let config = self.config(encoder);
        let decoder = MaskDecoder::products(&config, tokens, false);
        let head = MlmHead::products(&config, vocab) as f64;
        config.text_products(tokens) as f64 + decoder + guessed * head
    }
}

impl Demand {
    /// Builds the demand of [`Use::MaskedTokens`] with a generator beside the network.
    pub fn with_generator(generator: Option<GeneratorShape>) -> Self {
        Self {
            generator,
            ..Self::plain(Use::MaskedTokens)
        }
    }
}

/// Greatest common divisor of the width, heads and hidden widths of an encoder; at least 1.
fn common_divisor_of_sizes(encoder: &EncoderConfig) -> usize {
    sizes(encoder).into_iter().fold(0, gcd).max(1)
}

/// Returns the width, the heads and the hidden widths of an encoder.
fn sizes(encoder: &EncoderConfig) -> Vec<usize> {
    let stack = &encoder.stack;
    let mut sizes = vec![stack.d_model];
    sizes.extend(stack.distinct_blocks(encoder.depth()).flat_map(|block| {
        let heads = block.attention.map(AttentionConfig::heads);
        let heads = heads.map(|heads| [heads.n_heads, heads.n_kv_heads()]);
        let inner = block
            .feed_forward
            .and_then(FeedForwardConfig::configured_width);
        heads.into_iter().flatten().chain(inner)
    }));
    sizes
}

/// Lists distinct numbers in words: `1, 4 and 128`.
fn list_in_words(mut numbers: Vec<usize>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

fn gcd(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}
