//! Examples and batches: what a source gives, and what a step reads.
//!
//! An example is a text, a pair of texts, an image or a recording. `collate` makes a batch of several.

mod captioned;
mod images;
mod spoken;

use super::{NOT_SCORED, Split};
use crate::nn::neighbours::Neighbours;
use crate::nn::probe::Wanted;
pub use captioned::{CaptionedBatch, CaptionedItem};
pub use images::{ImageBatch, ImageItem, Views};
pub use spoken::{SpeechBatch, SpeechItem, SpeechShape, SpokenBatch, SpokenItem};
use std::sync::Arc;

/// One example. A source gives one kind of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A text, scored token by token or as a whole.
    Text(TextItem),
    /// A text and the one that it is to become.
    Pair(PairItem),
    /// An image and its class.
    Image(ImageItem),
    /// An image and its caption.
    Captioned(CaptionedItem),
    /// A recording and its transcript.
    Spoken(SpokenItem),
}

/// A text: `targets[i]` is what position i is to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextItem {
    /// Token ids.
    pub inputs: Vec<i32>,
    /// Token ids or tags, or [`NOT_SCORED`], as long as `inputs`; empty when no token is scored.
    pub targets: Vec<i32>,
    /// The document of each position, when attention must not cross documents: a carried state continues in 0.
    pub documents: Option<Vec<i32>>,
    /// The segment of each position (0, then 1 in the second text of a pair).
    pub segments: Option<Vec<i32>>,
    /// The class of the whole text: a label, or whether the second text follows the first.
    pub label: Option<i32>,
    /// The classes of the whole text, in ascending order, where it may have any number of them.
    pub classes: Option<Vec<i32>>,
    /// The number that the whole text is to be given.
    pub number: Option<f32>,
    /// What is asked of it.
    pub asked: Option<Asked>,
    /// The token after the last target, where the text continues in the same document.
    pub after: Option<i32>,
    /// The token after each target, or [`NOT_SCORED`], as long as `targets`, when it is predicted too.
    pub second: Option<Vec<i32>>,
    /// The neighbours of its whole chunks, of a model that reads them.
    pub neighbours: Option<Neighbours>,
}

/// What is asked of a text, and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The first and the last token of the answer; [`Window::none`] where the text has none.
    pub answer: [i32; 2],
    /// The part of a context that the text holds.
    pub window: Arc<Window>,
}

/// A part of the context of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The question, by its number in the split.
    pub question: u64,
    /// What its file calls it; its number where the file says nothing.
    pub id: Arc<str>,
    /// The whole context.
    pub context: Arc<str>,
    /// The bytes of the context that each token of this part stands for.
    pub places: Vec<[usize; 2]>,
    /// The place of the first of these tokens in the text.
    pub first: usize,
    /// The place of the token that stands for the whole text, and for no answer.
    pub none: usize,
    /// All right answers; none where there is no answer.
    pub right: Arc<[String]>,
    /// Whether questions of the data may have no answer.
    pub may_lack: bool,
}

/// A source text and its target, both with the marks that the tokenizer puts around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairItem {
    /// Token ids, the end mark included.
    pub source: Vec<i32>,
    /// Token ids from the mark of the beginning to that of the end.
    pub target: Vec<i32>,
}

/// Some examples of one kind.
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

/// Texts, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextBatch {
    /// Token ids, `[rows, cols]`.
    pub inputs: Vec<i32>,
    /// Token ids or tags, or [`NOT_SCORED`], `[rows, cols]`; empty when no token is scored.
    pub targets: Vec<i32>,
    /// Document of each position, `[rows, cols]`, when attention must not cross documents; in number 0 a carried state
    /// continues.
    pub documents: Option<Vec<i32>>,
    /// Segment of each position, `[rows, cols]`.
    pub segments: Option<Vec<i32>>,
    /// Class of each row.
    pub labels: Option<Vec<i32>>,
    /// The classes of each row, where it may have any number of them.
    pub classes: Option<Vec<Vec<i32>>>,
    /// The number that each row is to be given.
    pub numbers: Option<Vec<f32>>,
    /// What is asked of each row.
    pub asked: Option<Vec<Asked>>,
    /// The token after each target or [`NOT_SCORED`], `[rows, cols]`, when it is predicted too.
    pub second: Option<Vec<i32>>,
    /// The neighbours of the whole chunks of each row, of a model that reads them.
    pub neighbours: Option<Neighbours>,
    /// Tokens of each row, when a row is shorter than `cols`.
    pub lengths: Option<Vec<usize>>,
    /// Tokens of the longest row.
    pub cols: usize,
    /// Tokens of the longest first and of the longest second text (segments 0 and 1) of the step, where it has both.
    pub halves: [usize; 2],
}

impl TextBatch {
    /// Tokens without what fills rows up.
    pub fn tokens(&self) -> usize {
        let lengths = self.lengths.as_ref();
        lengths.map_or(self.inputs.len(), |lengths| lengths.iter().sum())
    }

    /// A text alone, to be read without a right answer.
    pub fn alone(item: TextItem) -> Self {
        Self {
            cols: item.inputs.len(),
            inputs: item.inputs,
            segments: item.segments,
            ..Self::default()
        }
    }

    /// Texts filled up to the longest, or to `width`, to be read without a right answer.
    pub fn filled(rows: &[Vec<i32>], width: usize) -> Self {
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

/// Pairs of texts, row by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairBatch {
    /// Source ids, `[rows, source_cols]`.
    pub source: Vec<i32>,
    /// Tokens of each source.
    pub source_lengths: Vec<usize>,
    /// Tokens of the longest source.
    pub source_cols: usize,
    /// What the decoder reads, `[rows, target_cols]`.
    pub inputs: Vec<i32>,
    /// What it is to say, or [`NOT_SCORED`], `[rows, target_cols]`.
    pub targets: Vec<i32>,
    /// Tokens that the decoder reads of each target.
    pub target_lengths: Vec<usize>,
    /// Tokens that the decoder reads of the longest target.
    pub target_cols: usize,
}

/// Some rows of a step, or of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// What the model reads, and what it is to say.
    pub content: Content,
    /// Which example each row is.
    pub samples: Vec<u64>,
    /// Examples.
    pub rows: usize,
    /// Place of the first row within its step's batch.
    pub first_row: usize,
    /// What is scored: targets of texts, or images and texts with classes, a number or an answer, or images with captions.
    pub scored: usize,
    /// Second targets that are scored.
    pub second: usize,
    /// The weights of the classes, where they have some.
    pub class_weights: Option<Arc<[f32]>>,
    /// The sum of the weights of what is scored; 0 where classes have none.
    pub weight: f64,
    /// Tokens of its texts, of pairs on both sides, without what fills rows up; of images, the images.
    pub tokens: usize,
    /// What is scored in the whole step: what the sum of losses is divided by.
    pub step_scored: usize,
    /// The sum of the weights of what is scored in the whole step.
    pub step_weight: f64,
    /// Second targets that are scored in the whole step.
    pub step_second: usize,
    /// Tokens of the whole step.
    pub step_tokens: usize,
    /// Examples of the whole step.
    pub step_rows: usize,
    /// Steps before this one; in an evaluation, batches before this one.
    pub step: u64,
    /// Steps of the whole training; 0 where there is none.
    pub steps: u64,
    /// Where rows continue from batch to batch: which of them begin their text here.
    pub begins: Option<Vec<bool>>,
    /// What it is from.
    pub split: Split,
    /// What is to be read of the pass that it goes through, in a step that is watched.
    pub watch: Option<Wanted>,
    /// Whether the blocks of a network keep their input alone and compute all else anew on the way back.
    pub recompute: bool,
    /// Whether the sums of its losses stay on the device, unread.
    pub unread: bool,
}

impl Content {
    /// What is scored: targets where tokens have targets, otherwise rows.
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

    /// Second targets that are scored.
    pub fn second(&self) -> usize {
        match self {
            Self::Text(c) => {
                let targets = c.second.iter().flatten();
                targets.filter(|t| **t != NOT_SCORED).count()
            }
            Self::Pairs(_) | Self::Images(_) | Self::Captioned(_) | Self::Spoken(_) => 0,
        }
    }

    /// Tokens that are read, of pairs on both sides, without what fills rows up; of images and recordings, their number.
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
    /// The text, when it is one.
    pub fn text(self) -> Option<TextItem> {
        match self {
            Self::Text(item) => Some(item),
            Self::Pair(_) | Self::Image(_) | Self::Captioned(_) | Self::Spoken(_) => None,
        }
    }
}

impl Batch {
    /// The texts, when it is of texts.
    pub fn text(&self) -> Option<&TextBatch> {
        match &self.content {
            Content::Text(content) => Some(content),
            Content::Pairs(_) | Content::Images(_) | Content::Captioned(_) | Content::Spoken(_) => {
                None
            }
        }
    }
}
