//! Keys of earlier segments in front of those of a pass (Dai et al. 2019, Transformer-XL, section 3.2), expressed as
//! visibility: they are additional positions in front, of which each row may see some of the newest.

use std::iter::repeat_n;
use std::sync::Arc;

use super::recurrent::Sequences;
use super::visibility::{Documents, Visibility, map_positions};

/// Document number of keys that no query sees; no query's document has this number.
const UNSEEN_DOCUMENT: i32 = i32::MIN;

impl Visibility {
    /// Returns the same rules for `keys` positions that follow `earlier` positions of earlier segments. Row `i` sees
    /// the `open[i]` newest of these: they belong to the document [`Sequences::CONTINUED`].
    #[must_use]
    pub fn after_earlier_segments(&self, earlier: usize, open: &[usize], keys: usize) -> Self {
        let more = |all: &Arc<[usize]>| all.iter().map(|x| x + earlier).collect();
        let whole = open.iter().all(|open| *open == earlier);
        let documents = match &self.documents {
            None if whole => None,
            documents => {
                let mut numbers = Vec::with_capacity(open.len() * (earlier + keys));
                for (row, open) in open.iter().enumerate() {
                    numbers.extend(repeat_n(UNSEEN_DOCUMENT, earlier - open));
                    numbers.extend(repeat_n(Sequences::CONTINUED, *open));
                    match documents {
                        Some(documents) => numbers.extend_from_slice(documents.row(row)),
                        None => numbers.extend(repeat_n(Sequences::CONTINUED, keys)),
                    }
                }
                Some(Documents::new(&numbers, earlier + keys))
            }
        };
        Self {
            causal: self.causal,
            lengths: self.lengths.as_ref().map(more),
            documents,
            prefix: self.prefix.as_ref().map(more),
            window: self.window.clone(),
            pattern: self.pattern.as_ref().map(|p| p.after_earlier(earlier)),
            globals: self
                .globals
                .as_ref()
                .map(|rows| map_positions(rows, |at| Some(at + earlier))),
        }
    }

    /// Returns for each row how many positions at its end, earlier segments included, the next segment may see: those
    /// of the last document, which has not ended. The row has `keys` positions and saw `open` earlier ones.
    pub fn visible_to_next_segment(&self, open: &[usize], keys: usize) -> Vec<usize> {
        let each = open.iter().enumerate().map(|(row, open)| {
            let lengths = self.lengths.as_ref();
            let length = lengths.map_or(keys, |lengths| lengths[row].min(keys));
            let Some(documents) = &self.documents else {
                return open + length;
            };
            let numbers = &documents.row(row)[..length];
            let Some(last) = numbers.last() else {
                return *open;
            };
            let newest = numbers.iter().rev().take_while(|number| *number == last);
            match newest.count() {
                all if all == length && *last == Sequences::CONTINUED => open + length,
                some => some,
            }
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Span;

    #[test]
    fn a_row_sees_the_open_ones_of_the_keys_in_front() {
        let visible = Visibility::causal();
        assert_eq!(
            visible.after_earlier_segments(3, &[3, 3], 2).documents,
            None
        );
        let behind = visible.after_earlier_segments(3, &[0, 2], 2);
        let span = Span {
            queries: 2,
            keys: 5,
            offset: 3,
        };
        let hidden = |row| behind.mask_of_queries([row, 0], &[0, 1], span);
        let (x, o) = (true, false);
        assert_eq!(hidden(0), [x, x, x, o, x, x, x, x, o, o]);
        assert_eq!(hidden(1), [x, o, o, o, x, x, o, o, o, o]);
    }

    #[test]
    fn the_document_at_the_end_stays_open() {
        let rows = [[0, 0, 0], [0, 1, 1], [1, 1, 1], [0, 0, 1]];
        let numbers: Vec<i32> = rows.into_iter().flatten().collect();
        let mut visible = Visibility {
            documents: Some(Documents::new(&numbers, 3)),
            ..Visibility::causal()
        };
        assert_eq!(visible.visible_to_next_segment(&[5; 4], 3), [8, 2, 3, 1]);
        visible.lengths = Some([3, 1, 0, 2].into());
        assert_eq!(visible.visible_to_next_segment(&[5; 4], 3), [8, 6, 5, 7]);
        visible.documents = None;
        assert_eq!(
            visible.visible_to_next_segment(&[5, 0, 0, 1], 3),
            [8, 1, 0, 3]
        );
        // The open positions belong to the open document; queries of other documents see none of them.
        visible.documents = Some(Documents::new(&numbers, 3));
        visible.lengths = None;
        let span = Span {
            queries: 3,
            keys: 5,
            offset: 2,
        };
        let hidden = visible.after_earlier_segments(2, &[2, 1, 2, 0], 3);
        let (x, o) = (true, false);
        let second = [x, o, o, x, x, x, x, x, o, x, x, x, x, o, o];
        assert_eq!(hidden.mask_of_queries([1, 0], &[0, 1, 2], span), second);
        let third = [x, x, o, x, x, x, x, o, o, x, x, x, o, o, o];
        assert_eq!(hidden.mask_of_queries([2, 0], &[0, 1, 2], span), third);
    }
}
