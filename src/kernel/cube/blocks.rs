//! Attention in blocks of queries, each with the range of keys that its queries see. Memory grows with the length,
//! not with its square, and products that causality or windows would mask are skipped. A call that fits is one block.
//!
//! Dao et al. 2022 (arXiv:2205.14135) also split the keys into tiles, inside one kernel. Here a block has all of its
//! keys at once, so its products are Burn's, which use the tensor cores.

use std::ops::Range;

use crate::kernel::Visibility;

/// Maximum number of scores of a block: 256 MiB.
const MAX_SCORES: usize = 1 << 26;

/// Minimum number of queries of a causal block: smaller blocks would skip more, but in more launches.
const MIN_CAUSAL_QUERIES: usize = 512;

/// Minimum number of queries of a block with a window.
const MIN_WINDOW_QUERIES: usize = 128;

/// Block sizes are multiples of this, so that products have few distinct shapes.
const STEP: usize = 64;

/// A range of queries and the range of keys that contains every key they see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Queries of each head, counted from the first one of the pass.
    pub queries: Range<usize>,
    /// Range of keys; never empty.
    pub keys: Range<usize>,
}

/// Divides attention of the given rows, heads, queries and keys into blocks in ascending order of queries.
pub fn blocks(visible: &Visibility, offset: usize, dims: [usize; 4]) -> Vec<Block> {
    let queries = dims[2];
    // A recording has the same blocks in every replay.
    let visible = &visible.without_replayed_documents();
    let len = queries_of_block(visible, dims);
    let starts = (0..queries).step_by(len);
    starts
        .map(|start| {
            let queries = start..queries.min(start + len);
            let positions = queries.start + offset..queries.end + offset;
            Block {
                queries,
                keys: seen(visible, positions, dims),
            }
        })
        .collect()
}

fn queries_of_block(visible: &Visibility, [rows, heads, queries, keys]: [usize; 4]) -> usize {
    let fits = MAX_SCORES / (rows * heads * keys).max(1);
    let wanted = match &visible.window {
        Some(window) => {
            let widest = window.dilation.iter().copied().max().unwrap_or(1);
            let reach = window.before.saturating_add(window.after);
            reach.saturating_mul(widest).max(MIN_WINDOW_QUERIES)
        }
        None if visible.causal || visible.pattern.is_some() => {
            (queries / 4).max(MIN_CAUSAL_QUERIES)
        }
        None => queries,
    };
    let len = fits.min(wanted);
    let even = len / STEP * STEP;
    if even == 0 { len.max(1) } else { even }
}

/// Returns the range of keys that the queries at these positions see, extended to multiples of [`STEP`].
fn seen(
    visible: &Visibility,
    positions: Range<usize>,
    [rows, heads, _, keys]: [usize; 4],
) -> Range<usize> {
    let rows = if visible.by_row() { rows } else { 1 };
    let heads = if visible.by_head() { heads } else { 1 };
    let places = (0..rows).flat_map(|row| (0..heads).map(move |head| [row, head]));
    let all = places.flat_map(|place| visible.ranges(place, positions.clone(), keys));
    let both = all.reduce(|x, y| x.start.min(y.start)..x.end.max(y.end));
    let both = both.unwrap_or(0..1);
    let end = both.end.next_multiple_of(STEP).min(keys);
    both.start / STEP * STEP..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Window;

    fn of(visible: &Visibility, dims: [usize; 4]) -> Vec<Block> {
        blocks(visible, 0, dims)
    }

    #[test]
    fn a_small_call_is_one_block() {
        let whole = vec![Block {
            queries: 0..256,
            keys: 0..256,
        }];
        assert_eq!(of(&Visibility::causal(), [8, 6, 256, 256]), whole);
        let one = [1, 2, 1, 300];
        let newest = blocks(&Visibility::causal(), 299, one);
        assert_eq!((newest.len(), newest[0].keys.clone()), (1, 0..300));
    }

    #[test]
    fn causality_leaves_keys_out() {
        let blocks = of(&Visibility::causal(), [1, 1, 4096, 4096]);
        let keys: Vec<_> = blocks.iter().map(|block| block.keys.clone()).collect();
        assert_eq!(keys, [0..1024, 0..2048, 0..3072, 0..4096]);
    }

    #[test]
    fn windows_have_as_many_blocks_as_their_length() {
        let window = Window {
            before: 100,
            after: 0,
            dilation: [].into(),
        };
        let visible = Visibility {
            window: Some(window),
            ..Visibility::causal()
        };
        let blocks = of(&visible, [2, 2, 1024, 1024]);
        assert_eq!(blocks.len(), 8);
        assert!(blocks.iter().all(|block| block.keys.len() <= 256));
        assert_eq!(blocks[3].keys, 256..512);
    }

    /// Long inputs hold no more scores at once than short ones, and rows that are all padding still have keys.
    #[test]
    fn scores_are_bounded() {
        for visible in [Visibility::ALL, Visibility::from_lengths(&[0, 0])] {
            for block in of(&visible, [2, 8, 16384, 16384]) {
                assert!(!block.keys.is_empty());
                assert!(16 * block.queries.len() * block.keys.len() <= SCORES);
            }
        }
    }
}
