//! Patterns: the keys that a query sees as ranges, for attention that skips most keys.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use super::Query;

/// A kind of attention that determines which keys its queries see.
pub trait KeyPattern: Debug + Send + Sync {
    /// Calls `see` with the ranges of keys, of `keys` in all, that a query sees, ascending and without overlap. They
    /// may contain keys that other rules mask, such as causality.
    fn keys_of_query(&self, query: Query, keys: usize, see: &mut dyn FnMut(Range<usize>));

    /// Calls `see` with ranges, in any order, that contain all keys seen by the queries of a row and head at
    /// consecutive positions.
    fn keys_of_queries(
        &self,
        [row, head]: [usize; 2],
        positions: Range<usize>,
        keys: usize,
        see: &mut dyn FnMut(Range<usize>),
    ) {
        for position in positions {
            let query = Query {
                row,
                head,
                position,
            };
            self.keys_of_query(query, keys, see);
        }
    }

    /// Returns whether rows differ.
    fn by_row(&self) -> bool {
        false
    }

    /// Returns whether heads differ.
    fn by_head(&self) -> bool {
        false
    }
}

/// A pattern over keys, of which the first may have been removed or which may follow keys of earlier segments.
#[derive(Clone, Debug)]
pub struct Pattern {
    of: Arc<dyn KeyPattern>,
    /// Number of keys removed before the first present one.
    dropped: usize,
    /// Number of keys of earlier segments before those that the pattern counts.
    earlier: usize,
    /// Whether every query sees the keys of earlier segments; otherwise the pattern masks them.
    sees_earlier: bool,
}

/// Patterns are equal if they are the same object.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        let places = (self.dropped, self.earlier) == (other.dropped, other.earlier);
        places && Arc::ptr_eq(&self.of, &other.of)
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Creates the pattern of a kind of attention.
    pub fn new(of: impl KeyPattern + 'static) -> Self {
        Self {
            of: Arc::new(of),
            dropped: 0,
            earlier: 0,
            sees_earlier: false,
        }
    }

    /// Creates the pattern of a kind of attention that masks no keys of earlier segments.
    pub fn with_earlier(of: impl KeyPattern + 'static) -> Self {
        Self {
            sees_earlier: true,
            ..Self::new(of)
        }
    }

    /// Returns the same pattern after the first `dropped` keys were removed.
    #[must_use]
    pub fn without_first(&self, dropped: usize) -> Self {
        Self {
            dropped: self.dropped + dropped.saturating_sub(self.earlier),
            earlier: self.earlier.saturating_sub(dropped),
            ..self.clone()
        }
    }

    /// Returns the same pattern after `earlier` keys of earlier segments.
    #[must_use]
    pub fn after_earlier(&self, earlier: usize) -> Self {
        let gone = self.dropped.min(earlier);
        Self {
            dropped: self.dropped - gone,
            earlier: self.earlier + earlier - gone,
            ..self.clone()
        }
    }

    /// Returns whether rows differ.
    pub fn by_row(&self) -> bool {
        self.of.by_row()
    }

    /// Returns whether heads differ.
    pub fn by_head(&self) -> bool {
        self.of.by_head()
    }

    /// Returns the keys of earlier segments, if every query sees them.
    fn seen_earlier(&self) -> Option<Range<usize>> {
        (self.sees_earlier && self.earlier > 0).then_some(0..self.earlier)
    }

    /// Converts a present position to the kind's own count.
    fn to_pattern_position(&self, position: usize) -> usize {
        position + self.dropped - self.earlier
    }

    /// Converts keys in the kind's own count to present keys.
    fn to_present_keys(&self, keys: &Range<usize>) -> Range<usize> {
        let place = |key: usize| (key + self.earlier).saturating_sub(self.dropped);
        place(keys.start)..place(keys.end)
    }

    /// Calls `see` with the ascending ranges of keys, of `keys` in all, that a query sees.
    pub fn for_each_range(&self, query: Query, keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        let query = Query {
            position: self.to_pattern_position(query.position),
            ..query
        };
        if let Some(earlier) = self.seen_earlier() {
            see(earlier);
        }
        let mut at_hand = |seen: Range<usize>| see(self.to_present_keys(&seen));
        self.of
            .keys_of_query(query, self.to_pattern_position(keys), &mut at_hand);
    }

    /// Writes `hidden` to a query's scores of keys that it does not see; `scores` starts at key `from`.
    pub(super) fn mask_scores<T: Copy>(
        &self,
        query: Query,
        keys: usize,
        from: usize,
        scores: &mut [T],
        hidden: T,
    ) {
        let (mut done, to) = (0, from + scores.len());
        self.for_each_range(query, keys, &mut |seen| {
            let [start, end] = [seen.start, seen.end].map(|key| key.clamp(from, to) - from);
            if start > done {
                scores[done..start].fill(hidden);
            }
            done = done.max(end);
        });
        scores[done..].fill(hidden);
    }

    /// Returns ascending, non-adjacent ranges that contain the keys of `hull` that the queries see.
    pub(super) fn ranges_of_tile(
        &self,
        place: [usize; 2],
        positions: Range<usize>,
        keys: usize,
        hull: Range<usize>,
    ) -> Vec<Range<usize>> {
        let within = |seen: Range<usize>| seen.start.max(hull.start)..seen.end.min(hull.end);
        let earlier = self.seen_earlier().map(within);
        let mut all: Vec<Range<usize>> = earlier
            .filter(|seen| !seen.is_empty())
            .into_iter()
            .collect();
        let positions =
            self.to_pattern_position(positions.start)..self.to_pattern_position(positions.end);
        self.of.keys_of_queries(
            place,
            positions,
            self.to_pattern_position(keys),
            &mut |seen| {
                let seen = within(self.to_present_keys(&seen));
                if seen.is_empty() {
                    return;
                }
                match all.last_mut() {
                    // Adjacent queries see nearly the same keys.
                    Some(last) if last.start <= seen.start && seen.start <= last.end => {
                        last.end = last.end.max(seen.end);
                    }
                    _ => all.push(seen),
                }
            },
        );
        merge_ranges(all)
    }
}

/// Sorts ranges and merges those that touch.
fn merge_ranges(mut all: Vec<Range<usize>>) -> Vec<Range<usize>> {
    all.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(all.len());
    for range in all {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every third key, and the query's own.
    #[derive(Debug)]
    struct Thirds;

    impl KeyPattern for Thirds {
        fn keys_of_query(&self, query: Query, keys: usize, see: &mut dyn FnMut(Range<usize>)) {
            for key in 0..keys {
                if key % 3 == 0 || key == query.position {
                    see(key..key + 1);
                }
            }
        }
    }

    fn seen(pattern: &Pattern, position: usize, keys: usize, part: Range<usize>) -> Vec<usize> {
        let query = Query {
            row: 0,
            head: 0,
            position,
        };
        let mut hidden = vec![false; part.len()];
        pattern.mask_scores(query, keys, part.start, &mut hidden, true);
        part.clone()
            .filter(|key| !hidden[key - part.start])
            .collect()
    }

    #[test]
    fn keys_count_from_the_first_at_hand() {
        let pattern = Pattern::new(Thirds);
        assert_eq!(seen(&pattern, 4, 8, 0..8), [0, 3, 4, 6]);
        // Positions 2, 3, … become 0, 1, …
        assert_eq!(seen(&pattern.without_first(2), 2, 6, 0..6), [1, 2, 4]);
        // Two keys of earlier segments come first.
        assert_eq!(seen(&pattern.after_earlier(2), 6, 10, 0..10), [2, 5, 6, 8]);
        let back = pattern.after_earlier(2).without_first(2);
        assert_eq!(back, pattern);
        let all = Pattern::with_earlier(Thirds);
        assert_eq!(seen(&all, 4, 8, 0..8), [0, 3, 4, 6]);
        assert_eq!(
            seen(&all.after_earlier(2), 6, 10, 0..10),
            [0, 1, 2, 5, 6, 8]
        );
        assert_eq!(
            seen(&all.after_earlier(2).without_first(1), 5, 9, 0..9),
            [0, 1, 4, 5, 7]
        );
        assert_eq!(
            all.after_earlier(2).ranges_of_tile([0, 0], 6..7, 10, 1..6),
            [1..3, 5..6]
        );
    }

    #[test]
    fn ranges_of_a_tile_are_joined() {
        let pattern = Pattern::new(Thirds);
        let ranges = pattern.ranges_of_tile([0, 0], 3..5, 9, 0..9);
        assert_eq!(ranges, [0..1, 3..5, 6..7]);
        let inside = pattern.ranges_of_tile([0, 0], 3..5, 9, 1..4);
        assert!(inside.len() == 1 && inside[0] == (3..4));
    }
}
