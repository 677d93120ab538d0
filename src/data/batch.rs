//! Examples and batches: an example is what a source gives, a batch is what a step reads.
//!
//! An example is a text, a pair of texts, an image or a recording. `collate` makes a batch of several
//! examples.

mod captioned;
mod images;
mod spoken;

use super::{NOT_SCORED, Split};
use crate::nn::neighbours::Neighbours;
use crate::nn::probe::ProbeRequest;
pub use captioned::{CaptionedBatch, CaptionedItem};
pub use images::{ImageBatch, ImageItem, Views};
pub use spoken::{SpeechBatch, SpeechItem, SpeechShape, SpokenBatch, SpokenItem};
use std::sync::Arc;

/// One example. Every source gives examples of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A text, scored token by token or as a whole.
    Text(TextItem),
    /// A source text and its target text.
    Pair(PairItem),
    /// An image and its class.
    Image(ImageItem),
    /// An image and its caption.
    Captioned(CaptionedItem),
    /// A recording and its transcript.
    Spoken(SpokenItem),
}

/// A text: `targets[i]` is what the model is to predict at position i.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextItem {
    /// Token ids.
    pub inputs: Vec<i32>,
    /// Token ids or tags, or [`NOT_SCORED`], as long as `inputs`; empty when no token is scored.
    pub targets: Vec<i32>,
    /// Document number of each position, if attention must not cross documents. A state carried over from the
    /// previous batch continues in document 0.
    pub documents: Option<Vec<i32>>,
    /// Segment of each position (0, then 1 in the second text of a pair).
    pub segments: Option<Vec<i32>>,
    /// Class of the whole text: a label, or whether the second text follows the first.
    pub label: Option<i32>,
    /// Classes of the whole text in ascending order, if it may have any number of them.
    pub classes: Option<Vec<i32>>,
    /// Number that the model is to predict for the whole text.
    pub number: Option<f32>,
    /// Question about the text, with its answer.
    pub asked: Option<QuestionAnswer>,
    /// Token after the last target, if the text continues in the same document.
    pub next_token: Option<i32>,
    /// The token after each target, or [`NOT_SCORED`], as long as `targets`, when it is predicted too.
    pub second: Option<Vec<i32>>,
    /// Neighbours of the text's complete chunks, for a model that reads retrieved neighbours.
    pub neighbours: Option<Neighbours>,
}

/// The question asked of a text, and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionAnswer {
    /// Positions of the first and the last token of the answer; both are [`ContextWindow::no_answer_position`] if the text has no
    /// answer.
    pub answer: [i32; 2],
    /// Part of the context that the text holds.
    pub window: Arc<ContextWindow>,
}

/// A window of the context of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextWindow {
    /// Number of the question in its split.
    pub question: u64,
    /// Id of the question in its file; its number if the file gives no id.
    pub id: Arc<str>,
    /// Whole context.
    pub context: Arc<str>,
    /// Byte range of the context that each token of this window covers.
    pub byte_ranges: Vec<[usize; 2]>,
    /// Position, in the text, of the first of these tokens.
    pub first: usize,
    /// Position of the token that stands for the whole text and is predicted if there is no answer.
    pub no_answer_position: usize,
    /// All accepted answers; empty if the question has no answer.
    pub accepted_answers: Arc<[String]>,
    /// Whether questions of this data set may have no answer.
    pub may_have_no_answer: bool,
}

/// A source text and its target, both with the special tokens that the tokenizer adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairItem {
    /// Token ids, including the end token.
    pub source: Vec<i32>,
    /// Token ids, from the begin token to the end token.
    pub target: Vec<i32>,
}

/// The contents of a batch: examples of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Texts.
    Text(TextBatch),
    /// Pairs of texts.
    Pairs(PairBatch),
    /// Images.
    Images(ImageBatch),
    /// Images with captions.
    Captioned(CaptionedBatch),
    /// Recordings with transcripts.
    Spoken(SpokenBatch),
}

/// Texts, one per row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextBatch {
    /// Token ids, `[rows, cols]`.
    pub inputs: Vec<i32>,
    /// Token ids or tags, or [`NOT_SCORED`], `[rows, cols]`; empty when no token is scored.
    pub targets: Vec<i32>,
    /// Document number of each position, `[rows, cols]`, if attention must not cross documents. A carried
    /// state continues in document 0.
    pub documents: Option<Vec<i32>>,
    /// Segment of each position, `[rows, cols]`.
    pub segments: Option<Vec<i32>>,
    /// Class of each row.
    pub labels: Option<Vec<i32>>,
    /// Classes of each row, if a row may have any number of them.
    pub classes: Option<Vec<Vec<i32>>>,
    /// Number that the model is to predict for each row.
    pub numbers: Option<Vec<f32>>,
    /// Question asked of each row, with its answer.
    pub asked: Option<Vec<QuestionAnswer>>,
    /// The token after each target or [`NOT_SCORED`], `[rows, cols]`, when it is predicted too.
    pub second: Option<Vec<i32>>,
    /// Neighbours of the complete chunks of each row, for a model that reads retrieved neighbours.
    pub neighbours: Option<Neighbours>,
    /// Tokens of each row, if any row is shorter than `cols`.
    pub lengths: Option<Vec<usize>>,
    /// Width of a row: at least the tokens of the longest one.
    pub cols: usize,
    /// Tokens of the longest first text and of the longest second text (segments 0 and 1) in the step, if
    /// rows have both.
    pub segment_lengths: [usize; 2],
}

impl TextBatch {
    /// Returns the number of tokens without padding.
    pub fn tokens(&self) -> usize {
        let lengths = self.lengths.as_ref();
        lengths.map_or(self.inputs.len(), |lengths| lengths.iter().sum())
    }

    /// Builds a batch of one text, without targets.
    pub fn single(item: TextItem) -> Self {
        Self {
            cols: item.inputs.len(),
            inputs: item.inputs,
            segments: item.segments,
            ..Self::default()
        }
    }

    /// Builds a batch of texts without targets, padded to the longest text or to `width`, whichever is
    /// greater.
    pub fn padded(rows: &[Vec<i32>], width: usize) -> Self {
        let longest = rows.iter().map(Vec::len).max();
        let cols = longest.unwrap_or(0).max(width);
        let mut inputs = Vec::with_capacity(rows.len() * cols);
        for (number, row) in rows.iter().enumerate() {
            inputs.extend(row);
            inputs.resize((number + 1) * cols, 0);
        }
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        Self {
            inputs,
            lengths: lengths.iter().any(|n| *n < cols).then_some(lengths),
            cols,
            ..Self::default()
        }
    }
}

/// Pairs of texts, one per row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairBatch {
    /// Source ids, `[rows, source_cols]`.
    pub source: Vec<i32>,
    /// Tokens of each source.
    pub source_lengths: Vec<usize>,
    /// Width of a source row: at least the tokens of the longest source.
    pub source_cols: usize,
    /// Decoder inputs, `[rows, target_cols]`.
    pub inputs: Vec<i32>,
    /// Decoder targets or [`NOT_SCORED`], `[rows, target_cols]`.
    pub targets: Vec<i32>,
    /// Tokens of each target that the decoder reads.
    pub target_lengths: Vec<usize>,
    /// Width of a target row: at least the decoder inputs of the longest target.
    pub target_cols: usize,
}

/// A batch: some rows of a step, or of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Inputs of the model, and its targets.
    pub content: Content,
    /// Sample number of each row.
    pub samples: Vec<u64>,
    /// Number of examples.
    pub rows: usize,
    /// Index of the first row within its step's batch.
    pub first_row: usize,
    /// Number of scored targets: tokens of texts; or images and texts with classes, a number or an answer; or
    /// images with captions.
    pub scored: usize,
    /// Number of scored second targets.
    pub second: usize,
    /// Class weights, if the classes have any.
    pub class_weights: Option<Arc<[f32]>>,
    /// Sum of the weights of the scored targets; 0 if the classes have no weights.
    pub weight: f64,
    /// Tokens of the texts (of pairs, on both sides) without padding; for images, the number of images.
    pub tokens: usize,
    /// Scored targets of the whole step, by which the sum of losses is divided.
    pub step_scored: usize,
    /// Sum of the weights of the scored targets of the whole step.
    pub step_weight: f64,
    /// Scored second targets of the whole step.
    pub step_second: usize,
    /// Tokens of the whole step.
    pub step_tokens: usize,
    /// Examples of the whole step.
    pub step_rows: usize,
    /// Steps before this one; in an evaluation, batches before this one.
    pub step: u64,
    /// Steps of the whole training; 0 if there is no training.
    pub steps: u64,
    /// For rows that continue from batch to batch: whether each row begins its text in this batch.
    pub begins: Option<Vec<bool>>,
    /// Split that the examples are from.
    pub split: Split,
    /// What to record of the forward pass, in a step that is watched.
    pub watch: Option<ProbeRequest>,
    /// Whether the blocks of a network keep only their input and recompute everything else in the backward
    /// pass.
    pub recompute: bool,
    /// Whether the loss sums stay on the device, unread.
    pub keeps_sums_on_device: bool,
}

impl Content {
    /// Returns the number of scored targets: tokens if tokens have targets, otherwise rows.
    pub fn scored(&self) -> usize {
        let count = |targets: &[i32]| targets.iter().filter(|t| **t != NOT_SCORED).count();
        match self {
            Self::Text(c) if c.targets.is_empty() => {
                let labels = c.labels.as_ref().map(Vec::len);
                let classes = c.classes.as_ref().map(Vec::len);
                let numbers = c.numbers.as_ref().map(Vec::len);
                let asked = c.asked.as_ref().map(Vec::len);
                labels.or(classes).or(numbers).or(asked).unwrap_or(0)
            }
            Self::Text(c) => count(&c.targets),
            Self::Pairs(c) => count(&c.targets),
            Self::Images(c) => c.labels.len(),
            Self::Captioned(c) if c.captions.targets.is_empty() => c.images.labels.len(),
            Self::Captioned(c) => count(&c.captions.targets),
            Self::Spoken(c) => count(&c.transcripts.targets),
        }
    }

    /// Returns the number of scored second targets.
    pub fn second(&self) -> usize {
        match self {
            Self::Text(c) => {
                let targets = c.second.iter().flatten();
                targets.filter(|t| **t != NOT_SCORED).count()
            }
            Self::Pairs(_) | Self::Images(_) | Self::Captioned(_) | Self::Spoken(_) => 0,
        }
    }

    /// Returns the number of tokens read (for pairs, on both sides) without padding; for images and
    /// recordings, their number.
    pub fn tokens(&self) -> usize {
        match self {
            Self::Text(c) => c.tokens(),
            Self::Pairs(c) => c.source_lengths.iter().chain(&c.target_lengths).sum(),
            Self::Images(c) => c.labels.len(),
            Self::Captioned(c) => c.images.labels.len(),
            Self::Spoken(c) => c.speech.rows,
        }
    }
}

impl Item {
    /// Returns the text, if the example is one.
    pub fn text(self) -> Option<TextItem> {
        match self {
            Self::Text(item) => Some(item),
            Self::Pair(_) | Self::Image(_) | Self::Captioned(_) | Self::Spoken(_) => None,
        }
    }
}

impl Batch {
    /// Returns the texts, if the batch is of texts.
    pub fn text(&self) -> Option<&TextBatch> {
        match &self.content {
            Content::Text(content) => Some(content),
            Content::Pairs(_) | Content::Images(_) | Content::Captioned(_) | Content::Spoken(_) => {
                None
            }
        }
    }
}
