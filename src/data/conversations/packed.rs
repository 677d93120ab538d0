//! Training rows that pack several whole conversations, hidden from each other.

use super::encoded::Encoded;
use crate::data::{Item, Source, TextItem};
use crate::error::Result;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A source of packed training rows.
struct Packed {
    all: Vec<Encoded>,
    /// Indices of the conversations in each row.
    rows: Vec<Vec<usize>>,
}

/// Packs conversations into rows of at most `context` tokens.
pub(super) fn source(all: Vec<Encoded>, context: usize) -> Arc<dyn Source> {
    let lengths: Vec<usize> = all.iter().map(Encoded::len).collect();
    Arc::new(Packed {
        rows: best_fit_decreasing(&lengths, context),
        all,
    })
}

/// Assigns texts of the given lengths to rows: the longest first, each into the fullest row that has room for
/// it (best fit decreasing; Johnson 1973; Ding et al., arXiv:2404.10830, pack documents this way).
fn best_fit_decreasing(lengths: &[usize], context: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(lengths[*at]));
    let mut rows: Vec<Vec<usize>> = Vec::new();
    // Rows by the room left in them.
    let mut open: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in order {
        let length = lengths[at];
        let room = open.range(length..).next().map(|(room, _)| *room);
        let found = room.and_then(|room| {
            let with = open.get_mut(&room)?;
            let row = with.pop()?;
            if with.is_empty() {
                open.remove(&room);
            }
            Some((room, row))
        });
        let (room, row) = found.unwrap_or_else(|| {
            rows.push(Vec::new());
            (context, rows.len() - 1)
        });
        rows[row].push(at);
        open.entry(room - length).or_default().push(row);
    }
    rows
}

/// Concatenates texts into one row, hidden from each other as documents 1, 2 and so on.
pub(in crate::data) fn pack_row<'a>(texts: impl Iterator<Item = &'a Encoded>) -> TextItem {
    let mut item = TextItem::default();
    let mut documents = Vec::new();
    // Document 0 would continue the text before the row.
    for (number, text) in (1..).zip(texts) {
        let text = text.item();
        documents.resize(documents.len() + text.inputs.len(), number);
        item.inputs.extend(text.inputs);
        item.targets.extend(text.targets);
    }
    item.documents = Some(documents);
    item
}

impl Source for Packed {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let row = self.rows[sample as usize].iter();
        Ok(Item::Text(pack_row(row.map(|one| &self.all[*one]))))
    }

    fn size(&self, sample: u64) -> usize {
        let row = self.rows[sample as usize].iter();
        row.map(|one| self.all[*one].len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_filled_with_what_fits_best() {
        let rows = best_fit_decreasing(&[3, 8, 5, 2, 10, 2], 10);
        assert_eq!(rows, [vec![4], vec![1, 5], vec![2, 0, 3]]);
        assert!(best_fit_decreasing(&[], 10).is_empty());
    }

    #[test]
    fn conversations_of_a_row_are_documents() {
        let one = |ids: &[i32], answer: std::ops::Range<usize>| Encoded {
            ids: ids.to_vec(),
            answers: vec![answer],
        };
        let source = source(vec![one(&[1, 2, 3, 4], 2..4), one(&[5, 6, 7], 2..3)], 8);
        assert_eq!(source.len(), 1);
        let item = source.get(0, 0).unwrap().text().unwrap();
        assert_eq!(item.inputs, [1, 2, 3, 5, 6]);
        assert_eq!(item.targets, [-100, 3, 4, -100, 7]);
        assert_eq!(item.documents, Some(vec![1, 1, 1, 2, 2]));
    }
}
