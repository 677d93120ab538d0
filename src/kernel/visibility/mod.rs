//! Which keys a query of attention sees, as structure instead of a tensor of pairs.
//!
//! [`Visibility::hide`] is the one place that says it: the kernels of flex ask it for the rows of a tile, the composed
//! form for whole rows ([`Visibility::dense`]). [`Visibility::ranges`] are the keys of a tile of queries, so that a
//! kernel leaves out tiles of which nothing is seen. Memory grows with the length, never with its square.

mod documents;
mod pattern;

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Bool, Device, Tensor, TensorData};

pub use documents::Documents;
pub use pattern::{Pattern, SeenKeys};

/// The queries and keys of one forward pass: query i stands at position `offset + i`, key j at position `j`.
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
    /// `len` positions that look at each other.
    pub fn of(len: usize) -> Self {
        Self {
            queries: len,
            keys: len,
            offset: 0,
        }
    }

    /// Distances of a key from a query, one for each diagonal of the scores: number `j + queries − 1 − i` belongs to
    /// query i and key j, which stands `j − i − offset` positions after it.
    pub fn distances(self) -> usize {
        (self.queries + self.keys).saturating_sub(1)
    }

    /// How far after its query the key of a diagonal stands.
    pub fn distance(self, diagonal: usize) -> i64 {
        diagonal as i64 - (self.queries + self.offset) as i64 + 1
    }
}

/// Which keys a query sees: those that every rule that is given allows. Without rules it sees all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visibility {
    /// Keys after the query are hidden, but for those of `prefix`.
    pub causal: bool,
    /// Tokens of each row; the keys behind them are padding.
    pub lengths: Option<Arc<[usize]>>,
    /// Keys of other documents than the query's are hidden.
    pub documents: Option<Documents>,
    /// Keys at the start of each row that causality does not hide: a prefix language model's source.
    pub prefix: Option<Arc<[usize]>>,
    /// Keys far from the query are hidden.
    pub window: Option<Window>,
    /// Keys that are not of the pattern are hidden.
    pub pattern: Option<Pattern>,
    /// Positions of each row, ascending, that the task marks as global. They hide nothing by themselves: attention with
    /// global tokens makes a pattern of them.
    pub globals: Option<Globals>,
}

/// Positions of each row, ascending.
pub type Globals = Arc<[Vec<usize>]>;

/// Keys near the query: at `position + m·dilation` for −before ≤ m ≤ after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Keys before the query.
    pub before: usize,
    /// Keys after the query.
    pub after: usize,
    /// Distance between neighbouring keys, for each query head; 1 everywhere when empty.
    pub dilation: Arc<[usize]>,
}

impl Window {
    /// The dilation of a head.
    pub fn step(&self, head: usize) -> usize {
        self.dilation.get(head).copied().unwrap_or(1)
    }

    /// Positions before a query from which some head reads keys.
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
    /// Its position.
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

    /// Every query sees the tokens of its row, of which there are so many.
    pub fn of_lengths(lengths: &[usize]) -> Self {
        Self {
            lengths: Some(lengths.into()),
            ..Self::default()
        }
    }

    /// The rules that are the same at every replay of a step: without documents that each of them has anew.
    pub fn of_every_replay(&self) -> Self {
        let documents = self.documents.clone();
        Self {
            documents: documents.filter(|documents| documents.replayed().is_none()),
            ..self.clone()
        }
    }

    /// The same rules after the first `dropped` keys were left out, and positions are counted from the next.
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
                .map(|rows| moved(rows, |at| at.checked_sub(dropped))),
        }
    }

    /// The keys among which a query sees all but those that documents and dilation hide. Both ends rise with the
    /// query's position.
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

    /// Puts `hidden` where the query does not see a key, into its scores of keys from `from` on; there are `keys` in
    /// all.
    #[inline]
    pub fn hide<T: Copy>(
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
            documents.hide(query, first, scores, hidden);
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
            pattern.hide(query, keys, first, scores, hidden);
        }
    }

    /// The keys of which queries of a row and head at these positions see some; outside of it they see none.
    pub fn hull(
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
            Some(documents) => documents.narrowed(row, positions, hull),
            None => hull,
        }
    }

    /// The keys of which queries of a row and head at these positions see some, as ranges that ascend and do not touch;
    /// outside of them they see none.
    pub fn ranges(
        &self,
        place: [usize; 2],
        positions: Range<usize>,
        keys: usize,
    ) -> Vec<Range<usize>> {
        let hull = self.hull(place, positions.clone(), keys);
        match &self.pattern {
            None if hull.is_empty() => Vec::new(),
            None => vec![hull],
            Some(pattern) => pattern.of_tile(place, positions, keys, hull),
        }
    }

    /// Whether rows differ.
    pub fn by_row(&self) -> bool {
        let pattern = self.pattern.as_ref().is_some_and(Pattern::by_row);
        self.lengths.is_some() || self.documents.is_some() || self.prefix.is_some() || pattern
    }

    /// Whether heads differ.
    pub fn by_head(&self) -> bool {
        let window = self.window.as_ref();
        window.is_some_and(|window| !window.dilation.is_empty())
            || self.pattern.as_ref().is_some_and(Pattern::by_head)
    }

    /// True where a query of `heads` heads does not see a key, `[rows or 1, heads or 1, queries, keys]`; `None` when
    /// every query sees every key. For the composed form, which has all scores in memory anyhow.
    pub fn dense(
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
            all.extend(self.hidden([row, head], &queries, span));
        }
        let data = TensorData::new(all, [rows, heads, span.queries, span.keys]);
        Some(Tensor::from_data(data, device))
    }

    /// True where one of these queries of a row and head does not see a key, row after row.
    pub fn hidden(&self, [row, head]: [usize; 2], queries: &[usize], span: Span) -> Vec<bool> {
        let mut all = vec![false; queries.len() * span.keys];
        for (i, pairs) in queries.iter().zip(all.chunks_mut(span.keys.max(1))) {
            let query = Query {
                row,
                head,
                position: span.offset + i,
            };
            self.hide(query, span.keys, 0, pairs, true);
        }
        all
    }

    /// Whether the rules fit attention of these rows, heads and keys.
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

/// Positions of each row as `place` moves them, without those that it leaves out.
pub(super) fn moved(
    rows: &[Vec<usize>],
    place: impl Fn(usize) -> Option<usize>,
) -> Arc<[Vec<usize>]> {
    let each = rows.iter();
    each.map(|row| row.iter().filter_map(|at| place(*at)).collect())
        .collect()
}
