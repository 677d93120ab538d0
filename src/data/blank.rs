//! Messages about examples that have no text but are read all the same: how many there are, and where the
//! first one is.

use super::{PerSplit, Split};
use std::fmt::Display;

/// The examples of a split that have no text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BlankExamples {
    count: usize,
    /// Place of the first one.
    first: String,
}

impl BlankExamples {
    /// Counts the examples at these places.
    pub(super) fn count_at<P: Display>(mut places: impl Iterator<Item = P>) -> Self {
        match places.next() {
            None => Self::default(),
            Some(first) => Self {
                count: 1 + places.count(),
                first: first.to_string(),
            },
        }
    }
}

/// Returns the message about such examples in all splits. They are called `one` or `several`; `how` tells how
/// they are read: `2 empty texts to train on, 1 to validate on, the first at a.tsv:3: …`.
pub(super) fn note(
    [one, several]: [&str; 2],
    all: &PerSplit<BlankExamples>,
    how: &str,
) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for (split, used) in [
        (Split::Train, "train"),
        (Split::Valid, "validate"),
        (Split::Test, "test"),
    ] {
        let count = all.get(split).count;
        let called = match (parts.is_empty(), count) {
            (false, _) => String::new(),
            (true, 1) => format!(" {one}"),
            (true, _) => format!(" {several}"),
        };
        if count > 0 {
            parts.push(format!("{count}{called} to {used} on"));
        }
    }
    let mut found = Split::ALL.iter().map(|split| all.get(*split));
    let first = &found.find(|blank| blank.count > 0)?.first;
    Some(format!("{}, the first at {first}: {how}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_splits_and_the_first_place_are_told() {
        let at = |places: &[&'static str]| BlankExamples::count_at(places.iter());
        let names = ["empty text", "empty texts"];
        let told = |train: &[&'static str], valid: &[&'static str]| {
            let all = PerSplit {
                train: at(train),
                valid: at(valid),
                test: BlankExamples::default(),
            };
            note(names, &all, "so")
        };
        assert_eq!(told(&[], &[]), None);
        assert_eq!(
            told(&["a:3", "a:5"], &["b:1"]).unwrap(),
            "2 empty texts to train on, 1 to validate on, the first at a:3: so"
        );
        assert_eq!(
            told(&[], &["b:1"]).unwrap(),
            "1 empty text to validate on, the first at b:1: so"
        );
    }
}
