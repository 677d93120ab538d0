//! The chat template of a run's conversations, and the tokenizer that knows its marks.

use super::Filed;
use crate::data::Request;
use crate::error::{Error, Result};
use crate::tokenizer::chat::{CHATML_MARKS, Conversation};
use crate::tokenizer::{ChatTemplate, Tokenizer, TokenizerConfig, hf};
use rayon::prelude::*;
use std::path::Path;

/// The keys of a kind of data that say how conversations are written.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::data) struct Given<'a> {
    /// The file of a template.
    pub(in crate::data) template: Option<&'a Path>,
    /// The date that it is told.
    pub(in crate::data) date: Option<&'a str>,
}

/// The tokenizer and the template of a kind of data: the run's own, or those that the keys and the training conversations give.
/// `texts` makes the texts that a tokenizer learns from, as a template writes them.
///
/// # Errors
/// An experiment without a tokenizer, files that are missing or damaged; those of `texts`.
pub(in crate::data) fn of(
    given: Given<'_>,
    (kind, request): (&str, &Request),
    texts: impl FnOnce(&ChatTemplate) -> Result<Vec<String>>,
) -> Result<(Tokenizer, ChatTemplate)> {
    let saved = request.saved;
    if let (Some(tokenizer), Some(template), Some(_)) = (&saved.text, &saved.chat, request.run) {
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
            .dated(date)
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
            marked(&Tokenizer::build(&found, &texts)?, tokenizer, &template)?
        }
        (None, None) => {
            return Err(Error::usage(format!(
                "[data] kind = \"{kind}\" needs a [tokenizer]"
            )));
        }
    };
    Ok((tokenizer, template))
}

/// Messages about a template that a tokenizer does not know.
pub(in crate::data) fn notes(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    request: &Request,
) -> Vec<String> {
    let mut notes = Vec::new();
    if request.run.is_some() {
        return notes;
    }
    if template.has_idle_date() {
        notes.push(
            "[data] date has no effect: the chat template asks for no date (strftime_now)".into(),
        );
    }
    let lacking = CHATML_MARKS
        .iter()
        .find(|mark| tokenizer.id(mark).is_none());
    if let Some(mark) = lacking.filter(|_| writes_chatml(template)) {
        notes.push(format!(
            "the tokenizer has no token {mark}, and writes ChatML's marks in pieces: `formwork chat` ends answers by their text, other \
             programs do not"
        ));
    }
    notes
}

/// Whether a template writes ChatML's marks.
fn writes_chatml(template: &ChatTemplate) -> bool {
    CHATML_MARKS
        .iter()
        .all(|mark| template.template().contains(mark))
}

/// The tokenizer with ChatML's marks, where it is made here for a template that writes them.
fn marked(
    tokenizer: &Tokenizer,
    config: &TokenizerConfig,
    template: &ChatTemplate,
) -> Result<Tokenizer> {
    match config.path().is_none() && writes_chatml(template) {
        true => tokenizer.with_tokens(CHATML_MARKS.into_iter().map(String::from)),
        false => Ok(tokenizer.clone()),
    }
}

/// Texts that a template has written, in pieces between its marks: what a tokenizer learns from.
fn pieces(written: Vec<String>, template: &ChatTemplate) -> Vec<String> {
    if !writes_chatml(template) {
        return written;
    }
    CHATML_MARKS.iter().fold(written, |pieces, mark| {
        let cut = pieces.iter().flat_map(|piece| piece.split(mark));
        cut.map(str::to_owned).collect()
    })
}

/// Conversations as a template writes them.
///
/// # Errors
/// The first one that it refuses, with its line.
pub(super) fn all_written(all: &[Filed], template: &ChatTemplate) -> Result<Vec<String>> {
    let write = |one: &Filed| written(one, |c| template.render(c, false));
    let all: Vec<Result<String>> = all.par_iter().map(write).collect();
    all.into_iter().collect()
}

/// What a template makes of a conversation; an error has its place.
pub(super) fn written<T>(
    one: &Filed,
    write: impl Fn(&Conversation) -> std::result::Result<T, String>,
) -> Result<T> {
    write(&one.conversation)
        .map_err(|why| Error::run(format!("{}:{}: {why}", one.path.display(), one.line)))
}
