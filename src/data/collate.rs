//! Collation: pads several examples into one rectangular batch.
//!
//! Rows that differ in length are padded on the right. The padding is hidden from attention (`lengths`) and
//! never scored ([`NOT_SCORED`]). The micro-batches of a step are padded to the same width, so that splitting
//! a step differently changes nothing.

use super::NOT_SCORED;
use super::batch::{
    CaptionedBatch, Content, ImageBatch, ImageItem, Item, PairBatch, PairItem, SpeechBatch,
    SpokenBatch, SpokenItem, TextBatch, TextItem,
};
use crate::nn::neighbours::Neighbours;

/// The lengths that the rows of a step are padded to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Widths {
    source: usize,
    target: usize,
    /// Widths of the first and the second text of a row.
    halves: [usize; 2],
}

impl Widths {
    /// Returns the lengths of the longest examples.
    pub(super) fn of(items: &[Item]) -> Self {
        let mut widths = Self::default();
        for item in items {
            let (source, target) = match item {
                Item::Text(item) => {
                    for (width, length) in widths.halves.iter_mut().zip(segment_lengths(item)) {
                        *width = length.max(*width);
                    }
                    (item.inputs.len(), 0)
                }
                Item::Pair(item) => (item.source.len(), item.target.len().saturating_sub(1)),
                Item::Image(_) => (0, 0),
                Item::Captioned(item) => (item.caption.len(), 0),
                Item::Spoken(item) => (item.transcript.len(), samples(item)),
            };
            widths.source = widths.source.max(source);
            widths.target = widths.target.max(target);
        }
        widths
    }

    /// How many numbers [`Self::numbers`] returns.
    pub(super) const LEN: usize = 4;

    pub(super) fn to_array(self) -> [usize; Self::LEN] {
        let [first, last] = self.halves;
        [self.source, self.target, first, last]
    }

    pub(super) fn from_array([source, target, first, last]: [usize; Self::LEN]) -> Self {
        Self {
            source,
            target,
            halves: [first, last],
        }
    }

    /// Returns the larger of each pair of widths.
    pub(super) fn elementwise_max(self, other: Self) -> Self {
        let (mut larger, others) = (self.to_array(), other.to_array());
        for (number, other) in larger.iter_mut().zip(others) {
            *number = other.max(*number);
        }
        Self::from_array(larger)
    }
}

impl Content {
    /// Collates examples of one kind, padded to the longest.
    pub fn of(items: &[Item]) -> Self {
        collate(items, Widths::of(items))
    }
}

/// Collates examples of one kind, padded to `widths`.
pub(super) fn collate(items: &[Item], widths: Widths) -> Content {
    match items.first() {
        Some(Item::Pair(_)) => Content::Pairs(pairs(items, widths)),
        Some(Item::Image(_)) => Content::Images(images(items)),
        Some(Item::Captioned(_)) => Content::Captioned(captioned(items, widths.source)),
        Some(Item::Spoken(_)) => Content::Spoken(spoken(items, widths)),
        Some(Item::Text(_)) | None => Content::Text(TextBatch {
            segment_lengths: widths.halves,
            ..texts(items, widths.source)
        }),
    }
}

const ONE_KIND: &str = "a source returns one kind of example";

fn texts(items: &[Item], cols: usize) -> TextBatch {
    let items = || {
        items.iter().map(|item| match item {
            Item::Text(item) => item,
            Item::Pair(_) | Item::Image(_) | Item::Captioned(_) | Item::Spoken(_) => {
                unreachable!("{ONE_KIND}")
            }
        })
    };
    let all = |part: &dyn Fn(&TextItem) -> Option<Vec<i32>>, filling: i32| {
        let rows = items().map(part).collect::<Option<Vec<_>>>()?;
        Some(pad_rows(rows.iter().map(Vec::as_slice), cols, filling))
    };
    TextBatch {
        documents: all(&|item| item.documents.clone(), -1),
        segments: all(&|item| item.segments.clone(), 0),
        labels: items().map(|item| item.label).collect(),
        classes: items().map(|item| item.classes.clone()).collect(),
        numbers: items().map(|item| item.number).collect(),
        asked: items().map(|item| item.asked.clone()).collect(),
        second: all(&|item| item.second.clone(), NOT_SCORED),
        neighbours: neighbours(items()),
        ..with_targets(items().map(|i| (&i.inputs[..], &i.targets[..])), cols)
    }
}

/// Texts with their targets, if any text has targets.
fn with_targets<'a>(
    rows: impl Iterator<Item = (&'a [i32], &'a [i32])> + Clone,
    cols: usize,
) -> TextBatch {
    let (inputs, targets) = (rows.clone().map(|row| row.0), rows.map(|row| row.1));
    let lengths: Vec<usize> = inputs.clone().map(<[i32]>::len).collect();
    TextBatch {
        inputs: pad_rows(inputs, cols, 0),
        targets: match targets.clone().all(<[i32]>::is_empty) {
            true => Vec::new(),
            false => pad_rows(targets, cols, NOT_SCORED),
        },
        lengths: lengths.iter().any(|n| *n < cols).then_some(lengths),
        cols,
        ..TextBatch::default()
    }
}

/// The neighbours of the chunks of all rows, if every row has some.
fn neighbours<'a>(items: impl Iterator<Item = &'a TextItem>) -> Option<Neighbours> {
    let rows = items.map(|item| item.neighbours.as_ref());
    let mut rows = rows.collect::<Option<Vec<_>>>()?.into_iter();
    let mut all = rows.next()?.clone();
    rows.for_each(|row| all.append(row));
    Some(all)
}

/// Tokens of the first and of the second text of a row.
fn segment_lengths(item: &TextItem) -> [usize; 2] {
    item.segments.as_ref().map_or([0; 2], |segments| {
        let first = segments.iter().take_while(|segment| **segment == 0).count();
        [first, segments.len() - first]
    })
}

fn pairs(items: &[Item], widths: Widths) -> PairBatch {
    let items = || {
        items.iter().map(|item| match item {
            Item::Pair(item) => item,
            Item::Text(_) | Item::Image(_) | Item::Captioned(_) | Item::Spoken(_) => {
                unreachable!("{ONE_KIND}")
            }
        })
    };
    let read = |item: &PairItem| item.target.len().saturating_sub(1);
    PairBatch {
        source: pad_rows(items().map(|i| i.source.as_slice()), widths.source, 0),
        source_lengths: items().map(|i| i.source.len()).collect(),
        source_cols: widths.source,
        inputs: pad_rows(items().map(|i| &i.target[..read(i)]), widths.target, 0),
        targets: pad_rows(
            items().map(|i| i.target.get(1..).unwrap_or_default()),
            widths.target,
            NOT_SCORED,
        ),
        target_lengths: items().map(read).collect(),
        target_cols: widths.target,
    }
}

fn images(items: &[Item]) -> ImageBatch {
    stack_images(items.iter().map(|item| match item {
        Item::Image(item) => item,
        Item::Text(_) | Item::Pair(_) | Item::Captioned(_) | Item::Spoken(_) => {
            unreachable!("{ONE_KIND}")
        }
    }))
}

fn captioned(items: &[Item], cols: usize) -> CaptionedBatch {
    let items = || {
        items.iter().map(|item| match item {
            Item::Captioned(item) => item,
            Item::Text(_) | Item::Pair(_) | Item::Image(_) | Item::Spoken(_) => {
                unreachable!("{ONE_KIND}")
            }
        })
    };
    let texts = items().map(|item| (&item.caption[..], &item.targets[..]));
    CaptionedBatch {
        images: stack_images(items().map(|item| &item.image)),
        texts: items().map(|item| item.text).collect(),
        captions: with_targets(texts, cols),
    }
}

/// Samples of a recording that is read as raw samples; 0 if it is read as mel bands.
fn samples(item: &SpokenItem) -> usize {
    match item.speech.shape.n_mels {
        0 => item.speech.features.len(),
        _ => 0,
    }
}

fn spoken(items: &[Item], widths: Widths) -> SpokenBatch {
    let items = || {
        items.iter().map(|item| match item {
            Item::Spoken(item) => item,
            Item::Text(_) | Item::Pair(_) | Item::Image(_) | Item::Captioned(_) => {
                unreachable!("{ONE_KIND}")
            }
        })
    };
    let texts = items().map(|item| (&item.transcript[..], &item.targets[..]));
    SpokenBatch {
        speech: SpeechBatch::of(items().map(|item| &item.speech), widths.target),
        transcripts: with_targets(texts, widths.source),
    }
}

fn stack_images<'a>(items: impl Iterator<Item = &'a ImageItem>) -> ImageBatch {
    let mut batch = ImageBatch::default();
    let mut mixed = Vec::new();
    for item in items {
        batch.shape = item.shape;
        batch.pixels.extend_from_slice(&item.pixels);
        batch.labels.push(item.label);
        mixed.push(item.mixed.unwrap_or((item.label, 1.0)));
        if let Some(views) = &item.views {
            batch.views.get_or_insert_default().append(views);
        }
    }
    let any = mixed.iter().any(|(_, share)| *share < 1.0);
    batch.mixed = any.then_some(mixed);
    batch
}

/// Concatenates rows of different lengths, each padded on the right to `cols`.
fn pad_rows<'a>(rows: impl Iterator<Item = &'a [i32]>, cols: usize, filling: i32) -> Vec<i32> {
    let mut all = Vec::new();
    for (number, row) in rows.enumerate() {
        all.extend_from_slice(row);
        all.resize((number + 1) * cols, filling);
    }
    all
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
