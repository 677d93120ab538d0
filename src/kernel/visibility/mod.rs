//! Which keys a query sees in attention, described by rules instead of a mask for every query-key pair.
//!
//! [`Visibility::hide`] is the single definition: the flex kernels use it for the rows of a tile, the composed form
//! for whole rows ([`Visibility::dense`]). [`Visibility::ranges`] returns the keys of a tile of queries, so that a
//! kernel can skip tiles in which nothing is seen. Memory grows with the length, never with its square.

mod documents;
mod pattern;

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Bool, Device, Tensor, TensorData};

pub use documents::Documents;
pub use pattern::{KeyPattern, Pattern};

/// The queries and keys of one forward pass: query i is at position `offset + i`, key j at position `j`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of queries.
    pub queries: usize,
    /// Number of keys.
    pub keys: usize,
    /// Position of the first query.
    pub offset: usize,
}

impl Span {
    /// Returns a span of `len` positions that see each other.
    pub fn full(len: usize) -> Self {
        Self {
            queries: len,
            keys: len,
            offset: 0,
        }
    }

    /// Returns the number of distances of a key from a query, one for each diagonal of the scores. Diagonal
    /// `j + queries − 1 − i` belongs to query i and key j, which is `j − i − offset` positions after it.
    pub fn distances(self) -> usize {
        (self.queries + self.keys).saturating_sub(1)
    }

    /// Returns how many positions the key of a diagonal is after its query.
    pub fn distance(self, diagonal: usize) -> i64 {
        diagonal as i64 - (self.queries + self.offset) as i64 + 1
    }
}

/// Which keys a query sees: those that all of the given rules allow. Without rules it sees all keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visibility {
    /// Whether keys after the query are masked, except those of `prefix`.
    pub causal: bool,
    /// Number of tokens of each row; the keys after them are padding.
    pub lengths: Option<Arc<[usize]>>,
    /// Documents: keys of other documents than the query's are masked.
    pub documents: Option<Documents>,
    /// Number of keys at the start of each row that causality does not mask: a prefix language model's source.
    pub prefix: Option<Arc<[usize]>>,
    /// Window: keys far from the query are masked.
    pub window: Option<Window>,
    /// Pattern: keys that are not in the pattern are masked.
    pub pattern: Option<Pattern>,
    /// Positions of each row, in ascending order, that the task marks as global. They mask nothing by themselves:
    /// attention with global tokens turns them into a pattern.
    pub globals: Option<Globals>,
}

/// Positions of each row, in ascending order.
pub type Globals = Arc<[Vec<usize>]>;

/// Keys near the query: at `position + m·dilation` for −before ≤ m ≤ after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Number of keys before the query.
    pub before: usize,
    /// Number of keys after the query.
    pub after: usize,
    /// Distance between adjacent keys, for each query head; 1 everywhere if empty.
    pub dilation: Arc<[usize]>,
}

impl Window {
    /// Returns the dilation of a head.
    pub fn step(&self, head: usize) -> usize {
        self.dilation.get(head).copied().unwrap_or(1)
    }

    /// Returns how many positions before a query any head reads keys from.
    pub fn reach(&self) -> usize {
        let widest = self.dilation.iter().copied().max().unwrap_or(1);
        self.before.saturating_mul(widest)
    }
}

/// A query of one head.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Row of the batch.
    pub row: usize,
    /// Query head.
    pub head: usize,
    /// Position of the query.
    pub position: usize,
}

impl Visibility {
    /// Every query sees every key.
    pub const ALL: Self = Self {
        causal: false,
        lengths: None,
        documents: None,
        prefix: None,
        window: None,
        pattern: None,
        globals: None,
    };

    /// Every query sees itself and the keys before it.
    pub fn causal() -> Self {
        Self {
            causal: true,
            ..Self::default()
        }
    }

    /// Every query sees the first `lengths` tokens of its row.
    pub fn from_lengths(lengths: &[usize]) -> Self {
        Self {
            lengths: Some(lengths.into()),
            ..Self::default()
        }
    }

    /// Returns the rules that are the same in every replay of a step: without documents that differ between replays.
    pub fn without_replayed_documents(&self) -> Self {
        let documents = self.documents.clone();
        Self {
            documents: documents.filter(|documents| documents.replayed().is_none()),
            ..self.clone()
        }
    }

    /// Returns the same rules after the first `dropped` keys were removed, with positions counted from the next key.
    pub fn without_first(&self, dropped: usize) -> Self {
        if dropped == 0 {
            return self.clone();
        }
        let less = |all: &Arc<[usize]>| all.iter().map(|x| x.saturating_sub(dropped)).collect();
        let documents = self.documents.as_ref().map(|documents| {
            let rows = 0..documents.dims()[0];
            let kept: Vec<i32> = rows
                .flat_map(|row| documents.row(row)[dropped..].to_vec())
                .collect();
            Documents::new(&kept, documents.keys - dropped)
        });
        Self {
            causal: self.causal,
            lengths: self.lengths.as_ref().map(less),
            documents,
            prefix: self.prefix.as_ref().map(less),
            window: self.window.clone(),
            pattern: self.pattern.as_ref().map(|p| p.without_first(dropped)),
            globals: self
                .globals
                .as_ref()
                .map(|rows| map_positions(rows, |at| at.checked_sub(dropped))),
        }
    }

    /// Returns the range of keys in which a query sees all keys except those masked by documents, dilation or a
    /// pattern. Both ends increase with the query's position.
    #[inline]
    fn range(&self, query: Query, keys: usize) -> Range<usize> {
        let (mut start, mut end) = (0, keys);
        if self.causal {
            let prefix = self.prefix.as_ref().map_or(0, |prefix| prefix[query.row]);
            end = end.min(prefix.max(query.position + 1));
        }
        if let Some(lengths) = &self.lengths {
            end = end.min(lengths[query.row]);
        }
        if let Some(window) = &self.window {
            let step = window.step(query.head);
            let reach = |count: usize| count.saturating_mul(step);
            start = query.position.saturating_sub(reach(window.before));
            let after = query.position.saturating_add(reach(window.after));
            end = end.min(after.saturating_add(1));
        }
        start.min(end)..end
    }

    /// Writes `hidden` to a query's scores of keys that it does not see. `scores` starts at key `from`; there are
    /// `keys` keys in all.
    #[inline]
    pub fn mask_scores<T: Copy>(
        &self,
        query: Query,
        keys: usize,
        from: usize,
        scores: &mut [T],
        hidden: T,
    ) {
        let seen = self.range(query, keys);
        let inside = |key: usize| key.clamp(from, from + scores.len()) - from;
        let (start, end) = (inside(seen.start), inside(seen.end));
        scores[..start].fill(hidden);
        scores[end..].fill(hidden);
        let (first, scores) = (from + start, &mut scores[start..end]);
        if let Some(documents) = &self.documents {
            documents.mask_scores(query, first, scores, hidden);
        }
        let step = self.window.as_ref().map_or(1, |w| w.step(query.head));
        if step > 1 {
            let skipped = |key: usize| !key.abs_diff(query.position).is_multiple_of(step);
            let each = (first..)
                .zip(scores.iter_mut())
                .filter(|(key, _)| skipped(*key));
            each.for_each(|(_, score)| *score = hidden);
        }
        if let Some(pattern) = &self.pattern {
            pattern.mask_scores(query, keys, first, scores, hidden);
        }
    }

    /// Returns one range that contains every key seen by the queries of a row and head at these positions.
    pub fn enclosing_range(
        &self,
        [row, head]: [usize; 2],
        positions: Range<usize>,
        keys: usize,
    ) -> Range<usize> {
        let range = |position| {
            self.range(
                Query {
                    row,
                    head,
                    position,
                },
                keys,
            )
        };
        let (first, last) = (range(positions.start), range(positions.end - 1));
        let hull = first.start.min(last.end)..last.end;
        match &self.documents {
            Some(documents) => documents.narrow(row, positions, hull),
            None => hull,
        }
    }

    /// Returns ranges, ascending and not adjacent, that contain every key seen by the queries of a row and head at
    /// these positions.
    pub fn ranges(
        &self,
        place: [usize; 2],
        positions: Range<usize>,
        keys: usize,
    ) -> Vec<Range<usize>> {
        let hull = self.enclosing_range(place, positions.clone(), keys);
        match &self.pattern {
            None if hull.is_empty() => Vec::new(),
            None => vec![hull],
            Some(pattern) => pattern.ranges_of_tile(place, positions, keys, hull),
        }
    }

    /// Returns whether the rules differ between rows.
    pub fn by_row(&self) -> bool {
        let pattern = self.pattern.as_ref().is_some_and(Pattern::by_row);
        self.lengths.is_some() || self.documents.is_some() || self.prefix.is_some() || pattern
    }

    /// Returns whether the rules differ between heads.
    pub fn by_head(&self) -> bool {
        let window = self.window.as_ref();
        window.is_some_and(|window| !window.dilation.is_empty())
            || self.pattern.as_ref().is_some_and(Pattern::by_head)
    }

    /// Returns true where a query does not see a key, `[rows or 1, heads or 1, queries, keys]`; `None` if every query
    /// sees every key. It is for the composed form, which holds all scores in memory anyway.
    pub fn dense_mask(
        &self,
        [rows, heads]: [usize; 2],
        span: Span,
        device: &Device,
    ) -> Option<Tensor<4, Bool>> {
        if *self == Self::default() {
            return None;
        }
        let rows = if self.by_row() { rows } else { 1 };
        let heads = if self.by_head() { heads } else { 1 };
        let queries: Vec<usize> = (0..span.queries).collect();
        let mut all = Vec::with_capacity(rows * heads * span.queries * span.keys);
        for (row, head) in (0..rows).flat_map(|row| (0..heads).map(move |head| (row, head))) {
            all.extend(self.mask_of_queries([row, head], &queries, span));
        }
        let data = TensorData::new(all, [rows, heads, span.queries, span.keys]);
        Some(Tensor::from_data(data, device))
    }

    /// Returns true where one of these queries of a row and head does not see a key, row after row.
    pub fn mask_of_queries(
        &self,
        [row, head]: [usize; 2],
        queries: &[usize],
        span: Span,
    ) -> Vec<bool> {
        let mut all = vec![false; queries.len() * span.keys];
        for (i, pairs) in queries.iter().zip(all.chunks_mut(span.keys.max(1))) {
            let query = Query {
                row,
                head,
                position: span.offset + i,
            };
            self.mask_scores(query, span.keys, 0, pairs, true);
        }
        all
    }

    /// Returns whether the rules fit attention of these numbers of rows, heads and keys.
    pub(super) fn fits(&self, [rows, heads]: [usize; 2], keys: usize) -> bool {
        let each = |all: &Option<Arc<[usize]>>| all.as_ref().is_none_or(|all| all.len() == rows);
        let documents = self.documents.as_ref();
        let window = self.window.as_ref();
        each(&self.lengths)
            && each(&self.prefix)
            && documents.is_none_or(|d| d.dims() == [rows, keys])
            && window.is_none_or(|w| w.dilation.is_empty() || w.dilation.len() == heads)
    }
}

/// Maps the positions of each row by `place`, dropping those for which it returns `None`.
pub(super) fn map_positions(
    rows: &[Vec<usize>],
    place: impl Fn(usize) -> Option<usize>,
) -> Arc<[Vec<usize>]> {
    let each = rows.iter();
    each.map(|row| row.iter().filter_map(|at| place(*at)).collect())
        .collect()
}
