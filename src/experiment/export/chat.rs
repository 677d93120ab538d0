//! Writes the chat template of a run to a folder, and the token that ends its answers.

use crate::error::Result;
use crate::experiment::open::OpenedRun;
use crate::generate::SamplingConfig;
use crate::tokenizer::chat::Ending;
use crate::tokenizer::{ChatTemplate, hf};
use serde_json::Value;
use std::path::Path;

/// Writes a chat template beside a tokenizer, with its special tokens by their roles.
///
/// # Errors
/// If writing fails.
pub(super) fn write(dir: &Path, template: &ChatTemplate) -> Result<()> {
    hf::write_chat_template(dir, template)?;
    let roles = template.tokens().iter();
    let roles = roles.map(|(role, token)| (role.clone(), Value::from(token.as_str())));
    hf::restore(dir, &roles.collect())
}

/// The sampling settings for the folder. If the run writes conversations, generation also stops at the token that ends an
/// answer.
pub(super) fn with_answer_end(
    sampling: &SamplingConfig,
    opened: &OpenedRun,
    notes: &mut Vec<String>,
) -> SamplingConfig {
    let mut sampling = sampling.clone();
    let all = &opened.tokenizers;
    if let (Some(template), Some(tokenizer)) = (&all.chat, &all.text) {
        let end = match template.ending(tokenizer) {
            Ok(Ending::Token(end)) => Some(end),
            Ok(Ending::Text(_) | Ending::NoEnd) => None,
            Err(why) => {
                notes.push(format!(
                    "the folder does not specify the token that ends an answer: {why}"
                ));
                None
            }
        };
        if let Some(end) = end.filter(|end| !sampling.end.contains(end)) {
            if sampling.end.is_empty() {
                sampling.end.extend(tokenizer.end_of_text());
            }
            sampling.end.push(end);
            sampling.end.dedup();
        }
    }
    sampling
}
