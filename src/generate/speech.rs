//! Transcripts of recordings: written by a decoder, or spelled from character scores of frames (CTC).

use super::beam::BeamConfig;
use super::decode::DecodeConfig;
use super::{CtcTranscriber, GeneratedText, Transcriber};
use crate::data::Tokenizers;
use crate::data::batch::SpeechItem;
use crate::error::{Error, Result};
use crate::stop::StopFlag;
use crate::task::Objective;

/// Transcribes recordings.
pub enum SpeechToText<'a> {
    /// A decoder writes the transcripts.
    EncoderDecoder(Transcriber<'a>),
    /// The transcripts are spelled from the likeliest characters of the frames.
    Ctc(CtcTranscriber<'a>),
}

impl<'a> SpeechToText<'a> {
    /// Builds the transcriber for a model that reads recordings, with a decoder that writes up to `context` tokens;
    /// `None` for any other model.
    ///
    /// # Errors
    /// If the run has no tokenizer, or a decoder's tokenizer has no marks around a text.
    pub fn new(
        model: &'a Objective,
        tokenizers: &'a Tokenizers,
        config: &DecodeConfig,
        context: usize,
    ) -> Result<Option<Self>> {
        if let Some(speller) = CtcTranscriber::new(model, tokenizers, config)? {
            return Ok(Some(Self::Ctc(speller)));
        }
        let transcriber = Transcriber::new(model, tokenizers, config, context)?;
        Ok(transcriber.map(Self::EncoderDecoder))
    }

    /// Makes the transcriber return [`Error::Stopped`] when the flag is raised.
    #[must_use]
    pub fn with_stop(self, stop: &StopFlag) -> Self {
        match self {
            Self::EncoderDecoder(transcriber) => Self::EncoderDecoder(transcriber.with_stop(stop)),
            Self::Ctc(speller) => Self::Ctc(speller.with_stop(stop)),
        }
    }

    /// Applies flags: another language, translations, a search.
    ///
    /// # Errors
    /// If the run does not support a flag.
    pub fn with_flags(
        self,
        language: Option<&str>,
        translate: bool,
        searches: bool,
    ) -> Result<Self> {
        match self {
            Self::EncoderDecoder(writer) => writer
                .with_flags(language, translate)
                .map(Self::EncoderDecoder),
            Self::Ctc(speller) => {
                let flags = [
                    (
                        language.is_some(),
                        "--language",
                        "its texts do not begin with a language token",
                    ),
                    (
                        translate,
                        "--translate",
                        "its texts do not begin with a task token",
                    ),
                    (
                        searches,
                        "--beam or --n-best",
                        "the most likely character of each frame is used, without a search",
                    ),
                ];
                match flags.into_iter().find(|(given, ..)| *given) {
                    Some((_, flag, rule)) => Err(Error::usage(format!(
                        "{flag} does not apply to a run of ctc: {rule}; remove it"
                    ))),
                    None => Ok(Self::Ctc(speller)),
                }
            }
        }
    }

    /// Returns the number of recordings that are read together.
    pub fn batch_size(&self) -> usize {
        match self {
            Self::EncoderDecoder(transcriber) => transcriber.batch_size(),
            Self::Ctc(speller) => speller.batch_size(),
        }
    }

    /// Finds the best texts of each recording, in the order of the recordings; only one each if they are spelled.
    ///
    /// # Errors
    /// If the marks leave no room for a text, or scores are not finite.
    pub fn write(
        &self,
        recordings: &[SpeechItem],
        config: &BeamConfig,
    ) -> Result<Vec<Vec<GeneratedText>>> {
        match self {
            Self::EncoderDecoder(transcriber) => transcriber.write(recordings, config),
            Self::Ctc(speller) => speller.write(recordings),
        }
    }
}
