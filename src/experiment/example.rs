//! One text or image as a run reads it.

use super::open::Opened;
use crate::data::batch::{Item, TextItem};
use crate::data::images::read_image;
use crate::error::{Error, Result};
use crate::generate::Translator;
use crate::task::infer::TOKEN_TYPE_IDS;
use crate::tokenizer::Tokenizer;
use std::path::Path;

/// The text that stands beside one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside<'a> {
    /// None; where a run writes texts for texts, the one that it writes.
    Own,
    /// This one.
    Given(&'a str),
}

/// A text, or two of them, as a run reads it, and whether it is cut to the length of the run's: with the marks of its tokenizer,
/// and for a run that writes texts for texts as source and target.
///
/// # Errors
/// A run without a tokenizer or of images, a text that the tokenizer cannot encode, an empty one, a second text where the run
/// reads single ones.
pub fn of_text(opened: &Opened, text: &str, beside: Beside) -> Result<(Item, bool)> {
    let tokenizer = tokenizer(opened)?;
    let second = match beside {
        Beside::Own => None,
        Beside::Given(second) => Some(second),
    };
    if let Some(translator) = translator(opened) {
        let search = &opened.experiment.decode.search;
        let pair = translator.pair(text, second, search)?;
        return Ok((Item::Pair(pair), translator.cut() > 0));
    }
    let (networks, data) = (opened.model.networks(), &opened.experiment.data);
    if networks.language_model.is_some() {
        return match second {
            Some(_) => Err(Error::usage("the run reads single texts: leave --pair out")),
            None => continued(opened, text, tokenizer),
        };
    }
    if networks.embedder.is_some() && second.is_some() {
        return Err(Error::usage(
            "the run reads each text alone: leave --pair out",
        ));
    }
    // Masked texts and questions have two segments too.
    let segments = networks.infers.is_some_and(|network| {
        let inputs = network.inputs(&opened.shape);
        inputs.iter().any(|input| input.name == TOKEN_TYPE_IDS)
    });
    let item = match (second, tokenizer.edges()) {
        (Some(second), Some(_)) if segments => data.read_both(text, second, tokenizer)?,
        _ => data.read_text(text, second, tokenizer)?,
    };
    let mut whole = tokenizer.encode(text)?.len();
    if let Some(second) = second {
        whole += tokenizer.encode(second)?.len();
    }
    let marks = tokenizer.edges().map_or(0, |e| e.len(second.is_some()));
    let cut = whole + marks > item.inputs.len();
    Ok((Item::Text(item), cut))
}

/// A text by itself, and whether it is cut to the length of the run's: in the marks of the tokenizer, whether the run reads
/// single texts or two; of a run that writes texts for texts a source whose target only begins.
///
/// # Errors
/// As [`of_text`].
pub fn of_single_text(opened: &Opened, text: &str) -> Result<(Item, bool)> {
    let tokenizer = tokenizer(opened)?;
    if text.trim().is_empty() {
        return Err(Error::usage("the text is empty"));
    }
    if let Some(translator) = translator(opened) {
        let search = &opened.experiment.decode.search;
        let pair = translator.pair(text, Some(""), search)?;
        return Ok((Item::Pair(pair), translator.cut() > 0));
    }
    if opened.model.networks().language_model.is_some() {
        return continued(opened, text, tokenizer);
    }
    let (item, cut) = opened.experiment.data.read_alone(text, tokenizer)?;
    Ok((Item::Text(item), cut))
}

/// A text as a language model reads it, without marks.
fn continued(opened: &Opened, text: &str, tokenizer: &Tokenizer) -> Result<(Item, bool)> {
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

fn translator(opened: &Opened) -> Option<Translator<'_>> {
    let decode = &opened.experiment.decode;
    let longest = opened.shape.context;
    Translator::new(&opened.model, &opened.tokenizers, decode, longest)
}

fn tokenizer(opened: &Opened) -> Result<&Tokenizer> {
    let networks = opened.model.networks();
    if opened.shape.image.is_some() && networks.image_text.is_none() {
        return Err(Error::usage("the run reads images, no texts"));
    }
    let tokenizer = opened.tokenizers.text.as_ref();
    tokenizer.ok_or_else(|| Error::usage("the run has no tokenizer: its tokens stand for no text"))
}

/// A PNG or JPEG file as a run reads it.
///
/// # Errors
/// A file that cannot be read or decoded; a run of texts.
pub fn of_image(opened: &Opened, path: &Path) -> Result<Item> {
    if let Some(sequence) = opened.experiment.data.read_sequence(path)? {
        return Ok(Item::Text(sequence));
    }
    match opened.shape.image {
        Some(_) => Ok(Item::Image(read_image(path, &opened.shape)?)),
        None => Err(Error::usage("the run reads texts, no images")),
    }
}
