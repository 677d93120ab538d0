//! Examples and batches: what a source gives, and how several of them become one rectangle.
//!
//! An example is a text, a pair of texts or an image. Rows that differ in length are filled up on the right;
//! what fills them is hidden from attention (`lengths`) and never scored ([`NOT_SCORED`]). The micro-batches of a
//! step are filled to one width, so that cutting a step differently changes nothing.

use super::{NOT_SCORED, Split};
use crate::nn::probe::Wanted;

/// One example. A source gives one kind of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A text, scored token by token or as a whole.
    Text(TextItem),
    /// A text and the one that it is to become.
    Pair(PairItem),
    /// An image and its class.
    Image(ImageItem),
}

/// A text: `targets[i]` is what position i is to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextItem {
    /// Token ids.
    pub inputs: Vec<i32>,
    /// Token ids or [`NOT_SCORED`], as long as `inputs`; empty when no token is scored.
    pub targets: Vec<i32>,
    /// The document of each position, counted from the first, when attention must not cross documents.
    pub documents: Option<Vec<i32>>,
    /// The segment of each position (0, then 1 in the second text of a pair).
    pub segments: Option<Vec<i32>>,
    /// The class of the whole text: a label, or whether the second text follows the first.
    pub label: Option<i32>,
}

/// A source text and its target, both with the marks that the tokenizer puts around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairItem {
    /// Token ids, the end mark included.
    pub source: Vec<i32>,
    /// Token ids from the mark of the beginning to that of the end.
    pub target: Vec<i32>,
}

/// An image that is ready for a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageItem {
    /// `[channels, height, width]`, normalised.
    pub pixels: Vec<f32>,
    /// Channels, height, width.
    pub shape: [usize; 3],
    /// Its class.
    pub label: i32,
    /// Where two images were mixed: the other one's class, and the share of the first (mixup, cutmix).
    pub mixed: Option<(i32, f32)>,
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
}

/// Texts, row by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextBatch {
    /// Token ids, `[rows, cols]`.
    pub inputs: Vec<i32>,
    /// Token ids or [`NOT_SCORED`], `[rows, cols]`; empty when no token is scored.
    pub targets: Vec<i32>,
    /// Document of each position, `[rows, cols]`, when attention must not cross documents.
    pub documents: Option<Vec<i32>>,
    /// Segment of each position, `[rows, cols]`.
    pub segments: Option<Vec<i32>>,
    /// Class of each row.
    pub labels: Option<Vec<i32>>,
    /// Tokens of each row, when a row is shorter than `cols`.
    pub lengths: Option<Vec<usize>>,
    /// Tokens of the longest row.
    pub cols: usize,
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

/// Images, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageBatch {
    /// `[rows, channels, height, width]`.
    pub pixels: Vec<f32>,
    /// Channels, height, width.
    pub shape: [usize; 3],
    /// Class of each image.
    pub labels: Vec<i32>,
    /// Where images were mixed: for each row the other class and the first one's share.
    pub mixed: Option<Vec<(i32, f32)>>,
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
    /// What is scored: targets of texts, or images and texts with a class.
    pub scored: usize,
    /// Tokens of its texts, of pairs on both sides, without what fills rows up; of images, the images.
    pub tokens: usize,
    /// What is scored in the whole step: what the sum of losses is divided by.
    pub step_scored: usize,
    /// Tokens of the whole step.
    pub step_tokens: usize,
    /// Examples of the whole step.
    pub step_rows: usize,
    /// Steps before this one; in an evaluation, batches before this one.
    pub step: u64,
    /// Whether the step ends with it.
    pub last: bool,
    /// What it is from.
    pub split: Split,
    /// What is to be read of the pass that it goes through, in a step that is watched.
    pub watch: Option<Wanted>,
}

impl Content {
    /// What is scored: targets where tokens have targets, otherwise rows.
    pub fn scored(&self) -> usize {
        let count = |targets: &[i32]| targets.iter().filter(|t| **t != NOT_SCORED).count();
        match self {
            Self::Text(c) if c.targets.is_empty() => c.labels.as_ref().map_or(0, Vec::len),
            Self::Text(c) => count(&c.targets),
            Self::Pairs(c) => count(&c.targets),
            Self::Images(c) => c.labels.len(),
        }
    }

    /// Tokens that are read, of pairs on both sides, without what fills rows up; of images, the images.
    pub fn tokens(&self) -> usize {
        match self {
            Self::Text(c) => match &c.lengths {
                Some(lengths) => lengths.iter().sum(),
                None => c.inputs.len(),
            },
            Self::Pairs(c) => c.source_lengths.iter().chain(&c.target_lengths).sum(),
            Self::Images(c) => c.labels.len(),
        }
    }
}

/// The lengths that the rows of a step are filled up to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Widths {
    source: usize,
    target: usize,
}

impl Widths {
    /// Those of the longest examples.
    pub(super) fn of(items: &[Item]) -> Self {
        let mut widths = Self::default();
        for item in items {
            let (source, target) = match item {
                Item::Text(item) => (item.inputs.len(), 0),
                Item::Pair(item) => (item.source.len(), item.target.len().saturating_sub(1)),
                Item::Image(_) => (0, 0),
            };
            widths.source = widths.source.max(source);
            widths.target = widths.target.max(target);
        }
        widths
    }
}

/// Examples side by side.
pub(super) fn collate(items: &[Item], widths: Widths) -> Content {
    match items.first() {
        Some(Item::Pair(_)) => Content::Pairs(pairs(items, widths)),
        Some(Item::Image(_)) => Content::Images(images(items)),
        Some(Item::Text(_)) | None => Content::Text(texts(items, widths.source)),
    }
}

const ONE_KIND: &str = "a source gives one kind of example";

fn texts(items: &[Item], cols: usize) -> TextBatch {
    let items = || {
        items.iter().map(|item| match item {
            Item::Text(item) => item,
            Item::Pair(_) | Item::Image(_) => unreachable!("{ONE_KIND}"),
        })
    };
    let all = |part: &dyn Fn(&TextItem) -> Option<Vec<i32>>, filling: i32| {
        let rows = items().map(part).collect::<Option<Vec<_>>>()?;
        Some(rectangle(rows.iter().map(Vec::as_slice), cols, filling))
    };
    let lengths: Vec<usize> = items().map(|item| item.inputs.len()).collect();
    TextBatch {
        inputs: rectangle(items().map(|i| i.inputs.as_slice()), cols, 0),
        targets: if items().all(|i| i.targets.is_empty()) {
            Vec::new()
        } else {
            rectangle(items().map(|i| i.targets.as_slice()), cols, NOT_SCORED)
        },
        documents: all(&|item| item.documents.clone(), -1),
        segments: all(&|item| item.segments.clone(), 0),
        labels: items().map(|item| item.label).collect(),
        lengths: lengths.iter().any(|n| *n < cols).then_some(lengths),
        cols,
    }
}

fn pairs(items: &[Item], widths: Widths) -> PairBatch {
    let items = || {
        items.iter().map(|item| match item {
            Item::Pair(item) => item,
            Item::Text(_) | Item::Image(_) => unreachable!("{ONE_KIND}"),
        })
    };
    let read = |item: &PairItem| item.target.len().saturating_sub(1);
    PairBatch {
        source: rectangle(items().map(|i| i.source.as_slice()), widths.source, 0),
        source_lengths: items().map(|i| i.source.len()).collect(),
        source_cols: widths.source,
        inputs: rectangle(items().map(|i| &i.target[..read(i)]), widths.target, 0),
        targets: rectangle(
            items().map(|i| i.target.get(1..).unwrap_or_default()),
            widths.target,
            NOT_SCORED,
        ),
        target_lengths: items().map(read).collect(),
        target_cols: widths.target,
    }
}

fn images(items: &[Item]) -> ImageBatch {
    let mut batch = ImageBatch::default();
    let mut mixed = Vec::new();
    for item in items {
        let Item::Image(item) = item else {
            unreachable!("{ONE_KIND}")
        };
        batch.shape = item.shape;
        batch.pixels.extend_from_slice(&item.pixels);
        batch.labels.push(item.label);
        mixed.push(item.mixed.unwrap_or((item.label, 1.0)));
    }
    let any = mixed.iter().any(|(_, share)| *share < 1.0);
    batch.mixed = any.then_some(mixed);
    batch
}

/// Rows of different lengths, filled up on the right.
fn rectangle<'a>(rows: impl Iterator<Item = &'a [i32]>, cols: usize, filling: i32) -> Vec<i32> {
    let mut all = Vec::new();
    for (number, row) in rows.enumerate() {
        all.extend_from_slice(row);
        all.resize((number + 1) * cols, filling);
    }
    all
}

impl Item {
    /// The text, when it is one.
    pub fn text(self) -> Option<TextItem> {
        match self {
            Self::Text(item) => Some(item),
            Self::Pair(_) | Self::Image(_) => None,
        }
    }
}

impl Batch {
    /// The texts, when it is of texts.
    pub fn text(&self) -> Option<&TextBatch> {
        match &self.content {
            Content::Text(content) => Some(content),
            Content::Pairs(_) | Content::Images(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_filled_on_the_right_and_the_filling_is_not_scored() {
        let pair = |source: &[i32], target: &[i32]| {
            Item::Pair(PairItem {
                source: source.to_vec(),
                target: target.to_vec(),
            })
        };
        let items = [
            pair(&[5, 6, 2], &[1, 7, 2]),
            pair(&[5, 2], &[1, 7, 8, 9, 2]),
        ];
        let Content::Pairs(c) = collate(&items, Widths::of(&items)) else {
            panic!("pairs");
        };
        assert_eq!(c.source, [5, 6, 2, 5, 2, 0]);
        assert_eq!(
            (c.source_lengths, c.target_lengths),
            (vec![3, 2], vec![2, 4])
        );
        assert_eq!(c.inputs, [1, 7, 0, 0, 1, 7, 8, 9]);
        let skip = NOT_SCORED;
        assert_eq!(c.targets, [7, 2, skip, skip, 7, 8, 9, 2]);
    }

    #[test]
    fn classes_count_where_no_token_is_scored() {
        let text = |n: usize, label| {
            Item::Text(TextItem {
                inputs: vec![3; n],
                label: Some(label),
                ..TextItem::default()
            })
        };
        let items = [text(2, 0), text(3, 1)];
        let content = collate(&items, Widths::of(&items));
        assert_eq!(content.scored(), 2);
        let Content::Text(c) = content else {
            panic!("texts");
        };
        assert_eq!((c.cols, c.lengths), (3, Some(vec![2, 3])));
        assert_eq!(c.labels, Some(vec![0, 1]));
    }
}
