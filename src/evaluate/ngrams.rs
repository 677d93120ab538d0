//! Counting n-grams: slices of a sequence of words or of characters.

use std::collections::HashMap;
use std::hash::Hash;

/// How often each n-gram occurs.
pub(super) type Counts<'a, T> = HashMap<&'a [T], u64>;

/// The n-grams of one order; none when the sequence is shorter than `n`, which is at least 1.
pub(super) fn ngrams<T: Eq + Hash>(items: &[T], n: usize) -> Counts<'_, T> {
    let mut counts = Counts::new();
    for ngram in items.windows(n) {
        *counts.entry(ngram).or_default() += 1;
    }
    counts
}

/// All occurrences together.
pub(super) fn total<T>(counts: &Counts<'_, T>) -> u64 {
    counts.values().sum()
}

/// Occurrences in `found` that `wanted` allows: each n-gram at most as often as it occurs there.
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
