//! The decoding state of LSH attention: keys, values, and the buckets of positions, each hashed once.

use super::hashing::HashRotations;
use crate::nn::attention::LayerCache;
use crate::nn::state::DecodingState;
use burn::tensor::{Int, Tensor};

/// The decoding state. A new position requires sorting all positions again, but only the new one is hashed.
#[derive(Clone, Debug, Default)]
pub struct HashedKeys {
    cache: LayerCache,
    hashed: Option<HashedPositions>,
}

/// Positions with their buckets.
#[derive(Clone, Debug)]
struct HashedPositions {
    factors: Vec<usize>,
    rotations: HashRotations,
    /// By row, head and round: the bucket of each position.
    buckets: Vec<Vec<u32>>,
}

impl HashedKeys {
    /// Appends keys and values of new positions and returns those of all positions.
    pub(super) fn append(&mut self, k: Tensor<4>, v: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
        self.cache.append(k, v, None)
    }

    /// Assigns the newest queries to buckets of these factors. If earlier positions have buckets of other factors, or none yet,
    /// they are hashed by their keys, which have the same directions as their queries.
    pub(super) fn hash(
        &mut self,
        factors: &[usize],
        drawn: impl FnOnce() -> HashRotations,
        [q, k]: [&Tensor<4>; 2],
    ) {
        let ([_, _, new, _], [_, _, tokens, _]) = (q.dims(), k.dims());
        let same = |hashed: &&mut HashedPositions| hashed.factors == factors;
        if let Some(hashed) = self.hashed.as_mut().filter(same) {
            return hashed.push(q.clone());
        }
        let mut hashed = HashedPositions {
            factors: factors.to_vec(),
            rotations: drawn(),
            buckets: Vec::new(),
        };
        if new < tokens {
            hashed.push(k.clone().narrow(2, 0, tokens - new));
        }
        hashed.push(q.clone());
        self.hashed = Some(hashed);
    }

    /// Returns the buckets of all positions, by row, head and round.
    pub(super) fn buckets(&self) -> &[Vec<u32>] {
        self.hashed.as_ref().map_or(&[], |hashed| &hashed.buckets)
    }

    /// Returns the number of positions read.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }
}

impl DecodingState for HashedKeys {
    fn select(&mut self, rows: &Tensor<1, Int>) {
        let before = self.cache.rows();
        self.cache.select(rows);
        if let Some(hashed) = &mut self.hashed {
            let parts = hashed.buckets.len() / before.max(1);
            let rows = rows.to_data();
            let of_row = |row: i64| hashed.buckets[row as usize * parts..][..parts].to_vec();
            hashed.buckets = rows.iter::<i64>().flat_map(of_row).collect();
        }
    }

    fn reserve(&mut self, positions: usize) {
        self.cache.reserve(positions);
    }

    fn clone_box(&self) -> Box<dyn DecodingState> {
        Box::new(self.clone())
    }
}

impl HashedPositions {
    /// Hashes more positions and appends their buckets.
    fn push(&mut self, x: Tensor<4>) {
        let [_, _, tokens, _] = x.dims();
        let found = self.rotations.buckets(x);
        let parts = found.chunks_exact(tokens);
        self.buckets.resize(parts.len(), Vec::new());
        for (buckets, found) in self.buckets.iter_mut().zip(parts) {
            buckets.extend_from_slice(found);
        }
    }
}
