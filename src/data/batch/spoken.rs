//! Recordings of speech with their transcripts, as examples and side by side.

use super::TextBatch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The size of the log-mel features of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpeechShape {
    /// Mel bands.
    pub n_mels: usize,
    /// Frames of 10 ms.
    pub n_frames: usize,
}

/// A recording as log-mel features.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeechItem {
    /// `[n_mels, n_frames]`.
    pub features: Vec<f32>,
    /// Bands and frames.
    pub shape: SpeechShape,
}

/// A recording and its transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpokenItem {
    /// The recording.
    pub speech: SpeechItem,
    /// Token ids of the transcript in the marks of its tokenizer, all but the last: what a decoder reads.
    pub transcript: Vec<i32>,
    /// The token after each of them.
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
}

/// Recordings of one size, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeechBatch {
    /// `[rows, n_mels, n_frames]`.
    pub features: Vec<f32>,
    /// Recordings.
    pub rows: usize,
    /// Mel bands.
    pub n_mels: usize,
    /// Frames of each recording.
    pub n_frames: usize,
}

impl SpeechBatch {
    /// Some recordings side by side.
    pub fn of<'a>(items: impl IntoIterator<Item = &'a SpeechItem>) -> Self {
        let mut batch = Self::default();
        for item in items {
            batch.features.extend_from_slice(&item.features);
            batch.rows += 1;
            (batch.n_mels, batch.n_frames) = (item.shape.n_mels, item.shape.n_frames);
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
