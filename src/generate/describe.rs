//! What a model writes for inputs that are no texts: captions of images, texts of recordings.

use super::beam::BeamConfig;
use super::decode::DecodeConfig;
use super::{Captioner, Listener, Written};
use crate::data::{Captions, Tokenizers};
use crate::error::Result;
use crate::stop::Stop;
use crate::task::Objective;
use std::ops::Range;

/// Writes captions of images or texts of recordings.
pub enum Describer<'a> {
    /// Of images.
    Images(Captioner<'a>),
    /// Of recordings.
    Recordings(Listener<'a>),
}

impl<'a> Describer<'a> {
    /// For a model that writes texts of up to `context` tokens about images or of recordings; `None` for any other.
    ///
    /// # Errors
    /// A run without a tokenizer, or one without marks around a text.
    pub fn new(
        model: &'a Objective,
        tokenizers: &'a Tokenizers,
        config: &DecodeConfig,
        context: usize,
    ) -> Result<Option<Self>> {
        if let Some(captioner) = Captioner::new(model, tokenizers, config, context)? {
            return Ok(Some(Self::Images(captioner)));
        }
        let listener = Listener::new(model, tokenizers, config, context)?;
        Ok(listener.map(Self::Recordings))
    }

    /// The same, which ends with [`Error::Stopped`](crate::error::Error::Stopped) when the flag is raised.
    #[must_use]
    pub fn until(self, stop: &Stop) -> Self {
        match self {
            Self::Images(captioner) => Self::Images(captioner.until(stop)),
            Self::Recordings(listener) => Self::Recordings(listener.until(stop)),
        }
    }

    /// Inputs that are read together.
    pub fn batch_size(&self) -> usize {
        match self {
            Self::Images(captioner) => captioner.batch_size(),
            Self::Recordings(listener) => listener.batch_size(),
        }
    }

    /// The best texts for some of the inputs behind a split.
    ///
    /// # Errors
    /// An input that cannot be read, scores that are not numbers.
    pub fn write(
        &self,
        captions: &Captions,
        places: Range<usize>,
        config: &BeamConfig,
    ) -> Result<Vec<Vec<Written>>> {
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
