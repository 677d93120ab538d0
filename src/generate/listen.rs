//! What tells the texts of recordings: a decoder writes them, or they are spelled by the characters of frames.

use super::beam::BeamConfig;
use super::decode::DecodeConfig;
use super::{Speller, Transcriber, Written};
use crate::data::Tokenizers;
use crate::data::batch::SpeechItem;
use crate::error::{Error, Result};
use crate::stop::Stop;
use crate::task::Objective;

/// Tells the texts of recordings.
pub enum Listener<'a> {
    /// A decoder writes them.
    Writes(Transcriber<'a>),
    /// They are spelled.
    Spells(Speller<'a>),
}

impl<'a> Listener<'a> {
    /// For a model that reads recordings, whose decoder writes up to `context` tokens; `None` for any other.
    ///
    /// # Errors
    /// A run without a tokenizer, a decoder's without marks around a text.
    pub fn new(
        model: &'a Objective,
        tokenizers: &'a Tokenizers,
        config: &DecodeConfig,
        context: usize,
    ) -> Result<Option<Self>> {
        if let Some(speller) = Speller::new(model, tokenizers, config)? {
            return Ok(Some(Self::Spells(speller)));
        }
        let transcriber = Transcriber::new(model, tokenizers, config, context)?;
        Ok(transcriber.map(Self::Writes))
    }

    /// The same, which ends with [`Error::Stopped`] when the flag is raised.
    #[must_use]
    pub fn until(self, stop: &Stop) -> Self {
        match self {
            Self::Writes(transcriber) => Self::Writes(transcriber.until(stop)),
            Self::Spells(speller) => Self::Spells(speller.until(stop)),
        }
    }

    /// The same with what flags ask for beside a recording: another language, translations, a search.
    ///
    /// # Errors
    /// Flags that a run cannot follow.
    pub fn asked(self, language: Option<&str>, translate: bool, searches: bool) -> Result<Self> {
        match self {
            Self::Writes(writer) => writer.asked(language, translate).map(Self::Writes),
            Self::Spells(speller) => {
                let flags = [
                    (
                        language.is_some(),
                        "--language",
                        "texts begin with no token of a language",
                    ),
                    (
                        translate,
                        "--translate",
                        "texts begin with no token that asks for a translation",
                    ),
                    (
                        searches,
                        "--beam or --n-best",
                        "the likeliest character of each frame is taken, and nothing is searched for",
                    ),
                ];
                match flags.into_iter().find(|(given, ..)| *given) {
                    Some((_, flag, rule)) => Err(Error::usage(format!(
                        "{flag} is not for a run of ctc: {rule}; leave it out"
                    ))),
                    None => Ok(Self::Spells(speller)),
                }
            }
        }
    }

    /// Recordings that are read together.
    pub fn batch_size(&self) -> usize {
        match self {
            Self::Writes(transcriber) => transcriber.batch_size(),
            Self::Spells(speller) => speller.batch_size(),
        }
    }

    /// The best texts of each recording, in the order of the recordings; one of each where they are spelled.
    ///
    /// # Errors
    /// Marks that leave no place for a text, scores that are not numbers.
    pub fn write(
        &self,
        recordings: &[SpeechItem],
        config: &BeamConfig,
    ) -> Result<Vec<Vec<Written>>> {
        match self {
            Self::Writes(transcriber) => transcriber.write(recordings, config),
            Self::Spells(speller) => speller.write(recordings),
        }
    }
}
