//! Rows of the arrays given to `infer`.

use super::{
    ATTENTION_MASK, DECODER_ATTENTION_MASK, DECODER_INPUT_IDS, INPUT_IDS, LABELS, TOKEN_TYPE_IDS,
};
use crate::data::batch::{ImageItem, Item, PairItem, SpeechBatch, SpeechItem, TextItem};
use crate::data::{NOT_SCORED, SpeechShape};
use crate::kernel::Globals;
use std::collections::BTreeMap;

/// Rows of integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntMatrix {
    /// Values `[rows, cols]`, or `[rows]` if `cols` is 1.
    pub values: Vec<i32>,
    /// Number of values in a row.
    pub cols: usize,
}

/// The tokens needed to make a decoder's inputs from labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecoderStart {
    /// Token that begins a row.
    pub begin: i32,
    /// Token that replaces −100 in labels.
    pub pad: i32,
}

/// Some rows of all arrays, each checked against its [`Input`](super::Input).
#[derive(Clone, Debug, Default)]
pub struct InputArrays {
    /// Number of rows.
    pub rows: usize,
    /// Ids, masks and labels, by name.
    pub integers: BTreeMap<&'static str, IntMatrix>,
    /// Floating-point labels, by name.
    pub numbers: BTreeMap<&'static str, Vec<f32>>,
    /// Pixels `[rows, channels, height, width]`.
    pub pixels: Vec<f32>,
    /// Channels, height and width of the images.
    pub image: [usize; 3],
    /// Features `[rows, n_mels, frames]`, or samples `[rows, samples]`.
    pub features: Vec<f32>,
    /// Number of mel bands and frames of the recordings.
    pub speech: SpeechShape,
    /// Number of samples of each recording, if no mask gives it.
    pub sample_lengths: Option<Vec<usize>>,
    /// The tokens for making a decoder's inputs from labels, if they are made from labels.
    pub start: Option<DecoderStart>,
}

impl IntMatrix {
    /// Pads rows to the longest one; returns the rows and the mask of their tokens.
    fn pad(rows: &[&[i32]]) -> [Self; 2] {
        let cols = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let mut both = [Vec::new(), Vec::new()];
        for row in rows {
            let end = both[0].len() + cols;
            both[0].extend_from_slice(row);
            both[1].resize(end - cols + row.len(), 1);
            both.iter_mut().for_each(|values| values.resize(end, 0));
        }
        both.map(|values| Self { values, cols })
    }
}

impl InputArrays {
    /// Builds the arrays of some examples, all of one kind, without their labels. Documents that are packed into one
    /// text attend to each other.
    pub fn of(items: &[Item]) -> Self {
        let mut given = Self {
            rows: items.len(),
            ..Self::default()
        };
        let (mut texts, mut pairs): (Vec<&TextItem>, Vec<&PairItem>) = Default::default();
        let [mut captions, mut transcripts]: [Vec<&[i32]>; 2] = Default::default();
        let mut recordings: Vec<&SpeechItem> = Vec::new();
        let image_of = |given: &mut Self, image: &ImageItem| {
            given.pixels.extend_from_slice(&image.pixels);
            given.image = image.shape;
        };
        for item in items {
            match item {
                Item::Text(text) => texts.push(text),
                Item::Pair(pair) => pairs.push(pair),
                Item::Image(image) => image_of(&mut given, image),
                Item::Captioned(both) => {
                    image_of(&mut given, &both.image);
                    captions.push(&both.caption);
                }
                Item::Spoken(both) => {
                    recordings.push(&both.speech);
                    transcripts.push(&both.transcript);
                }
            }
        }
        given.put_recordings(&recordings);
        let mut put = |name, mask, rows: Vec<&[i32]>| {
            if !rows.is_empty() {
                let [ids, ones] = IntMatrix::pad(&rows);
                given.integers.extend([(name, ids), (mask, ones)]);
            }
        };
        let ids = texts.iter().map(|text| &text.inputs[..]);
        let sources = pairs.iter().map(|pair| &pair.source[..]);
        put(
            INPUT_IDS,
            ATTENTION_MASK,
            ids.chain(sources).chain(captions).collect(),
        );
        let read = |pair: &&PairItem| pair.target.len().saturating_sub(1);
        let targets = pairs.iter().map(|pair| &pair.target[..read(pair)]);
        put(
            DECODER_INPUT_IDS,
            DECODER_ATTENTION_MASK,
            targets.chain(transcripts).collect(),
        );
        let segments: Option<Vec<&[i32]>> =
            texts.iter().map(|text| text.segments.as_deref()).collect();
        if let Some(segments) = segments.filter(|all| !all.is_empty()) {
            let [segments, _] = IntMatrix::pad(&segments);
            given.integers.insert(TOKEN_TYPE_IDS, segments);
        }
        given
    }

    fn put_recordings(&mut self, recordings: &[&SpeechItem]) {
        let Some(first) = recordings.first() else {
            return;
        };
        let batch = SpeechBatch::of(recordings.iter().copied(), 0);
        self.speech = first.shape;
        self.sample_lengths = (batch.width > 0).then_some(batch.lengths);
        self.features = batch.features;
    }

    /// Returns the values of an array, if it is given.
    pub fn values(&self, name: &str) -> Option<&[i32]> {
        self.integers.get(name).map(|m| m.values.as_slice())
    }

    /// Returns an array that must be given.
    pub(super) fn matrix(&self, name: &str) -> &IntMatrix {
        match self.integers.get(name) {
            Some(matrix) => matrix,
            None => unreachable!("arrays are checked before a pass"),
        }
    }

    /// Returns the number of tokens of each row by a mask, whose ones come first; `None` if no row is padded.
    pub fn lengths(&self, mask: &str) -> Option<Vec<usize>> {
        let mask = self.integers.get(mask)?;
        if mask.values.iter().all(|x| *x == 1) {
            return None;
        }
        let ones = |row: &[i32]| row.iter().filter(|x| **x == 1).count();
        Some(mask.values.chunks(mask.cols).map(ones).collect())
    }

    /// Returns positions of the tokens that a mask marks, row by row.
    pub(super) fn marked_positions(&self, mask: &str) -> Option<Globals> {
        let mask = self.integers.get(mask)?;
        let rows = mask.values.chunks(mask.cols).map(|row| {
            let ones = row.iter().enumerate().filter(|(_, x)| **x == 1);
            ones.map(|(at, _)| at).collect()
        });
        Some(rows.collect())
    }

    /// Returns the ids that a decoder reads: the given ones, else the labels shifted right by one position.
    pub(super) fn decoder_inputs(&self) -> IntMatrix {
        match (self.integers.get(DECODER_INPUT_IDS), self.start) {
            (Some(ids), _) => ids.clone(),
            (None, start) => shift_labels(self.matrix(LABELS), start.unwrap_or_default()),
        }
    }
}

/// Shifts labels right by one position, after the token that begins a row.
fn shift_labels(labels: &IntMatrix, start: DecoderStart) -> IntMatrix {
    let mut values = Vec::with_capacity(labels.values.len());
    for row in labels.values.chunks(labels.cols) {
        values.push(start.begin);
        let before_last = &row[..row.len() - 1];
        values.extend(before_last.iter().map(|label| match *label {
            NOT_SCORED => start.pad,
            id => id,
        }));
    }
    IntMatrix {
        values,
        cols: labels.cols,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_shifted_right_behind_the_start() {
        let labels = IntMatrix {
            values: vec![5, 6, 2, 7, 2, NOT_SCORED],
            cols: 3,
        };
        let start = DecoderStart { begin: 1, pad: 9 };
        assert_eq!(shift_labels(&labels, start).values, [1, 5, 6, 1, 7, 2]);
        let holes = IntMatrix {
            values: vec![5, NOT_SCORED, 6],
            cols: 3,
        };
        assert_eq!(shift_labels(&holes, start).values, [1, 5, 9]);
    }
}
