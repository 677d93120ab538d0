//! Prompts as tokens, behind those that an imported model has seen before every text.

use crate::data::DataConfig;
use crate::error::{Error, Result};
use crate::generate::SamplingConfig;
use crate::tokenizer::Tokenizer;

/// The tokens that the file of an imported tokenizer puts before a text, `<s>` of LLaMA's (Touvron et al., arXiv:2302.13971)
/// say; none of a tokenizer whose file puts nothing there, and of any in a run that was trained here, which reads texts
/// without them.
pub(super) fn tokens(data: &DataConfig, tokenizer: &Tokenizer) -> Vec<u32> {
    let edges = tokenizer.own_edges().filter(|_| data.is_imported());
    let before = edges.map_or(&[][..], |edges| edges.before());
    before.iter().map(|id| *id as u32).collect()
}

/// The tokens of a prompt, behind `begin` unless it begins with these itself.
///
/// # Errors
/// A prompt that the tokenizer cannot encode, an empty one, one that is too long.
pub(super) fn prompt(
    text: &str,
    (tokenizer, begin): (&Tokenizer, &[u32]),
    config: &SamplingConfig,
) -> Result<Vec<u32>> {
    let own = tokenizer.encode(text)?;
    if own.is_empty() {
        return Err(Error::usage(
            "the prompt is empty: give at least one token to continue",
        ));
    }
    let tokens = match own.starts_with(begin) {
        true => own,
        false => [begin, &own[..]].concat(),
    };
    config.tokens_after(tokens.len())?;
    Ok(tokens)
}
