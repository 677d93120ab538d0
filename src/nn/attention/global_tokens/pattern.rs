//! The pattern of the keys near a query plus those of global tokens.

use crate::kernel::{Globals, KeyPattern, Pattern, Query, Visibility, Window};
use std::ops::Range;

/// The keys of a window and of the global tokens.
#[derive(Debug)]
struct WindowAndGlobals {
    window: Window,
    globals: Globals,
    /// Whether the pattern lets a global token see every key.
    symmetric: bool,
}

impl WindowAndGlobals {
    /// Returns the range from the first to the last key of the window, dilated gaps included.
    fn window_range(&self, query: Query, keys: usize) -> Range<usize> {
        let step = self.window.step(query.head);
        let before = self.window.before.saturating_mul(step);
        let after = self.window.after.saturating_mul(step);
        let end = query.position.saturating_add(after).saturating_add(1);
        let start = query.position.saturating_sub(before);
        start.min(keys)..end.min(keys)
    }

    fn is_global(&self, row: usize, position: usize) -> bool {
        self.globals[row].binary_search(&position).is_ok()
    }
}

impl KeyPattern for WindowAndGlobals {
    fn keys_of_query(&self, query: Query, keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        let Query { row, position, .. } = query;
        if self.symmetric && self.is_global(row, position) {
            return see(0..keys);
        }
        let globals = &self.globals[row];
        let globals = &globals[..globals.partition_point(|at| *at < keys)];
        let near = self.window_range(query, keys);
        let step = self.window.step(query.head);
        let (first, last) = (
            globals.partition_point(|at| *at < near.start),
            globals.partition_point(|at| *at < near.end),
        );
        let mut each = |globals: &[usize]| globals.iter().for_each(|at| see(*at..at + 1));
        each(&globals[..first]);
        if step == 1 {
            if !near.is_empty() {
                see(near);
            }
        } else {
            let dilated = near.filter(|key| key.abs_diff(position).is_multiple_of(step));
            let mut both: Vec<usize> = dilated.chain(globals[first..last].to_vec()).collect();
            both.sort_unstable();
            both.dedup();
            both.into_iter().for_each(|key| see(key..key + 1));
        }
        globals[last..].iter().for_each(|at| see(*at..at + 1));
    }

    fn keys_of_queries(
        &self,
        [row, head]: [usize; 2],
        positions: Range<usize>,
        keys: usize,
        see: &mut dyn FnMut(Range<usize>),
    ) {
        let globals = &self.globals[row];
        let first = globals.partition_point(|at| *at < positions.start);
        let among = globals.get(first).is_some_and(|at| *at < positions.end);
        if positions.is_empty() || self.symmetric && among {
            return see(0..keys);
        }
        let near = |position| {
            let query = Query {
                row,
                head,
                position,
            };
            self.window_range(query, keys)
        };
        see(near(positions.start).start..near(positions.end - 1).end);
        let there = globals.iter().take_while(|at| **at < keys);
        there.for_each(|at| see(*at..at + 1));
    }

    fn by_row(&self) -> bool {
        true
    }

    fn by_head(&self) -> bool {
        !self.window.dilation.is_empty()
    }
}

/// Returns the visibility rules with the window turned into a pattern of near keys and global tokens, if some row has global
/// tokens. `symmetric` says that global tokens see every key by this pattern rather than through separate projections.
pub fn with_global_pattern(visible: Visibility, symmetric: bool) -> Visibility {
    match (visible.globals.clone(), visible.window.clone()) {
        (Some(globals), Some(window)) if globals.iter().any(|row| !row.is_empty()) => Visibility {
            window: None,
            globals: None,
            pattern: Some(Pattern::new(WindowAndGlobals {
                window,
                globals,
                symmetric,
            })),
            ..visible
        },
        _ => visible,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(dilation: &[usize], symmetric: bool) -> WindowAndGlobals {
        WindowAndGlobals {
            window: Window {
                before: 1,
                after: 1,
                dilation: dilation.into(),
            },
            globals: [vec![0, 6], vec![]].into(),
            symmetric,
        }
    }

    fn keys(of: &WindowAndGlobals, row: usize, position: usize) -> Vec<usize> {
        let query = Query {
            row,
            head: 0,
            position,
        };
        let mut all = Vec::new();
        of.keys_of_query(query, 8, &mut |range| {
            assert!(all.last().is_none_or(|last| *last < range.start));
            all.extend(range);
        });
        all
    }

    #[test]
    fn a_query_sees_its_neighbours_and_the_global_tokens() {
        let plain = pattern(&[], false);
        assert_eq!(keys(&plain, 0, 3), [0, 2, 3, 4, 6]);
        assert_eq!(keys(&plain, 0, 5), [0, 4, 5, 6]);
        assert_eq!(keys(&plain, 0, 0), [0, 1, 6]);
        assert_eq!(keys(&plain, 1, 0), [0, 1]);
        let dilated = pattern(&[3], false);
        assert_eq!(keys(&dilated, 0, 3), [0, 3, 6]);
        assert_eq!(keys(&dilated, 0, 4), [0, 1, 4, 6, 7]);
        let symmetric = pattern(&[], true);
        assert_eq!(keys(&symmetric, 0, 6), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(keys(&symmetric, 1, 6), [5, 6, 7]);
    }

    #[test]
    fn keys_of_a_tile_hold_those_of_its_queries() {
        for of in [pattern(&[], false), pattern(&[2], true)] {
            for (row, start) in (0..2).flat_map(|row| (0..6).map(move |start| (row, start))) {
                let mut tile = [false; 8];
                of.keys_of_queries([row, 0], start..start + 3, 8, &mut |range| {
                    tile[range].fill(true);
                });
                for position in start..start + 3 {
                    let seen = keys(&of, row, position);
                    assert!(seen.iter().all(|key| tile[*key]), "{row} {position}");
                }
            }
        }
    }
}
