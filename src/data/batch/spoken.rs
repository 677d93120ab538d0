//! Recordings of speech with their transcripts, as single examples and as batches.

use super::TextBatch;
use crate::data::speech::HOP;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The size of the log-mel features of a recording, or of its raw samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpeechShape {
    /// Mel bands; 0 if the raw samples are read.
    pub n_mels: usize,
    /// Frames of 10 ms; for raw samples, the frames of the longest recording.
    pub n_frames: usize,
    /// Whether the samples of a recording are normalised to mean 0 and variance 1.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub normalized: bool,
}

impl SpeechShape {
    /// Returns the number of samples of the longest recording, if raw samples are read.
    pub fn samples(self) -> Option<usize> {
        (self.n_mels == 0).then_some(self.n_frames.saturating_mul(HOP))
    }

    /// Describes the shape as bands and frames, or as samples.
    pub fn describe(self) -> String {
        match self.samples() {
            Some(samples) => format!("of {samples} samples"),
            None => format!("{}x{}", self.n_mels, self.n_frames),
        }
    }
}

/// A recording as log-mel features or as raw samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeechItem {
    /// `[n_mels, n_frames]`, or only the recording's samples, without padding.
    pub features: Vec<f32>,
    /// Bands and frames.
    pub shape: SpeechShape,
}

/// A recording and its transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpokenItem {
    /// The recording.
    pub speech: SpeechItem,
    /// Token ids that the decoder reads: the transcript with its special tokens, all but the last. If the transcript
    /// is aligned with the recording, its ids without special tokens.
    pub transcript: Vec<i32>,
    /// Next token after each position of `transcript`; the ids themselves if they are aligned.
    pub targets: Vec<i32>,
}

impl SpokenItem {
    /// Builds an example whose transcript, given with its special tokens, is to be generated token by token.
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

    /// Builds an example whose transcript is to be aligned with the recording.
    pub fn aligned(speech: SpeechItem, ids: &[i32]) -> Self {
        Self {
            speech,
            transcript: ids.to_vec(),
            targets: ids.to_vec(),
        }
    }
}

/// A batch of recordings of the same shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeechBatch {
    /// `[rows, n_mels, n_frames]`, or samples `[rows, width]`.
    pub features: Vec<f32>,
    /// Number of recordings.
    pub rows: usize,
    /// Mel bands.
    pub n_mels: usize,
    /// Frames of each recording.
    pub n_frames: usize,
    /// Samples of each row; empty if log-mel features are read.
    pub lengths: Vec<usize>,
    /// Width of a row in samples, at least the longest; 0 if log-mel features are read.
    pub width: usize,
}

impl SpeechBatch {
    /// Batches some recordings; samples are padded to the longest, or to `width` if that is greater.
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

/// Recordings and their transcripts, one per row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpokenBatch {
    /// The recordings.
    pub speech: SpeechBatch,
    /// The transcripts: `inputs` is what the decoder reads, `targets` the next token after each.
    pub transcripts: TextBatch,
}
