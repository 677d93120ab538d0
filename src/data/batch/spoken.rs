//! Recordings of speech with their transcripts, as examples and side by side.

use super::TextBatch;
use crate::data::speech::HOP;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The size of the log-mel features of a recording, or of the samples themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpeechShape {
    /// Mel bands; 0 where the samples themselves are read.
    pub n_mels: usize,
    /// Frames of 10 ms; of samples those of the longest recording.
    pub n_frames: usize,
    /// Whether the samples of a recording have the mean 0 and the variance 1.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub normalized: bool,
}

impl SpeechShape {
    /// Samples of the longest recording, where they are read themselves.
    pub fn samples(self) -> Option<usize> {
        (self.n_mels == 0).then_some(self.n_frames.saturating_mul(HOP))
    }

    /// Bands and frames, or samples.
    pub fn in_words(self) -> String {
        match self.samples() {
            Some(samples) => format!("of {samples} samples"),
            None => format!("{}x{}", self.n_mels, self.n_frames),
        }
    }
}

/// A recording as log-mel features or as its samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeechItem {
    /// `[n_mels, n_frames]`, or the samples of the recording alone.
    pub features: Vec<f32>,
    /// Bands and frames.
    pub shape: SpeechShape,
}

/// A recording and its transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpokenItem {
    /// The recording.
    pub speech: SpeechItem,
    /// Token ids of the transcript in the marks of its tokenizer, all but the last: what a decoder reads. Where it is aligned with the
    /// recording, its ids without marks.
    pub transcript: Vec<i32>,
    /// The token after each of them; the ids themselves where they are aligned.
    pub targets: Vec<i32>,
}

impl SpokenItem {
    /// A recording with a transcript in its marks, which is to be written token by token.
    pub fn new(speech: SpeechItem, marked: &[i32]) -> Self {
        let (transcript, targets) = match marked {
            [] => (&[][..], &[][..]),
            [read @ .., _] => (read, &marked[1..]),
        };
        Self {
            speech,
            transcript: transcript.to_vec(),
            targets: targets.to_vec(),
        }
    }

    /// A recording with a transcript whose tokens stand somewhere along it.
    pub fn aligned(speech: SpeechItem, ids: &[i32]) -> Self {
        Self {
            speech,
            transcript: ids.to_vec(),
            targets: ids.to_vec(),
        }
    }
}

/// Recordings of one size, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeechBatch {
    /// `[rows, n_mels, n_frames]`, or samples `[rows, width]`.
    pub features: Vec<f32>,
    /// Recordings.
    pub rows: usize,
    /// Mel bands.
    pub n_mels: usize,
    /// Frames of each recording.
    pub n_frames: usize,
    /// Samples of each row; none where features are read.
    pub lengths: Vec<usize>,
    /// Samples of the longest row; 0 where features are read.
    pub width: usize,
}

impl SpeechBatch {
    /// Some recordings side by side; samples are filled up to the longest, or to `width`.
    pub fn of<'a>(items: impl IntoIterator<Item = &'a SpeechItem>, width: usize) -> Self {
        let items: Vec<&SpeechItem> = items.into_iter().collect();
        let mut batch = Self {
            rows: items.len(),
            ..Self::default()
        };
        if let Some(first) = items.first() {
            (batch.n_mels, batch.n_frames) = (first.shape.n_mels, first.shape.n_frames);
        }
        if batch.n_mels == 0 {
            batch.lengths = items.iter().map(|item| item.features.len()).collect();
            batch.width = batch.lengths.iter().copied().max().unwrap_or(0).max(width);
        }
        for (number, item) in items.into_iter().enumerate() {
            batch.features.extend_from_slice(&item.features);
            if batch.width > 0 {
                batch.features.resize((number + 1) * batch.width, 0.0);
            }
        }
        batch
    }
}

/// Recordings and their transcripts, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpokenBatch {
    /// The recordings.
    pub speech: SpeechBatch,
    /// The transcripts: `inputs` is what a decoder reads, `targets` the token after each.
    pub transcripts: TextBatch,
}
