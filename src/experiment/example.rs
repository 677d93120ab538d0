//! Prepares one text, image or recording as a run reads it.

use super::open::OpenedRun;
use crate::data::batch::{Item, SpokenItem, TextItem};
use crate::data::images::read_image;
use crate::data::speech::{self, SpeechInputs};
use crate::error::{Error, Result};
use crate::generate::Translator;
use crate::task::infer::TOKEN_TYPE_IDS;
use crate::tokenizer::Tokenizer;
use std::path::Path;

/// The second text of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondText<'a> {
    /// No second text; a text-to-text run generates its own.
    Own,
    /// The given text.
    Given(&'a str),
}

/// Prepares a text, or a pair of texts, as a run reads it: with the special tokens of its tokenizer or, for a text-to-text run,
/// as source and target. Also returns whether it was truncated to the run's length.
///
/// # Errors
/// If the run has no tokenizer or reads images; if the tokenizer cannot encode the text; if a text is empty; if a second text
/// is given to a run that reads single texts.
pub fn from_text(opened: &OpenedRun, text: &str, beside: SecondText) -> Result<(Item, bool)> {
    let tokenizer = tokenizer(opened)?;
    let second = match beside {
        SecondText::Own => None,
        SecondText::Given(second) => Some(second),
    };
    if let Some(translator) = translator(opened) {
        let search = &opened.experiment.decode.search;
        let pair = translator.encode_pair(text, second, search)?;
        return Ok((Item::Pair(pair), translator.truncated() > 0));
    }
    let (networks, data) = (opened.model.networks(), &opened.experiment.data);
    if networks.language_model.is_some() {
        return match second {
            Some(_) => Err(Error::usage("the run reads single texts: remove --pair")),
            None => from_running_text(opened, text, tokenizer),
        };
    }
    if networks.embedder.is_some() && second.is_some() {
        return Err(Error::usage(
            "the run reads each text separately: remove --pair",
        ));
    }
    // Masked language models and span models can have two segments, too.
    let segments = networks.infers.is_some_and(|network| {
        let inputs = network.inputs(&opened.shape);
        inputs.iter().any(|input| input.name == TOKEN_TYPE_IDS)
    });
    let item = match (second, tokenizer.special_token_layout()) {
        (Some(second), Some(_)) if segments => data.read_both(text, second, tokenizer)?,
        _ => data.read_text(text, second, tokenizer)?,
    };
    let mut whole = tokenizer.encode(text)?.len();
    if let Some(second) = second {
        whole += tokenizer.encode(second)?.len();
    }
    let marks = tokenizer
        .special_token_layout()
        .map_or(0, |e| e.len(second.is_some()));
    let cut = whole + marks > item.inputs.len();
    Ok((Item::Text(item), cut))
}

/// Prepares a single text with the tokenizer's special tokens, whether the run reads single texts or pairs, and returns whether
/// it was truncated. For a text-to-text run it is a source with an empty target.
///
/// # Errors
/// As [`from_text`].
pub fn from_single_text(opened: &OpenedRun, text: &str) -> Result<(Item, bool)> {
    let tokenizer = tokenizer(opened)?;
    if text.trim().is_empty() {
        return Err(Error::usage("the text is empty"));
    }
    if let Some(translator) = translator(opened) {
        let search = &opened.experiment.decode.search;
        let pair = translator.encode_pair(text, Some(""), search)?;
        return Ok((Item::Pair(pair), translator.truncated() > 0));
    }
    if opened.model.networks().language_model.is_some() {
        return from_running_text(opened, text, tokenizer);
    }
    let (item, cut) = opened.experiment.data.read_single(text, tokenizer)?;
    Ok((Item::Text(item), cut))
}

/// Prepares a text as a language model reads it, without special tokens.
fn from_running_text(
    opened: &OpenedRun,
    text: &str,
    tokenizer: &Tokenizer,
) -> Result<(Item, bool)> {
    let mut inputs: Vec<i32> = tokenizer
        .encode(text)?
        .into_iter()
        .map(|id| id as i32)
        .collect();
    if inputs.is_empty() {
        return Err(Error::usage("the text is empty"));
    }
    let cut = inputs.len() > opened.shape.context;
    inputs.truncate(opened.shape.context);
    let item = TextItem {
        inputs,
        ..TextItem::default()
    };
    Ok((Item::Text(item), cut))
}

fn translator(opened: &OpenedRun) -> Option<Translator<'_>> {
    let decode = &opened.experiment.decode;
    let longest = opened.shape.context;
    Translator::new(&opened.model, &opened.tokenizers, decode, longest)
}

fn tokenizer(opened: &OpenedRun) -> Result<&Tokenizer> {
    let networks = opened.model.networks();
    if opened.shape.image.is_some() && networks.image_text.is_none() {
        return Err(Error::usage("the run reads images, not texts"));
    }
    let tokenizer = opened.tokenizers.text.as_ref();
    tokenizer.ok_or_else(|| Error::usage("the run has no tokenizer to convert tokens to text"))
}

/// Prepares a WAV or FLAC file for a run that reads samples; `None` for other runs. Also returns whether the recording was
/// truncated to the run's length.
///
/// # Errors
/// If the file cannot be read or decoded.
pub fn from_recording(opened: &OpenedRun, path: &Path) -> Result<Option<(Item, bool)>> {
    let Some(speech) = opened.shape.speech.filter(|speech| speech.n_mels == 0) else {
        return Ok(None);
    };
    let samples = speech::samples(path)?;
    let is_cut = speech.samples().is_some_and(|most| samples.len() > most);
    let heard = SpeechInputs::new(speech).item(&samples);
    Ok(Some((
        Item::Spoken(SpokenItem::aligned(heard, &[])),
        is_cut,
    )))
}

/// Prepares a PNG or JPEG file as a run reads it.
///
/// # Errors
/// If the file cannot be read or decoded, or the run reads texts.
pub fn from_image(opened: &OpenedRun, path: &Path) -> Result<Item> {
    if let Some(sequence) = opened.experiment.data.read_sequence(path)? {
        return Ok(Item::Text(sequence));
    }
    match opened.shape.image {
        Some(_) => Ok(Item::Image(read_image(path, &opened.shape)?)),
        None => Err(Error::usage("the run reads texts, not images")),
    }
}
