//! `[data] join = true`: rows of one class, one after the other, until the context is full.
//!
//! Short texts become long ones whose class has to be told from any part: at 4,000 bytes the size of the byte
//! classification of Tay et al., "Long Range Arena", arXiv:2011.04006, section 2.2, whose film reviews are long of
//! themselves. In training a text begins with a row, and rows of its class that are drawn anew each time follow it; held
//! out, each row stands in one text, and what is left of a class behind its last whole text is left out. Rows are split
//! before they are joined, so that no held-out row is trained on. A blank stands between two rows where the vocabulary has
//! one.

use std::sync::Arc;

use crate::data::{Item, Source, Split, TextItem};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::{Edges, Tokenizer};

use super::examples::Labelled;

/// The form of a joined text.
#[derive(Clone)]
pub(super) struct Joining {
    /// Tokens of a text without its marks.
    room: usize,
    edges: Option<Edges>,
    /// Between two rows.
    between: Vec<i32>,
}

impl Joining {
    /// For texts of `context` tokens with their marks.
    pub(super) fn new(context: usize, tokenizer: &Tokenizer) -> Self {
        let edges = tokenizer.edges();
        // A vocabulary of characters may lack the blank.
        let between = tokenizer.encode(" ").unwrap_or_default();
        Self {
            room: context.saturating_sub(edges.as_ref().map_or(0, |edges| edges.len(false))),
            edges,
            between: between.into_iter().map(|id| id as i32).collect(),
        }
    }

    /// The rows in one text, cut to its room.
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

    /// Encoded rows, each with its class, as the examples of a split, and how many of these have a row that is longer than a
    /// text by itself.
    ///
    /// # Errors
    /// A held-out split without a row.
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
                // A class of few rows has one text all the same.
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

    /// How many of the rows fill a text, and whether they do.
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

/// Training texts, drawn anew each time.
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
