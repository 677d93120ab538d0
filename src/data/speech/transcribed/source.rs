//! Recordings with their transcripts as examples.

use super::TranscribedSpeechConfig;
use super::kept::Kept;
use crate::data::batch::{SpeechItem, SpokenItem};
use crate::data::described::source::{Inputs, source};
use crate::data::described::{Example, marked};
use crate::data::speech::SpeechAugmentConfig;
use crate::data::{Item, Source, Split};
use crate::error::Result;
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
        let files = examples.iter().map(|example| example.file.clone());
        let recordings = Recordings {
            kept: Kept::new(files, self.shape()),
            augment: match split {
                Split::Train => self.augment.clone(),
                Split::Valid | Split::Test => SpeechAugmentConfig::default(),
            },
            seed,
        };
        let marked = |ids: Vec<i32>| Ok(marked(&ids, marks, self.context));
        source(recordings, examples, tokenizer, marked, (split, seed))
    }
}

/// Recordings, masked in training.
struct Recordings {
    kept: Kept,
    augment: SpeechAugmentConfig,
    seed: u64,
}

impl Inputs for Recordings {
    type Text = ();

    fn text(_words: &str) {}

    fn item(&self, sample: u64, draw: u64, ids: &[i32], _text: &()) -> Result<Item> {
        let shape = self.kept.shape();
        let spectrum = self.kept.get(sample as usize)?;
        let mut features = spectrum.padded(shape.n_frames);
        let key = (self.seed, draw, sample);
        self.augment
            .apply(&mut features, shape, spectrum.frames(), key);
        let speech = SpeechItem { features, shape };
        Ok(Item::Spoken(SpokenItem::new(speech, ids)))
    }

    fn is_costly(&self) -> bool {
        true
    }
}
