//! Word and character error rate of transcripts, equal to jiwer's with its default transforms.
//!
//! ```text
//! WER = edits / words of the references;   edits: insert, delete or replace a word
//! ```
//!
//! CER is the same over characters, blanks included. Edits and lengths are summed over all segments before they are
//! divided (Levenshtein 1966; Morris et al. 2004, section 2). Case and punctuation count. For words, blanks around a
//! text and repeated blanks between words are ignored; for characters, only blanks around the text. Words are split at
//! any whitespace of Python, whereas jiwer's default transforms split only at spaces and leave a tab or a no-break
//! space inside a word.

use super::whitespace::{is_space, words};

/// The parts of a text that can be inserted, deleted and replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Words, separated by whitespace.
    #[default]
    Words,
    /// Unicode scalar values.
    Characters,
}

/// The edits behind an error rate, added segment by segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorRate {
    unit: Unit,
    edits: u64,
    length: u64,
}

impl ErrorRate {
    /// Builds an accumulator without counts.
    pub fn new(unit: Unit) -> Self {
        Self {
            unit,
            ..Self::default()
        }
    }

    /// Counts a hypothesis against the reference with the lowest error rate.
    pub fn add<S: AsRef<str>>(&mut self, hypothesis: &str, references: &[S]) {
        let counts = references
            .iter()
            .map(|r| self.counts(hypothesis, r.as_ref()));
        let best = counts.min_by(|a, b| rate(*a).total_cmp(&rate(*b)));
        let (edits, length) = best.unwrap_or_default();
        self.edits += edits;
        self.length += length;
    }

    /// Adds the edits of another part of the split.
    pub fn merge(&mut self, other: &Self) {
        self.edits += other.edits;
        self.length += other.length;
    }

    /// Returns the edits divided by the length of the references: 0 without segments, above 1 if there are more edits
    /// than parts in the references, and the number of edits if the references are empty.
    pub fn score(&self) -> f64 {
        rate((self.edits, self.length))
    }

    /// Returns the number of edits, and the length of the reference.
    fn counts(&self, hypothesis: &str, reference: &str) -> (u64, u64) {
        let both = [hypothesis, reference];
        let (edits, length) = match self.unit {
            Unit::Words => {
                let [a, b] = both.map(|text| words(text).collect::<Vec<&str>>());
                (strsim::generic_levenshtein(&a, &b), b.len())
            }
            Unit::Characters => {
                let [a, b] =
                    both.map(|text| text.trim_matches(is_space).chars().collect::<Vec<char>>());
                (strsim::generic_levenshtein(&a, &b), b.len())
            }
        };
        (edits as u64, length as u64)
    }
}

fn rate((edits, length): (u64, u64)) -> f64 {
    edits as f64 / length.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(segments: &[(&str, &str)]) -> [f64; 2] {
        [Unit::Words, Unit::Characters].map(|unit| {
            let mut rate = ErrorRate::new(unit);
            for (hypothesis, reference) in segments {
                rate.add(hypothesis, &[reference]);
            }
            rate.score()
        })
    }

    /// Expected values from jiwer 4.0: `jiwer.wer(references, hypotheses)` and `jiwer.cer`.
    #[test]
    fn rates_are_those_of_jiwer() {
        let both = [
            ("hello duck", "hello world"),
            ("the cat  sat on mat ", "the cat sat on the mat"),
            ("a b c d", "a b"),
            ("", "go do you hear"),
            ("Yes.", "yes"),
        ];
        assert_eq!(rates(&both[..1]), [0.5, 5.0 / 11.0]);
        assert_eq!(rates(&both[2..3]), [1.0, 4.0 / 3.0]);
        assert_eq!(rates(&both[3..4]), [1.0, 1.0]);
        assert_eq!(rates(&both), [0.6, 30.0 / 53.0]);
        // Python's `strip` also removes the four information separators.
        assert_eq!(rates(&[("\u{1c}yes\u{1f}", "yes")]), [0.0, 0.0]);
    }

    #[test]
    fn parts_of_a_split_add_up() {
        let mut whole = ErrorRate::new(Unit::Words);
        let mut parts = [whole; 2];
        for (number, (text, reference)) in [("a b", "a c"), ("x", "x y z"), ("", "")]
            .iter()
            .enumerate()
        {
            whole.add(text, &[reference]);
            parts[number % 2].add(text, &[reference]);
        }
        let [mut first, second] = parts;
        first.merge(&second);
        assert_eq!((first, whole.score()), (whole, 0.6));
        assert_eq!(ErrorRate::default().score(), 0.0);
        let mut several = ErrorRate::new(Unit::Words);
        several.add("a b", &["c d e f g", "a c"]);
        assert_eq!(several.score(), 0.5);
        let mut empty = ErrorRate::new(Unit::Words);
        empty.add("a b c", &[""]);
        assert_eq!(empty.score(), 3.0);
    }
}
