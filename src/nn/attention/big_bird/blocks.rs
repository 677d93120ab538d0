//! The blocks that each block of BigBird's queries sees: neighbours, the first and the last block, and random ones.

use super::super::{AttentionInputs, KeyWeighing};
use crate::kernel::{KeyPattern, Query};
use crate::nn::layer::LayerContext;
use crate::rng::{Purpose, Stream};
use burn::tensor::Tensor;
use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

/// Returns the largest number of blocks of a text that is read whole, for `random` random blocks.
pub(super) fn max_dense_blocks(random: usize) -> usize {
    random.saturating_mul(2).saturating_add(5)
}

/// Attention of blocks of queries to neighbouring, global and random blocks.
#[derive(Clone, Debug)]
pub struct BlockSparse {
    block: usize,
    random: Random,
}

/// Source of the random blocks.
#[derive(Clone, Debug)]
enum Random {
    Drawn {
        number: usize,
        seed: u64,
        layer: usize,
    },
    Given(Arc<[Vec<Vec<usize>>]>),
}

impl BlockSparse {
    /// Creates a layout with blocks of `block` positions and `number` random blocks, drawn from a seed and a layer.
    pub(super) fn drawn(block: usize, number: usize, seed: u64, layer: usize) -> Self {
        let random = Random::Drawn {
            number,
            seed,
            layer,
        };
        Self { block, random }
    }

    /// Creates a layout with blocks of `block` positions and given random blocks: for each head and each block of queries of a
    /// padded batch, whatever the lengths of its rows. Tests use it to reproduce another program's draws.
    pub fn given(block: usize, random: &[Vec<Vec<usize>>]) -> Self {
        Self {
            block,
            random: Random::Given(random.into()),
        }
    }

    /// Computes the blocks that each block of queries sees in a text of `positions` positions.
    fn text_blocks(&self, positions: usize, heads: usize) -> TextBlocks {
        let blocks = positions.div_ceil(self.block).max(1);
        let random = |head: usize, block: usize| match &self.random {
            Random::Given(random) => random[head][block].clone(),
            Random::Drawn {
                number,
                seed,
                layer,
            } => {
                let head_and_block = (*layer as u64, head as u64, block as u64);
                let mut stream = Stream::new(*seed, Purpose::Blocks, head_and_block);
                drawn(block, blocks, *number, &mut stream)
            }
        };
        let all = match &self.random {
            Random::Given(_) => false,
            Random::Drawn { number, .. } => blocks <= max_dense_blocks(*number),
        };
        let of_block = |head: usize, block: usize| {
            if all || block == 0 || block + 1 == blocks {
                return iter::once(0..blocks).collect();
            }
            let mut seen = random(head, block);
            seen.extend([0, block - 1, block, block + 1, blocks - 1]);
            seen.sort_unstable();
            let mut ranges: Vec<Range<usize>> = Vec::new();
            for block in seen {
                match ranges.last_mut() {
                    Some(last) if block <= last.end => last.end = last.end.max(block + 1),
                    _ => ranges.push(block..block + 1),
                }
            }
            ranges
        };
        let of_head = |head| (0..blocks).map(|block| of_block(head, block)).collect();
        TextBlocks {
            seen: (0..heads).map(of_head).collect(),
        }
    }
}

/// Draws `number` different blocks of `blocks` that are neither neighbours of `block` nor global, or all such blocks if there are
/// fewer.
fn drawn(block: usize, blocks: usize, number: usize, stream: &mut Stream) -> Vec<usize> {
    let mut others = vec![0, block - 1, block, block + 1, blocks - 1];
    others.sort_unstable();
    others.dedup();
    let free = blocks - others.len();
    let number = number.min(free);
    let mut chosen: Vec<usize> = Vec::with_capacity(number);
    // Floyd's sampling: every set of numbers below `free` is equally likely.
    for last in free - number..free {
        let one = stream.below(last as u64 + 1) as usize;
        chosen.push(if chosen.contains(&one) { last } else { one });
    }
    let place = |one: usize| {
        let passed = others.iter();
        passed.fold(one, |at, other| at + usize::from(at >= *other))
    };
    chosen.into_iter().map(place).collect()
}

/// The blocks that each block of queries of a text sees.
#[derive(Debug)]
struct TextBlocks {
    /// Ranges of blocks, by head and block of queries.
    seen: Vec<Vec<Vec<Range<usize>>>>,
}

/// The visible keys of a batch's queries.
#[derive(Debug)]
struct SeenBlocks {
    block: usize,
    /// One text for each row, or one for all.
    rows: Vec<Arc<TextBlocks>>,
}

impl SeenBlocks {
    /// Visits the keys that a block of queries sees.
    fn of_block(
        &self,
        [row, head]: [usize; 2],
        block: usize,
        keys: usize,
        see: &mut dyn FnMut(Range<usize>),
    ) {
        let text = &self.rows[if self.rows.len() == 1 { 0 } else { row }];
        let at_hand = |range: Range<usize>| {
            let [start, end] = [range.start, range.end].map(|at| keys.min(at * self.block));
            start..end
        };
        match text.seen[head].get(block) {
            Some(ranges) => ranges.iter().for_each(|range| see(at_hand(range.clone()))),
            // The queries are padding.
            None => see(at_hand(0..1)),
        }
    }
}

impl KeyPattern for SeenBlocks {
    fn keys_of_query(&self, query: Query, keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        let block = query.position / self.block;
        self.of_block([query.row, query.head], block, keys, see);
    }

    fn keys_of_queries(
        &self,
        place: [usize; 2],
        positions: Range<usize>,
        keys: usize,
        see: &mut dyn FnMut(Range<usize>),
    ) {
        let (first, last) = (
            positions.start / self.block,
            (positions.end - 1) / self.block,
        );
        for block in first..=last {
            self.of_block(place, block, keys, see);
        }
    }

    fn by_row(&self) -> bool {
        self.rows.len() > 1
    }

    fn by_head(&self) -> bool {
        true
    }
}

impl KeyWeighing for BlockSparse {
    fn weigh(&self, attended: AttentionInputs, cx: &mut LayerContext) -> Tensor<4> {
        let [_, heads, _, keys, _] = attended.dims();
        let mut known: BTreeMap<usize, Arc<TextBlocks>> = BTreeMap::new();
        let mut of_length = |length: usize| {
            let text = known.entry(length);
            text.or_insert_with(|| Arc::new(self.text_blocks(length, heads)))
                .clone()
        };
        let lengths = attended.positional.visible.lengths.as_deref();
        let rows = match (&self.random, lengths) {
            (Random::Drawn { .. }, Some(lengths)) => {
                let lengths = lengths.iter().map(|length| keys.min(*length));
                lengths.map(&mut of_length).collect()
            }
            _ => vec![of_length(keys)],
        };
        let seen = SeenBlocks {
            block: self.block,
            rows,
        };
        attended.restricted_to(seen).softmax(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing(random: usize, seed: u64, layer: usize) -> BlockSparse {
        BlockSparse::drawn(4, random, seed, layer)
    }

    fn blocks(ranges: &[Range<usize>]) -> Vec<usize> {
        ranges.iter().cloned().flatten().collect()
    }

    #[test]
    fn a_block_sees_neighbours_ends_and_as_many_others_as_asked() {
        let text = drawing(3, 0, 0).text_blocks(4 * 40 - 3, 8);
        for (head, of_head) in text.seen.iter().enumerate() {
            assert_eq!(of_head.len(), 40);
            for (block, ranges) in of_head.iter().enumerate() {
                let seen = blocks(ranges);
                if block == 0 || block == 39 {
                    assert_eq!(seen.len(), 40);
                    continue;
                }
                let mut own = vec![0, block - 1, block, block + 1, 39];
                own.sort_unstable();
                own.dedup();
                assert!(own.iter().all(|own| seen.contains(own)), "{head}, {block}");
                assert_eq!(seen.len(), own.len() + 3, "{head}, {block}");
            }
        }
    }

    #[test]
    fn random_blocks_depend_on_seed_layer_and_head_alone() {
        let of = |seed, layer| drawing(2, seed, layer).text_blocks(400, 2).seen;
        assert_eq!(of(1, 0), of(1, 0));
        assert_ne!(of(1, 0), of(2, 0));
        assert_ne!(of(1, 0), of(1, 1));
        assert_ne!(of(1, 0)[0], of(1, 0)[1]);
    }

    #[test]
    fn every_other_block_is_drawn_as_often() {
        let mut counts = vec![0; 12];
        for seed in 0..4000 {
            for block in drawn(5, 12, 2, &mut Stream::new(seed, Purpose::Blocks, (0, 0, 5))) {
                counts[block] += 1;
            }
        }
        for (block, count) in counts.into_iter().enumerate() {
            match [0, 4, 5, 6, 11].contains(&block) {
                true => assert_eq!(count, 0),
                // Two of seven blocks: 1143 times on average, with a standard deviation of 29.
                false => assert!((1030..1260).contains(&count), "{block}: {count}"),
            }
        }
    }

    #[test]
    fn short_texts_are_read_whole() {
        let text = drawing(1, 0, 0).text_blocks(4 * 7, 1);
        assert!(
            text.seen[0]
                .iter()
                .all(|ranges| ranges.len() == 1 && ranges[0] == (0..7))
        );
        let text = drawing(1, 0, 0).text_blocks(4 * 7 + 1, 1);
        assert!(text.seen[0][3].len() > 1);
    }
}
