//! The order in which the tokens of texts are predicted, and the keys that each stream can attend to in this order.
//!
//! Context tokens have no rank in the order: every token attends to them, and they attend only to each other. A
//! predicted token is visible to the tokens after it in the order. Its query attends to the context and to the tokens
//! before it, and its token state also attends to itself (Yang et al. 2019, section 2.3, with all of the context before
//! the first target, as in the released code). Both streams attend to all that a memory holds of earlier rows.

use crate::data::batch::TextBatch;
use crate::kernel::{KeyPattern, Pattern, Query};
use crate::nn::pass::Pass;
use crate::rng::Purpose;
use std::ops::Range;

/// Ranks of the tokens in the orders of some rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactorizationOrder {
    /// 0 for tokens of the context, otherwise the rank in the order, counted from 1; `[rows, cols]`.
    ranks: Vec<u32>,
    cols: usize,
}

/// The visible keys of each query, as ascending ranges.
#[derive(Debug)]
struct VisibleKeys {
    /// Keys of the context tokens, one entry per row.
    context: Vec<Vec<Range<usize>>>,
    /// Keys of each predicted token, `[rows, cols]`; `None` for tokens of the context.
    ranked: Vec<Option<Vec<Range<usize>>>>,
    cols: usize,
    /// Whether tokens of the context have visible keys themselves.
    context_looks: bool,
}

impl FactorizationOrder {
    /// Builds the order of rows of `cols` tokens from their ranks, with 0 for tokens of the context. Tokens with the
    /// same rank do not see each other.
    pub fn new(ranks: Vec<u32>, cols: usize) -> Self {
        assert!(
            cols > 0 && ranks.len().is_multiple_of(cols),
            "whole rows of places"
        );
        Self { ranks, cols }
    }

    /// Draws an order of the scored tokens of each row: a function of (seed, step, row of the step's batch).
    pub fn draw(texts: &TextBatch, pass: &Pass) -> Self {
        let cols = texts.cols.max(1);
        let mut ranks = vec![0; texts.targets.len()];
        let rows = texts.targets.chunks(cols).zip(ranks.chunks_mut(cols));
        for (row, (targets, ranks)) in rows.enumerate() {
            let mut stream = pass.stream(Purpose::Sampled, row);
            let mut scored: Vec<usize> = (0..targets.len()).filter(|i| targets[*i] >= 0).collect();
            for (number, rank) in (1..).zip(0..scored.len()) {
                let other = rank + stream.below((scored.len() - rank) as u64) as usize;
                scored.swap(rank, other);
                ranks[scored[rank]] = number;
            }
        }
        Self::new(ranks, cols)
    }

    /// Returns the order in which the tokens at some positions, counted through all rows, are each predicted from the
    /// context only.
    pub fn from_positions(tokens: usize, cols: usize, places: &[i32]) -> Self {
        let mut ranks = vec![0; tokens];
        for place in places {
            ranks[*place as usize] = 1;
        }
        Self::new(ranks, cols)
    }

    /// Returns the keys that the token stream can attend to: a predicted token sees itself.
    pub fn content_stream(&self) -> Pattern {
        Pattern::with_earlier(self.visible_keys(true))
    }

    /// Returns the keys that the query stream can attend to: none for tokens of the context, since their queries are
    /// never read.
    pub fn query_stream(&self) -> Pattern {
        Pattern::with_earlier(self.visible_keys(false))
    }

    fn visible_keys(&self, tokens: bool) -> VisibleKeys {
        let seen = |row: &[u32], query: Option<usize>| {
            let sees = |key: usize| match query {
                None => row[key] == 0,
                Some(at) => row[key] == 0 || row[key] < row[at] || (tokens && key == at),
            };
            ranges((0..row.len()).map(sees))
        };
        let mut context = Vec::new();
        let mut ranked = Vec::with_capacity(self.ranks.len());
        for row in self.ranks.chunks(self.cols) {
            context.push(seen(row, None));
            ranked.extend((0..row.len()).map(|at| (row[at] > 0).then(|| seen(row, Some(at)))));
        }
        VisibleKeys {
            context,
            ranked,
            cols: self.cols,
            context_looks: tokens,
        }
    }
}

/// Returns the positions at which `holds` is true, as ranges.
fn ranges(holds: impl Iterator<Item = bool>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for (at, _) in holds.enumerate().filter(|(_, holds)| *holds) {
        match all.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => all.push(at..at + 1),
        }
    }
    all
}

impl KeyPattern for VisibleKeys {
    fn keys_of_query(&self, query: Query, keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        let own = self.ranked.get(query.row * self.cols + query.position);
        let seen = match own {
            Some(Some(own)) => own,
            Some(None) if self.context_looks => &self.context[query.row],
            Some(None) | None => return,
        };
        for range in seen {
            see(range.start.min(keys)..range.end.min(keys));
        }
    }

    fn by_row(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Span, Visibility};

    /// Returns the hidden keys of each query.
    fn hidden(pattern: Pattern, tokens: usize) -> Vec<Vec<bool>> {
        let visible = Visibility {
            pattern: Some(pattern),
            ..Visibility::default()
        };
        let queries: Vec<usize> = (0..tokens).collect();
        let all = visible.mask_of_queries([0, 0], &queries, Span::full(tokens));
        all.chunks(tokens).map(<[bool]>::to_vec).collect()
    }

    #[test]
    fn a_query_sees_the_context_and_what_comes_before_it() {
        // Position 3 is predicted before 1.
        let order = FactorizationOrder::new(vec![0, 2, 0, 1], 4);
        let sees = |pattern| -> Vec<Vec<usize>> {
            let rows = hidden(pattern, 4).into_iter();
            rows.map(|row| (0..4).filter(|key| !row[*key]).collect())
                .collect()
        };
        let of_tokens: [Vec<usize>; 4] = [vec![0, 2], vec![0, 1, 2, 3], vec![0, 2], vec![0, 2, 3]];
        assert_eq!(sees(order.content_stream()), of_tokens);
        let of_queries: [Vec<usize>; 4] = [vec![], vec![0, 2, 3], vec![], vec![0, 2]];
        assert_eq!(sees(order.query_stream()), of_queries);
        // Masks are predicted from the context only.
        let alone = FactorizationOrder::from_positions(4, 4, &[1, 3]);
        let of_queries: [Vec<usize>; 4] = [vec![], vec![0, 2], vec![], vec![0, 2]];
        assert_eq!(sees(alone.query_stream()), of_queries);
    }

    #[test]
    fn the_scored_tokens_of_a_row_have_an_order() {
        let texts = TextBatch {
            inputs: vec![5; 12],
            targets: vec![-1, 7, 7, -1, 7, 7, 7, 7, 7, 7, -1, -1],
            cols: 6,
            ..TextBatch::default()
        };
        let order = FactorizationOrder::draw(&texts, &Pass::evaluation());
        for (row, scored) in order.ranks.chunks(6).zip([4, 4]) {
            let mut places: Vec<u32> = row.iter().copied().filter(|rank| *rank > 0).collect();
            places.sort_unstable();
            assert_eq!(places, (1..=scored).collect::<Vec<u32>>());
        }
        assert_eq!(order.ranks[0], 0);
        assert_eq!(order, FactorizationOrder::draw(&texts, &Pass::evaluation()));
    }
}
