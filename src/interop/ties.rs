//! Heads that config.json ties to the embedding table although their weights differ from it.
//!
//! transformers 5 ties two tensors if one of them is missing or both are equal; otherwise each keeps its own values,
//! whatever `tie_word_embeddings` says. The model is read the same way here: such a head has a matrix of its own.

use super::families::{Family, HfShape};
use super::rename::{TIED, Table};
use super::weights::{Weights, invalid};
use crate::error::Result;
use crate::model::ModelConfig;
use crate::nn::position::PositionConfig;

/// Path of our embedding table, to which a head can be tied.
const TOKENS: &str = "model.embedding.weight";

/// Unties the model if its weights have a different head, or a different embedding table for one side; returns a note on
/// it.
///
/// # Errors
/// If tensors cannot be read, or tensors differ from the tied ones in a way that no model of the family can have.
pub(super) fn untie(
    family: &Family,
    shape: &mut HfShape,
    weights: &Weights,
) -> Result<Option<String>> {
    if !is_tied(&shape.model) {
        return Ok(None);
    }
    let table = family.rules(shape);
    let Some(tokens) = hf_name(&table, weights, TOKENS) else {
        return Ok(None);
    };
    let mut own = Vec::new();
    for name in tied_names(&table, weights, tokens) {
        // A wrong shape is reported later, with those of all other tensors.
        if weights.shape(name) != weights.shape(tokens)
            || weights.read(name)? != weights.read(tokens)?
        {
            own.push(name);
        }
    }
    if let Some(bias) = other_bias(&table, weights)? {
        let matrix = bias.replace(".bias", ".weight");
        if weights.shape(&matrix).is_none() {
            let message = format!(
                "has `{bias}` with values that differ from the head's own bias, but no `{matrix}`; add the matrix or remove the bias"
            );
            return Err(invalid(&weights.place(bias), message));
        }
        own.push(bias);
    }
    if own.is_empty() {
        return Ok(None);
    }
    let names = own.join("`, `");
    if !set_untied(
        &mut shape.model,
        own.iter().all(|name| !is_side_embedding(name)),
    ) {
        let message = format!(
            "has `{names}` with values that differ from `{tokens}`; a {} has one embedding table for both sides here",
            family.model_type
        );
        return Err(invalid(&weights.place(tokens), message));
    }
    if family.model_type == "marian" {
        // Marian's file gives the size of each vocabulary.
        shape
            .shape
            .source_vocab_size
            .get_or_insert(shape.shape.vocab_size);
    }
    Ok(Some(format!(
        "the weights have separate values for `{names}`, which config.json ties (`tie_word_embeddings`): they are imported \
         separately from `{tokens}`, as transformers 5 loads them"
    )))
}

/// Whether the model uses one matrix in two places.
fn is_tied(model: &ModelConfig) -> bool {
    match model {
        ModelConfig::Decoder(config) => config.tie_embeddings,
        ModelConfig::Encoder(config) => config.tie_embeddings,
        ModelConfig::EncoderDecoder(config) => config.tie_embeddings || config.share_embeddings,
        ModelConfig::SpeechEncoderDecoder(config) => config.tie_embeddings,
        _ => false,
    }
}

/// Whether this is the name of the embedding table of one side, encoder or decoder.
fn is_side_embedding(name: &str) -> bool {
    name.ends_with("embed_tokens.weight")
}

/// Unties a model; false if its family cannot be untied so. `head_alone`: only the head differs, neither side's table
/// does.
fn set_untied(model: &mut ModelConfig, head_alone: bool) -> bool {
    match model {
        ModelConfig::Decoder(config) => config.tie_embeddings = false,
        ModelConfig::Encoder(config) => config.tie_embeddings = false,
        ModelConfig::SpeechEncoderDecoder(config) => config.tie_embeddings = false,
        ModelConfig::EncoderDecoder(config) => {
            // T5 always has one table for both sides; the others have three separate tensors or one.
            let t5 = matches!(config.stack.position, PositionConfig::RelativeBias(_));
            if t5 && !head_alone {
                return false;
            }
            config.tie_embeddings = false;
            config.share_embeddings = t5;
        }
        _ => return false,
    }
    true
}

/// The name in the weights of the tensor that holds one of our parameters.
fn hf_name<'w>(table: &Table, weights: &'w Weights, ours: &str) -> Option<&'w str> {
    let rules = table.rules.iter();
    let mut rules = rules.filter(|rule| rule.ours.len() == 1 && rule.ours[0] == ours);
    rules.find_map(|rule| weights.find(table.prefix, &rule.theirs[0]))
}

/// The tensors that the table ignores as copies of the embedding table.
fn tied_names<'w>(table: &Table, weights: &'w Weights, tokens: &str) -> Vec<&'w str> {
    let endings = table.ignored.iter();
    let endings: Vec<&&str> = endings
        .filter(|ignored| TIED.iter().any(|end| ignored.ends_with(end)))
        .collect();
    let tied = |name: &&str| *name != tokens && endings.iter().any(|end| name.ends_with(**end));
    weights.names().filter(tied).collect()
}

/// The alternative name of the head's bias, if its values differ from the bias itself.
fn other_bias<'w>(table: &Table, weights: &'w Weights) -> Result<Option<&'w str>> {
    let Some(bias) = hf_name(table, weights, "head.bias") else {
        return Ok(None);
    };
    let ignored = |name: &&str| name.ends_with("decoder.bias") && table.ignores(name);
    match weights.names().find(ignored) {
        Some(other) if weights.read(other)? != weights.read(bias)? => Ok(Some(other)),
        _ => Ok(None),
    }
}
