//! The chat template of a run's conversations, and a tokenizer that knows its special tokens.

use super::LocatedConversation;
use crate::data::Request;
use crate::error::{Error, Result};
use crate::tokenizer::chat::{CHATML_MARKS, Conversation};
use crate::tokenizer::{ChatTemplate, Tokenizer, TokenizerConfig, hf};
use rayon::prelude::*;
use std::path::Path;

/// The keys of a kind of data that decide how conversations are written.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::data) struct TemplateKeys<'a> {
    /// File of a chat template.
    pub(in crate::data) template: Option<&'a Path>,
    /// Date given to the template.
    pub(in crate::data) date: Option<&'a str>,
}

/// Returns the tokenizer and the template of a kind of data: the run's own, or those that the keys and the
/// training conversations give. `texts` writes the texts that a tokenizer is trained on with a template.
///
/// # Errors
/// If the experiment has no tokenizer, files are missing or damaged, or `texts` fails.
pub(in crate::data) fn tokenizer_and_template(
    given: TemplateKeys<'_>,
    (kind, request): (&str, &Request),
    texts: impl FnOnce(&ChatTemplate) -> Result<Vec<String>>,
) -> Result<(Tokenizer, ChatTemplate)> {
    let saved = request.saved_tokenizers;
    if let (Some(tokenizer), Some(template), Some(_)) =
        (&saved.text, &saved.chat, request.run_shape)
    {
        return Ok((tokenizer.clone(), template.clone()));
    }
    let brought = match (&saved.chat, request.tokenizer) {
        (Some(template), _) => Some(template.clone()),
        (None, Some(tokenizer)) => match tokenizer.path() {
            Some(path) => hf::chat_template(&request.places.resolve(path)?)?,
            None => None,
        },
        (None, None) => None,
    };
    let template = match given.template {
        Some(path) => {
            let tokens = brought.map(|template| template.tokens().clone());
            ChatTemplate::read(&request.places.resolve(path)?, tokens.unwrap_or_default())?
        }
        None => brought.unwrap_or_else(ChatTemplate::chatml),
    };
    let template = match given.date {
        Some(date) => template
            .with_date(date)
            .map_err(|why| Error::usage(format!("[data] date: {why}")))?,
        None => template,
    };
    let tokenizer = match (&saved.text, request.tokenizer) {
        (Some(saved), _) => saved.clone(),
        (None, Some(tokenizer)) => {
            let found = tokenizer.with_path(|path| request.places.resolve(path))?;
            let texts = match found.is_trained() {
                true => pieces(texts(&template)?, &template),
                false => Vec::new(),
            };
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            with_chatml_tokens(&Tokenizer::build(&found, &texts)?, tokenizer, &template)?
        }
        (None, None) => {
            return Err(Error::usage(format!(
                "[data] kind = \"{kind}\" needs a [tokenizer]"
            )));
        }
    };
    Ok((tokenizer, template))
}

/// Returns notes about a template that does not match the tokenizer or the keys.
pub(in crate::data) fn notes(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    request: &Request,
) -> Vec<String> {
    let mut notes = Vec::new();
    if request.run_shape.is_some() {
        return notes;
    }
    if template.has_unused_date() {
        notes.push(
            "[data] date has no effect: the chat template does not use a date (strftime_now)"
                .into(),
        );
    }
    let lacking = CHATML_MARKS
        .iter()
        .find(|mark| tokenizer.id(mark).is_none());
    if let Some(mark) = lacking.filter(|_| writes_chatml(template)) {
        notes.push(format!(
            "the tokenizer has no token {mark} and splits ChatML's special tokens into pieces: `formwork chat` finds the end of an answer \
             by its text, but other programs do not"
        ));
    }
    notes
}

/// Whether a template writes ChatML's special tokens.
fn writes_chatml(template: &ChatTemplate) -> bool {
    CHATML_MARKS
        .iter()
        .all(|mark| template.template().contains(mark))
}

/// Returns the tokenizer, with ChatML's special tokens added if it is built here for a template that writes
/// them.
fn with_chatml_tokens(
    tokenizer: &Tokenizer,
    config: &TokenizerConfig,
    template: &ChatTemplate,
) -> Result<Tokenizer> {
    match config.path().is_none() && writes_chatml(template) {
        true => tokenizer.with_tokens(CHATML_MARKS.into_iter().map(String::from)),
        false => Ok(tokenizer.clone()),
    }
}

/// Splits texts that a template has written at ChatML's special tokens; a tokenizer is trained on the pieces.
fn pieces(written: Vec<String>, template: &ChatTemplate) -> Vec<String> {
    if !writes_chatml(template) {
        return written;
    }
    CHATML_MARKS.iter().fold(written, |pieces, mark| {
        let cut = pieces.iter().flat_map(|piece| piece.split(mark));
        cut.map(str::to_owned).collect()
    })
}

/// Writes conversations with a template.
///
/// # Errors
/// At the first conversation that the template refuses; the message has its line.
pub(super) fn render_all(
    all: &[LocatedConversation],
    template: &ChatTemplate,
) -> Result<Vec<String>> {
    let write = |one: &LocatedConversation| with_location(one, |c| template.render(c, false));
    let all: Vec<Result<String>> = all.par_iter().map(write).collect();
    all.into_iter().collect()
}

/// Applies `write` to a conversation and adds the file and line to an error.
pub(super) fn with_location<T>(
    one: &LocatedConversation,
    write: impl Fn(&Conversation) -> std::result::Result<T, String>,
) -> Result<T> {
    write(&one.conversation)
        .map_err(|why| Error::run(format!("{}:{}: {why}", one.path.display(), one.line)))
}
