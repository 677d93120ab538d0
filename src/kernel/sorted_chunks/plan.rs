//! The plan of sorted chunks: the order in which positions meet.

use std::sync::Arc;

use rayon::prelude::*;

/// The sizes of sorted chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSizes {
    /// Number of rows of the batch.
    pub rows: usize,
    /// Number of heads.
    pub heads: usize,
    /// Number of positions of a row.
    pub tokens: usize,
    /// Number of times that the positions are sorted.
    pub rounds: usize,
    /// Number of positions of a chunk.
    pub chunk: usize,
    /// Number of chunks before its own that a position sees.
    pub back: usize,
    /// Number of chunks after its own that a position sees.
    pub ahead: usize,
}

impl ChunkSizes {
    /// Returns the number of positions of a round, padded to whole chunks.
    pub fn padded(&self) -> usize {
        self.tokens.next_multiple_of(self.chunk.max(1))
    }

    /// Returns the number of chunks of all rounds.
    pub fn chunks(&self) -> usize {
        self.rounds * self.padded() / self.chunk.max(1)
    }

    /// Returns the number of places that a position sees from one chunk.
    pub fn window(&self) -> usize {
        self.chunk * (self.back + 1 + self.ahead)
    }
}

/// The positions of each row and head in sorted order, round after round; cheap to clone. The chunks of all rounds
/// form one ring: the first chunk of a round follows the last one of the previous round, and the very first follows
/// the very last.
#[derive(Clone, Debug)]
pub struct SortedChunks(Arc<SortedPositions>);

#[derive(Debug)]
struct SortedPositions {
    sizes: ChunkSizes,
    /// Sorted positions, `[rows, heads, rounds·padded]`; positions from `tokens` on pad the last chunk.
    order: Vec<u32>,
}

impl SortedChunks {
    /// Sorts positions by their buckets `[rows, heads, rounds, tokens]`, keeping the order within a bucket. Positions
    /// past the length of their row come last.
    pub fn new(sizes: ChunkSizes, buckets: &[u32], lengths: Option<&[usize]>) -> Self {
        let ChunkSizes { tokens, .. } = sizes;
        let parts = sizes.rows * sizes.heads * sizes.rounds;
        assert_eq!(buckets.len(), parts * tokens, "a bucket a position");
        Self::from_parts(sizes, |part| &buckets[part * tokens..][..tokens], lengths)
    }

    /// Like [`Self::new`], for buckets that are not contiguous: `buckets` returns those of each row, head and round.
    pub fn from_parts<'a>(
        sizes: ChunkSizes,
        buckets: impl Fn(usize) -> &'a [u32] + Sync,
        lengths: Option<&[usize]>,
    ) -> Self {
        let ChunkSizes {
            rows,
            heads,
            tokens,
            rounds,
            ..
        } = sizes;
        let padded = sizes.padded();
        let mut order = vec![0; rows * heads * rounds * padded];
        let parts = order.par_chunks_mut(padded.max(1)).enumerate();
        parts.for_each(|(part, order)| {
            let length = lengths.map_or(tokens, |l| l[part / (heads * rounds)].min(tokens));
            sort(&buckets(part)[..length], order);
        });
        Self(Arc::new(SortedPositions { sizes, order }))
    }

    /// Creates one chunk in which every position of a row meets every other.
    pub fn single_chunk([rows, heads, tokens]: [usize; 3]) -> Self {
        let sizes = ChunkSizes {
            rows,
            heads,
            tokens,
            rounds: 1,
            chunk: tokens.max(1),
            back: 0,
            ahead: 0,
        };
        let positions = 0..sizes.padded() as u32;
        let order = positions.cycle().take(rows * heads * sizes.padded());
        let order = order.collect();
        Self(Arc::new(SortedPositions { sizes, order }))
    }

    /// Returns the sizes.
    pub fn sizes(&self) -> ChunkSizes {
        self.0.sizes
    }

    /// Returns the positions of a row and head in sorted order, round after round.
    pub fn order(&self, row: usize, head: usize) -> &[u32] {
        let ChunkSizes { heads, rounds, .. } = self.0.sizes;
        let len = rounds * self.0.sizes.padded();
        &self.0.order[(row * heads + head) * len..][..len]
    }

    /// Returns the chunk that is `distance` places after another one in the ring; −1 is the one before it.
    pub fn neighbour(&self, chunk: usize, distance: isize) -> usize {
        let all = self.0.sizes.chunks() as isize;
        (chunk as isize + distance).rem_euclid(all) as usize
    }
}

/// Sorts the positions that have buckets by bucket (a counting sort) and appends the others.
fn sort(buckets: &[u32], order: &mut [u32]) {
    let most = buckets.iter().copied().max().unwrap_or(0) as usize;
    let mut next = vec![0u32; most + 2];
    for bucket in buckets {
        next[*bucket as usize + 1] += 1;
    }
    for bucket in 0..=most {
        next[bucket + 1] += next[bucket];
    }
    for (position, bucket) in buckets.iter().enumerate() {
        let place = &mut next[*bucket as usize];
        order[*place as usize] = position as u32;
        *place += 1;
    }
    let others = order.iter_mut().enumerate().skip(buckets.len());
    others.for_each(|(position, place)| *place = position as u32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_sorted_by_bucket_and_padding_comes_last() {
        let sizes = ChunkSizes {
            rows: 1,
            heads: 1,
            tokens: 6,
            rounds: 2,
            chunk: 4,
            back: 1,
            ahead: 0,
        };
        let buckets = [2, 0, 1, 0, 2, 0, 1, 1, 1, 0, 0, 0];
        let plan = SortedChunks::new(sizes, &buckets, None);
        let first = [1, 3, 5, 2, 0, 4, 6, 7];
        let second = [3, 4, 5, 0, 1, 2, 6, 7];
        assert_eq!(plan.order(0, 0), [first, second].concat());
        let short = SortedChunks::new(sizes, &buckets, Some(&[3]));
        assert_eq!(short.order(0, 0)[..8], [1, 2, 0, 3, 4, 5, 6, 7]);
        assert_eq!(
            (sizes.chunks(), plan.neighbour(0, -1), plan.neighbour(3, 1)),
            (4, 3, 0)
        );
    }
}
