//! The source of recordings with their transcripts.

use super::TranscribedSpeechConfig;
use super::cache::RecordingCache;
use crate::data::described::Example;
use crate::data::described::source::{Inputs, source};
use crate::data::speech::{SpeechAugmentConfig, Transcripts};
use crate::data::{Item, Source, Split};
use crate::error::Result;
use crate::tokenizer::Tokenizer;
use std::sync::Arc;

impl TranscribedSpeechConfig {
    /// Builds the source of a split; features are masked in training.
    pub(super) fn source(
        &self,
        examples: &[Example],
        tokenizer: &Tokenizer,
        transcripts: &Transcripts,
        split: Split,
        seed: u64,
    ) -> Result<Arc<dyn Source>> {
        let files = examples.iter().map(|example| example.file.clone());
        let recordings = Recordings {
            kept: RecordingCache::new(files, self.shape()),
            augment: match split {
                Split::Train => self.augment.clone(),
                Split::Valid | Split::Test => SpeechAugmentConfig::default(),
            },
            transcripts: transcripts.clone(),
            seed,
        };
        let marked = |ids: Vec<i32>| transcripts.fitted(ids, self.context);
        source(recordings, examples, tokenizer, marked, (split, seed))
    }
}

/// Recordings, masked in training.
struct Recordings {
    kept: RecordingCache,
    augment: SpeechAugmentConfig,
    transcripts: Transcripts,
    seed: u64,
}

impl Inputs for Recordings {
    type Text = ();

    fn text(_words: &str) {}

    fn item(&self, sample: u64, draw: u64, ids: &[i32], _text: &()) -> Result<Item> {
        let heard = self.kept.get(sample as usize)?;
        let mut speech = self.kept.input(&heard);
        let key = (self.seed, draw, sample);
        self.augment
            .apply(&mut speech.features, speech.shape, heard.frames(), key);
        Ok(Item::Spoken(self.transcripts.item(speech, ids)))
    }

    fn is_costly(&self) -> bool {
        true
    }
}
