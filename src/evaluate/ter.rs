//! Translation edit rate, equal to sacreBLEU's, which follows tercom.
//!
//! ```text
//! TER = 100 · edits / words of the reference;   edits: insert, delete, replace a word, or move a phrase
//! ```
//!
//! Snover et al. 2006, "A Study of Translation Edit Rate with Targeted Human Annotation". The minimum number of edits
//! over the references is divided by their mean length. sacreBLEU's `asian_support` is not implemented.

use super::whitespace::{trim_end, words};
use super::{References, case, mteval, tercom, yes_no};
use std::collections::HashMap;
use std::fmt;

/// Options of a score; the default lower-cases text and splits it at whitespace only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerOptions {
    /// Whether to distinguish upper and lower case.
    pub case_sensitive: bool,
    /// Whether to resolve character entities and split off punctuation as tercom does for Western text.
    pub normalized: bool,
    /// Whether to drop . , ? : ; ! " ( and ).
    pub no_punct: bool,
}

/// The edits behind a TER score, added segment by segment.
#[derive(Clone, Debug, Default)]
pub struct Ter {
    options: TerOptions,
    references: References,
    edits: u64,
    ref_len: f64,
}

impl Ter {
    /// Builds an accumulator without counts.
    pub fn new(options: TerOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Counts a hypothesis against its references; there must be at least one.
    pub fn add<S: AsRef<str>>(&mut self, hypothesis: &str, references: &[S]) {
        self.references.record(references.len());
        let mut numbers = WordIds::default();
        let hypothesis = numbers.of(&self.prepare(hypothesis));
        let (mut fewest, mut len) = (u64::MAX, 0);
        for reference in references {
            // sacreBLEU prepares references twice, which matters if normalizing a second time changes the text.
            let reference = numbers.of(&self.prepare(&self.prepare(reference.as_ref())));
            fewest = fewest.min(tercom::edits(&hypothesis, &reference));
            len += reference.len();
        }
        self.edits += fewest;
        self.ref_len += len as f64 / references.len() as f64;
    }

    /// Adds the edits of another part of the corpus, made with the same options.
    pub fn merge(&mut self, other: &Self) {
        self.references.merge(other.references);
        self.edits += other.edits;
        self.ref_len += other.ref_len;
    }

    /// Returns the score of all segments added; 0 without edits, 100 for edits against empty references.
    pub fn score(&self) -> TerScore {
        let score = match self.edits {
            0 => 0.0,
            _ if self.ref_len == 0.0 => 100.0,
            edits => 100.0 * (edits as f64 / self.ref_len),
        };
        TerScore {
            score,
            edits: self.edits,
            ref_len: self.ref_len,
        }
    }

    /// Returns the options in sacreBLEU's notation, without the version of a program.
    pub fn signature(&self) -> String {
        let options = &self.options;
        format!(
            "nrefs:{}|case:{}|tok:tercom|norm:{}|punct:{}|asian:no",
            self.references,
            case(!options.case_sensitive),
            yes_no(options.normalized),
            yes_no(!options.no_punct)
        )
    }

    /// Returns the words of a text, separated by single spaces.
    fn prepare(&self, text: &str) -> String {
        let mut text = trim_end(text).to_string();
        if !self.options.case_sensitive {
            text = text.to_lowercase();
        }
        if self.options.normalized {
            text = mteval::tercom(&text);
        }
        if self.options.no_punct {
            text.retain(|c| !matches!(c, '.' | ',' | '?' | ':' | ';' | '!' | '"' | '(' | ')'));
        }
        words(&text).collect::<Vec<&str>>().join(" ")
    }
}

/// Numbers for words; equal words have equal numbers.
#[derive(Default)]
struct WordIds(HashMap<String, usize>);

impl WordIds {
    fn of(&mut self, text: &str) -> Vec<usize> {
        let mut number = |word: &str| {
            let next = self.0.len();
            *self.0.entry(word.to_string()).or_insert(next)
        };
        words(text).map(&mut number).collect()
    }
}

/// A TER score: lower is better. `Display` writes sacreBLEU's line, `TER = 41.30`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TerScore {
    /// The score in percent; above 100 if there are more edits than words in the references.
    pub score: f64,
    /// Total number of edits of all segments.
    pub edits: u64,
    /// Mean number of words of a segment's references, summed over segments.
    pub ref_len: f64,
}

impl fmt::Display for TerScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TER = {:.2}", self.score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits_of(hypothesis: &str, reference: &str) -> u64 {
        let mut ter = Ter::default();
        ter.add(hypothesis, &[reference]);
        ter.score().edits
    }

    #[test]
    fn a_phrase_moves_at_the_cost_of_one() {
        assert_eq!(edits_of("b c d a", "a b c d"), 1);
        assert_eq!(edits_of("a b c d", "A b C d"), 0);
        assert_eq!(edits_of("a x c", "a b c d"), 2);
        assert_eq!(edits_of("a b", ""), 2);
        assert_eq!(edits_of("", "a b"), 2);
    }

    #[test]
    fn mean_length_of_references() {
        let mut ter = Ter::default();
        ter.add("a b c", &["a b c d", "a b"]);
        let score = ter.score();
        assert_eq!((score.edits, score.ref_len), (1, 3.0));
        assert_eq!(score.to_string(), "TER = 33.33");
        assert_eq!(
            ter.signature(),
            "nrefs:2|case:lc|tok:tercom|norm:no|punct:yes|asian:no"
        );
    }
}
