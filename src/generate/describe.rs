//! Texts for inputs other than text: captions of images, transcripts of recordings.

use super::beam::BeamConfig;
use super::decode::DecodeConfig;
use super::{Captioner, GeneratedText, SpeechToText};
use crate::data::{Captions, Tokenizers};
use crate::error::Result;
use crate::stop::StopFlag;
use crate::task::Objective;
use std::ops::Range;

/// Writes captions of images or transcripts of recordings.
pub enum Describer<'a> {
    /// Captions of images.
    Images(Captioner<'a>),
    /// Transcripts of recordings.
    Recordings(SpeechToText<'a>),
}

impl<'a> Describer<'a> {
    /// Builds the writer for a model that writes texts of up to `context` tokens about images or recordings; `None` for
    /// any other model.
    ///
    /// # Errors
    /// If the run has no tokenizer, or one without marks around a text.
    pub fn new(
        model: &'a Objective,
        tokenizers: &'a Tokenizers,
        config: &DecodeConfig,
        context: usize,
    ) -> Result<Option<Self>> {
        if let Some(captioner) = Captioner::new(model, tokenizers, config, context)? {
            return Ok(Some(Self::Images(captioner)));
        }
        let listener = SpeechToText::new(model, tokenizers, config, context)?;
        Ok(listener.map(Self::Recordings))
    }

    /// Makes the writer return [`Error::Stopped`](crate::error::Error::Stopped) when the flag is raised.
    #[must_use]
    pub fn with_stop(self, stop: &StopFlag) -> Self {
        match self {
            Self::Images(captioner) => Self::Images(captioner.with_stop(stop)),
            Self::Recordings(listener) => Self::Recordings(listener.with_stop(stop)),
        }
    }

    /// Returns the number of inputs that are read together.
    pub fn batch_size(&self) -> usize {
        match self {
            Self::Images(captioner) => captioner.batch_size(),
            Self::Recordings(listener) => listener.batch_size(),
        }
    }

    /// Finds the best texts for the inputs at some places of a split.
    ///
    /// # Errors
    /// If an input cannot be read or scores are not finite.
    pub fn write(
        &self,
        captions: &Captions,
        places: Range<usize>,
        config: &BeamConfig,
    ) -> Result<Vec<Vec<GeneratedText>>> {
        match self {
            Self::Images(captioner) => {
                let images = places.map(|place| captions.image(place));
                captioner.write(&images.collect::<Result<Vec<_>>>()?, "", config)
            }
            Self::Recordings(listener) => {
                let recordings = places.map(|place| captions.speech(place));
                listener.write(&recordings.collect::<Result<Vec<_>>>()?, config)
            }
        }
    }
}
