//! The logits of a vocabulary in descending order, sorted only as far as needed. A draw mostly ends among the most likely tokens,
//! and sorting all of them takes longer than reading a small model's weights.

use std::cmp::Ordering;

/// Number of logits that are sorted first; each time these do not suffice, [`GROWTH_FACTOR`] times as many.
const INITIAL_SORTED: usize = 64;
const GROWTH_FACTOR: usize = 16;

/// Tokens ordered by their logits; there is at least one, and none is NaN.
pub(super) struct Ranked {
    scores: Vec<(u32, f64)>,
    /// Number of entries at the beginning that are sorted.
    sorted: usize,
    max_logit: f64,
    temperature: f64,
}

/// The order of tokens: larger logits first, and among equal ones the smaller token id.
fn by_descending_logit(a: &(u32, f64), b: &(u32, f64)) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

impl Ranked {
    /// Ranks logits at a temperature above 0.
    pub fn new(scores: Vec<(u32, f64)>, temperature: f64) -> Self {
        let each = scores.iter().map(|(_, score)| *score);
        Self {
            max_logit: each.fold(f64::NEG_INFINITY, f64::max),
            scores,
            sorted: 0,
            temperature,
        }
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Returns the token at a rank, 0 for the most likely, and its weight, which is 1 for the most likely.
    pub fn at_rank(&mut self, place: usize) -> (u32, f64) {
        while place >= self.sorted {
            self.sort_more();
        }
        let (id, score) = self.scores[place];
        (id, self.weight(score))
    }

    /// Returns the sum of all weights.
    pub fn total_weight(&self) -> f64 {
        self.scores
            .iter()
            .map(|(_, score)| self.weight(*score))
            .sum()
    }

    fn weight(&self, score: f64) -> f64 {
        // The difference of two infinite logits is NaN.
        match score == self.max_logit {
            true => 1.0,
            false => ((score - self.max_logit) / self.temperature).exp(),
        }
    }

    fn sort_more(&mut self) {
        let target = (self.sorted * GROWTH_FACTOR)
            .max(INITIAL_SORTED)
            .min(self.scores.len());
        let count = target - self.sorted;
        let rest = &mut self.scores[self.sorted..];
        if count < rest.len() {
            rest.select_nth_unstable_by(count - 1, by_descending_logit);
        }
        rest[..count].sort_unstable_by(by_descending_logit);
        self.sorted = target;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_all_scores_sorted() {
        // Unordered numbers with many duplicates.
        let scores = (0..1000u32).map(|id| (id, f64::from(id * 7919 % 499)));
        let scores: Vec<(u32, f64)> = scores.collect();
        let mut wanted = scores.clone();
        wanted.sort_by(by_descending_logit);
        let mut ranked = Ranked::new(scores, 100.0);
        assert_eq!(ranked.len(), 1000);
        for place in [0, 63, 64, 3, 999, 256] {
            let (id, weight) = ranked.at_rank(place);
            assert_eq!(id, wanted[place].0, "{place}");
            assert!((weight - ((wanted[place].1 - 498.0) / 100.0).exp()).abs() < 1e-12);
        }
        let sum: f64 = (0..1000).map(|place| ranked.at_rank(place).1).sum();
        assert!((ranked.total_weight() - sum).abs() < 1e-9);
    }
}
