//! Counts n-grams: slices of a sequence of words or characters.

use std::collections::HashMap;
use std::hash::Hash;

/// How often each n-gram occurs.
pub(super) type Counts<'a, T> = HashMap<&'a [T], u64>;

/// Counts the n-grams of one order; there are none if the sequence is shorter than `n`, which must be at least 1.
pub(super) fn ngrams<T: Eq + Hash>(items: &[T], n: usize) -> Counts<'_, T> {
    let mut counts = Counts::new();
    for ngram in items.windows(n) {
        *counts.entry(ngram).or_default() += 1;
    }
    counts
}

/// Returns the total number of occurrences.
pub(super) fn total<T>(counts: &Counts<'_, T>) -> u64 {
    counts.values().sum()
}

/// Returns the number of occurrences in `found`, each n-gram counted at most as often as it occurs in `wanted`.
pub(super) fn clipped<T: Eq + Hash>(found: &Counts<'_, T>, wanted: &Counts<'_, T>) -> u64 {
    let allowed = |ngram: &[T]| wanted.get(ngram).copied().unwrap_or(0);
    found.iter().map(|(g, n)| allowed(g).min(*n)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_clipped() {
        let (found, wanted) = (["the"; 7], ["the", "cat", "the", "mat"]);
        let (found, wanted) = (ngrams(&found, 1), ngrams(&wanted, 1));
        assert_eq!((total(&found), clipped(&found, &wanted)), (7, 2));
        assert!(ngrams(&["one"], 2).is_empty());
    }
}
