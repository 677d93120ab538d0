//! `[data] join = true`: rows of one class are joined until the context is full.
//!
//! Short texts become long ones whose class can be recognised from any part. At 4,000 bytes that is the size
//! of the byte classification of Tay et al., "Long Range Arena", arXiv:2011.04006, section 2.2, whose film
//! reviews are long by themselves. In training, a text begins with a row and continues with random rows of
//! its class, drawn anew each time. In held-out splits each row is in one text, and the rows of a class after
//! its last full text are left out. Rows are split before they are joined, so that no held-out row is trained
//! on. Rows are separated by a blank, if the vocabulary has one.

use std::sync::Arc;

use crate::data::{Item, Source, Split, TextItem};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::{SpecialTokenLayout, Tokenizer};

use super::examples::Labelled;

/// How rows are joined into a text.
#[derive(Clone)]
pub(super) struct Joining {
    /// Maximum number of tokens in a text, without special tokens.
    room: usize,
    edges: Option<SpecialTokenLayout>,
    /// Separator between two rows.
    between: Vec<i32>,
}

impl Joining {
    /// For texts of `context` tokens, including special tokens.
    pub(super) fn new(context: usize, tokenizer: &Tokenizer) -> Self {
        let edges = tokenizer.special_token_layout();
        // A vocabulary of characters may have no blank.
        let between = tokenizer.encode(" ").unwrap_or_default();
        Self {
            room: context.saturating_sub(edges.as_ref().map_or(0, |edges| edges.len(false))),
            edges,
            between: between.into_iter().map(|id| id as i32).collect(),
        }
    }

    /// Joins rows into one text, cut to `room`.
    fn text<'r>(&self, rows: impl Iterator<Item = &'r [i32]>, label: i32) -> TextItem {
        let mut ids: Vec<i32> = Vec::with_capacity(self.room);
        for row in rows {
            if !ids.is_empty() {
                ids.extend(&self.between);
            }
            ids.extend(row);
            if ids.len() >= self.room {
                break;
            }
        }
        ids.truncate(self.room);
        let edges = self.edges.as_ref();
        TextItem {
            segments: edges.and_then(|edges| edges.segments(ids.len())),
            inputs: match edges {
                Some(edges) => edges.around(&ids),
                None => ids,
            },
            label: Some(label),
            ..TextItem::default()
        }
    }

    /// Builds the source of a split from encoded rows with their classes; also returns how many examples have
    /// a row that is longer than a text.
    ///
    /// # Errors
    /// If a held-out split has no rows.
    pub(super) fn source(
        self,
        rows: Vec<(Vec<i32>, i32)>,
        split: Split,
        seed: u64,
    ) -> Result<(Arc<dyn Source>, usize)> {
        let classes = rows.iter().map(|(_, label)| *label as usize + 1).max();
        let mut by_class = vec![Vec::new(); classes.unwrap_or(0)];
        for (number, (_, label)) in rows.iter().enumerate() {
            by_class[*label as usize].push(number as u32);
        }
        let room = self.room;
        let is_cut = |row: &(Vec<i32>, i32)| row.0.len() > room;
        if split == Split::Train {
            let cut = rows.iter().filter(|row| is_cut(row)).count();
            let source: Arc<dyn Source> = Arc::new(Joined {
                joining: self,
                rows,
                by_class,
                seed,
            });
            return Ok((source, cut));
        }
        let (mut items, mut cut) = (Vec::new(), 0);
        for (label, numbers) in by_class.iter().enumerate() {
            let mut rest = numbers.as_slice();
            while !rest.is_empty() {
                let (count, full) = self.filling(&rows, rest);
                let (chosen, after) = rest.split_at(count);
                // A class with too few rows for a full text still has one text.
                if full || rest.len() == numbers.len() {
                    cut += usize::from(chosen.iter().any(|n| is_cut(&rows[*n as usize])));
                    let rows = chosen.iter().map(|n| rows[*n as usize].0.as_slice());
                    items.push(self.text(rows, label as i32));
                }
                rest = after;
            }
        }
        if items.is_empty() {
            return Err(Error::usage(format!(
                "[data] the {} split has no rows to join",
                split.name()
            )));
        }
        let source: Arc<dyn Source> = Arc::new(Labelled { items, split });
        Ok((source, cut))
    }

    /// Returns how many of the rows fill a text, and whether they do.
    fn filling(&self, rows: &[(Vec<i32>, i32)], numbers: &[u32]) -> (usize, bool) {
        let mut length = 0;
        for (at, number) in numbers.iter().enumerate() {
            length += rows[*number as usize].0.len();
            if length >= self.room {
                return (at + 1, true);
            }
            length += self.between.len();
        }
        (numbers.len(), false)
    }
}

/// A source of training texts, joined anew for each draw.
struct Joined {
    joining: Joining,
    rows: Vec<(Vec<i32>, i32)>,
    by_class: Vec<Vec<u32>>,
    seed: u64,
}

impl Source for Joined {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let (first, label) = &self.rows[sample as usize];
        let class = &self.by_class[*label as usize];
        let mut stream = Stream::new(self.seed, Purpose::Augment, (draw, 0, 0));
        let further = std::iter::repeat_with(|| {
            let number = class[stream.below(class.len() as u64) as usize];
            self.rows[number as usize].0.as_slice()
        });
        let rows = std::iter::once(first.as_slice()).chain(further);
        Ok(Item::Text(self.joining.text(rows, *label)))
    }

    fn size(&self, _sample: u64) -> usize {
        let edges = self.joining.edges.as_ref();
        self.joining.room + edges.map_or(0, |edges| edges.len(false))
    }
}
