//! Recordings with their transcripts as examples.

use super::TranscribedSpeechConfig;
use super::kept::Kept;
use super::read::Example;
use crate::data::batch::{SpeechItem, SpokenItem};
use crate::data::speech::{SpeechAugmentConfig, marked};
use crate::data::{Item, Source, Split};
use crate::error::{Error, Result};
use crate::tokenizer::{Edges, Tokenizer};
use std::sync::Arc;

impl TranscribedSpeechConfig {
    /// The examples of a split, masked in training.
    pub(super) fn source(
        &self,
        examples: &[Example],
        tokenizer: &Tokenizer,
        marks: &Edges,
        split: Split,
        seed: u64,
    ) -> Result<Arc<dyn Source>> {
        let encode = |example: &Example| {
            let ids = tokenizer.encode(&example.transcript);
            let ids = ids.map_err(|error| Error::run(format!("{}: {error}", example.place)))?;
            let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
            Ok(marked(&ids, marks, self.context))
        };
        let recordings = examples.iter().map(|example| example.recording.clone());
        Ok(Arc::new(Spoken {
            recordings: Kept::new(recordings, self.shape()),
            transcripts: examples.iter().map(encode).collect::<Result<_>>()?,
            augment: match split {
                Split::Train => self.augment.clone(),
                Split::Valid | Split::Test => SpeechAugmentConfig::default(),
            },
            split,
            seed,
        }))
    }
}

/// Recordings, each with its transcript.
struct Spoken {
    recordings: Kept,
    /// In their marks.
    transcripts: Vec<Vec<i32>>,
    augment: SpeechAugmentConfig,
    split: Split,
    seed: u64,
}

impl Source for Spoken {
    fn len(&self) -> usize {
        self.transcripts.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let shape = self.recordings.shape();
        let spectrum = self.recordings.get(sample as usize)?;
        let mut features = spectrum.padded(shape.n_frames);
        let key = (self.seed, draw, sample);
        self.augment
            .apply(&mut features, shape, spectrum.frames(), key);
        let speech = SpeechItem { features, shape };
        Ok(Item::Spoken(SpokenItem::new(
            speech,
            &self.transcripts[sample as usize],
        )))
    }

    fn size(&self, sample: u64) -> usize {
        self.transcripts[sample as usize].len()
    }

    fn split(&self) -> Split {
        self.split
    }

    fn is_costly(&self) -> bool {
        true
    }
}
