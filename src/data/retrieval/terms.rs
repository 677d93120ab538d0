//! Chunks as bags of terms, compared by the cosine of tf-idf vectors (Salton and Buckley 1988). The weight of
//! a term is tf · ln((1 + N) / (1 + df)) if it occurs tf times in a chunk and in df of the N chunks of the
//! database. A term in all chunks weighs nothing, unlike in scikit-learn, which adds 1 to the logarithm. An
//! inverted index holds the chunks of each term, so that a query only visits those.

use super::database::nearest;
use crate::rng::mix;
use std::collections::{BTreeMap, HashMap};

/// An inverted index.
#[derive(Debug)]
pub(super) struct Terms {
    ngram: usize,
    chunks: usize,
    /// Index of each term.
    numbers: HashMap<u64, usize>,
    /// ln((1 + N) / (1 + df)) of each term.
    rarity: Vec<f32>,
    /// Chunks that contain each term, with its weight in them.
    chunks_of: Vec<Vec<(u32, f32)>>,
}

/// Counts each term of a chunk, in the order of the terms.
fn counted(chunk: &[i32], ngram: usize) -> BTreeMap<u64, f32> {
    let mut counts = BTreeMap::new();
    for length in 1..=ngram {
        for term in chunk.windows(length) {
            let tokens = term
                .iter()
                .fold(length as u64, |folded, id| mix(folded ^ *id as u64));
            *counts.entry(tokens).or_insert(0.0) += 1.0;
        }
    }
    counts
}

/// Returns 1 over the length of a vector; 0 for a zero vector.
fn inverse_length(weights: impl Iterator<Item = f32>) -> f32 {
    let squares: f32 = weights.map(|weight| weight * weight).sum();
    if squares > 0.0 {
        1.0 / squares.sqrt()
    } else {
        0.0
    }
}

impl Terms {
    pub(super) fn new(chunks: &[&[i32]], ngram: usize) -> Self {
        let counts: Vec<BTreeMap<u64, f32>> =
            chunks.iter().map(|chunk| counted(chunk, ngram)).collect();
        let (mut numbers, mut found) = (HashMap::new(), Vec::new());
        for term in counts.iter().flat_map(BTreeMap::keys) {
            let next = found.len();
            let number = *numbers.entry(*term).or_insert(next);
            if number == next {
                found.push(0_u32);
            }
            found[number] += 1;
        }
        let all = chunks.len() as f64;
        let rarity = |in_chunks: &u32| ((1.0 + all) / (1.0 + f64::from(*in_chunks))).ln() as f32;
        let rarity: Vec<f32> = found.iter().map(rarity).collect();
        let mut chunks_of = vec![Vec::new(); rarity.len()];
        for (chunk, counts) in counts.iter().enumerate() {
            let weighed = || {
                counts
                    .iter()
                    .map(|(term, n)| (numbers[term], n * rarity[numbers[term]]))
            };
            let factor = inverse_length(weighed().map(|(_, weight)| weight));
            for (number, weight) in weighed() {
                chunks_of[number].push((chunk as u32, weight * factor));
            }
        }
        Self {
            ngram,
            chunks: chunks.len(),
            numbers,
            rarity,
            chunks_of,
        }
    }

    /// Returns the nearest `count` chunks for which `allowed` is true, nearest first; only chunks that share
    /// a term with the query.
    pub(super) fn nearest(
        &self,
        query: &[i32],
        count: usize,
        allowed: &dyn Fn(usize) -> bool,
    ) -> Vec<u32> {
        let mut scores = vec![0.0; self.chunks];
        for (term, n) in counted(query, self.ngram) {
            let Some(number) = self.numbers.get(&term) else {
                continue;
            };
            let weight = n * self.rarity[*number];
            for (chunk, share) in &self.chunks_of[*number] {
                scores[*chunk as usize] += weight * share;
            }
        }
        let scores = scores
            .into_iter()
            .map(|score| (score > 0.0).then_some(score));
        nearest(scores, count, allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_terms_decide() {
        let chunks: [&[i32]; 4] = [&[1, 1, 1, 2], &[1, 1, 3, 3], &[1, 4, 5, 6], &[1, 3, 7, 8]];
        let terms = Terms::new(&chunks, 1);
        let found = |query: &[i32]| terms.nearest(query, 2, &|_| true);
        // Every chunk contains token 1, which therefore weighs nothing.
        assert_eq!(found(&[1, 1, 1, 1]), Vec::<u32>::new());
        assert_eq!(found(&[1, 3, 9, 9]), [1, 3]);
        assert_eq!(found(&[5, 1, 2, 2]), [0, 2]);
        assert_eq!(terms.nearest(&[3, 3], 2, &|chunk| chunk != 1), [3]);
        let pairs = Terms::new(&chunks, 2);
        assert_eq!(pairs.nearest(&[0, 7, 8, 0], 1, &|_| true), [3]);
    }
}
