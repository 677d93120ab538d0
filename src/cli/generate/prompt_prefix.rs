//! Tokenizes prompts, preceded by the tokens that an imported model has seen before every text.

use crate::data::DataConfig;
use crate::error::{Error, Result};
use crate::generate::SamplingConfig;
use crate::tokenizer::Tokenizer;

/// Returns the tokens that the file of an imported tokenizer puts before a text, such as `<s>` of LLaMA (Touvron et al.,
/// arXiv:2302.13971). Empty if the file puts nothing there, and for runs trained here, which read texts without such tokens.
pub(super) fn begin_tokens(data: &DataConfig, tokenizer: &Tokenizer) -> Vec<u32> {
    let edges = tokenizer.file_layout().filter(|_| data.is_imported());
    let before = edges.map_or(&[][..], |edges| edges.before());
    before.iter().map(|id| *id as u32).collect()
}

/// Tokenizes a prompt and prepends `begin`, unless the prompt starts with it already.
///
/// # Errors
/// If the tokenizer cannot encode the prompt, or it is empty or too long.
pub(super) fn prompt_tokens(
    text: &str,
    (tokenizer, begin): (&Tokenizer, &[u32]),
    config: &SamplingConfig,
) -> Result<Vec<u32>> {
    let own = tokenizer.encode(text)?;
    if own.is_empty() {
        return Err(Error::usage(
            "the prompt is empty; give at least one token to continue",
        ));
    }
    let tokens = match own.starts_with(begin) {
        true => own,
        false => [begin, &own[..]].concat(),
    };
    config.tokens_after(tokens.len())?;
    Ok(tokens)
}
