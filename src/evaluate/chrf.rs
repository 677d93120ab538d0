//! chrF and chrF++, equal to sacreBLEU's: F-scores of character n-grams, and of word n-grams.
//!
//! ```text
//! chrFβ = 100 · (1 + β²) P R / (β² P + R),   P and R: means over the orders that both sides have
//! ```
//!
//! Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation", and 2017, "chrF++: words
//! helping character n-grams". Characters are Unicode scalar values without whitespace; of several
//! references a segment is scored against the one with the best F-score.

use super::ngrams::{clipped, ngrams, total};
use super::whitespace::{is_space, words};
use super::{References, case, yes_no};
use std::fmt;
use std::hash::Hash;

/// Options of a score; the default is chrF, [`ChrfOptions::plus_plus`] is chrF++.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChrfOptions {
    /// Maximum length of character n-grams.
    pub char_order: usize,
    /// Maximum length of word n-grams; 0 for chrF, 2 for chrF++.
    pub word_order: usize,
    /// β: recall has β times the weight of precision.
    pub beta: u32,
    /// Whether to compare lower-cased text.
    pub lowercase: bool,
    /// Whether character n-grams may contain whitespace.
    pub whitespace: bool,
    /// Whether to average the F-scores of all orders, with a tiny score for empty orders, as chrF++.py, NLTK and Moses
    /// do.
    pub eps_smoothing: bool,
}

impl Default for ChrfOptions {
    fn default() -> Self {
        Self {
            char_order: 6,
            word_order: 0,
            beta: 2,
            lowercase: false,
            whitespace: false,
            eps_smoothing: false,
        }
    }
}

impl ChrfOptions {
    /// Returns the options of chrF++: unigrams and bigrams of words count as well.
    pub fn plus_plus() -> Self {
        Self {
            word_order: 2,
            ..Self::default()
        }
    }
}

/// Numbers of n-grams of one order: in the hypothesis, in the reference, in both.
#[derive(Clone, Copy, Debug, Default)]
struct Matches {
    hypothesis: u64,
    reference: u64,
    both: u64,
}

impl Matches {
    /// Adds the matches of each order up to `longest` to `all`.
    fn collect<T: Eq + Hash>(
        all: &mut Vec<Self>,
        hypothesis: &[T],
        reference: &[T],
        longest: usize,
    ) {
        for n in 1..=longest {
            let (found, wanted) = (ngrams(hypothesis, n), ngrams(reference, n));
            all.push(Self {
                // If the reference is too short for an order, the order does not count against the hypothesis.
                hypothesis: if wanted.is_empty() { 0 } else { total(&found) },
                reference: total(&wanted),
                both: clipped(&found, &wanted),
            });
        }
    }
}

/// The counts behind a chrF score, added segment by segment.
#[derive(Clone, Debug, Default)]
pub struct Chrf {
    options: ChrfOptions,
    references: References,
    /// Counts of each order: first characters, then words; empty before the first segment.
    matches: Vec<Matches>,
}

impl Chrf {
    /// Builds an accumulator without counts.
    pub fn new(options: ChrfOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Counts a hypothesis against its references; there must be at least one.
    pub fn add<S: AsRef<str>>(&mut self, hypothesis: &str, references: &[S]) {
        self.references.record(references.len());
        let hypothesis = Segment::new(hypothesis, &self.options);
        let mut best: Option<(f64, Vec<Matches>)> = None;
        for reference in references {
            let matches = hypothesis.match_ngrams(
                &Segment::new(reference.as_ref(), &self.options),
                &self.options,
            );
            let f_score = f_score(&matches, &self.options);
            if best.as_ref().is_none_or(|(most, _)| f_score > *most) {
                best = Some((f_score, matches));
            }
        }
        if let Some((_, matches)) = best {
            self.sum(&matches);
        }
    }

    /// Adds the counts of another part of the corpus, made with the same options.
    pub fn merge(&mut self, other: &Self) {
        self.references.merge(other.references);
        self.sum(&other.matches);
    }

    /// Returns the score of all segments added; 0 if there were none.
    pub fn score(&self) -> ChrfScore {
        ChrfScore {
            score: f_score(&self.matches, &self.options),
            beta: self.options.beta,
            word_order: self.options.word_order,
        }
    }

    /// Returns the options in sacreBLEU's notation, without the version of a program.
    pub fn signature(&self) -> String {
        let options = &self.options;
        format!(
            "nrefs:{}|case:{}|eff:{}|nc:{}|nw:{}|space:{}",
            self.references,
            case(options.lowercase),
            yes_no(!options.eps_smoothing),
            options.char_order,
            options.word_order,
            yes_no(options.whitespace)
        )
    }

    fn sum(&mut self, matches: &[Matches]) {
        let orders = self.matches.len().max(matches.len());
        self.matches.resize(orders, Matches::default());
        for (sum, more) in self.matches.iter_mut().zip(matches) {
            sum.hypothesis += more.hypothesis;
            sum.reference += more.reference;
            sum.both += more.both;
        }
    }
}

/// The characters and words of a text.
struct Segment {
    chars: Vec<char>,
    words: Vec<String>,
}

impl Segment {
    fn new(text: &str, options: &ChrfOptions) -> Self {
        let lower = if options.lowercase {
            text.to_lowercase()
        } else {
            text.to_string()
        };
        Self {
            chars: lower
                .chars()
                .filter(|c| options.whitespace || !is_space(*c))
                .collect(),
            words: words(&lower)
                .flat_map(split_punctuation)
                .map(Into::into)
                .collect(),
        }
    }

    fn match_ngrams(&self, reference: &Self, options: &ChrfOptions) -> Vec<Matches> {
        let mut all = Vec::with_capacity(options.char_order + options.word_order);
        Matches::collect(&mut all, &self.chars, &reference.chars, options.char_order);
        Matches::collect(&mut all, &self.words, &reference.words, options.word_order);
        all
    }
}

/// Splits one ASCII punctuation mark off the end of a word or, if there is none, off its start: `(hi)` gives `(hi` and
/// `)`.
fn split_punctuation(word: &str) -> impl Iterator<Item = &str> {
    let parts = if word.chars().nth(1).is_none() {
        (word, "")
    } else if word.ends_with(|c: char| c.is_ascii_punctuation()) {
        word.split_at(word.len() - 1)
    } else if word.starts_with(|c: char| c.is_ascii_punctuation()) {
        word.split_at(1)
    } else {
        (word, "")
    };
    [parts.0, parts.1]
        .into_iter()
        .filter(|part| !part.is_empty())
}

/// Returns the F-score in percent.
fn f_score(matches: &[Matches], options: &ChrfOptions) -> f64 {
    /// Value of a ratio with the denominator 0 under `eps_smoothing`, as in chrF++.py.
    const EPS: f64 = 1e-16;
    let weight = f64::from(options.beta).powi(2);
    let f = |p: f64, r: f64| (1.0 + weight) * p * r / (weight * p + r);
    let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let ratios = matches
        .iter()
        .map(|m| (ratio(m.both, m.hypothesis), ratio(m.both, m.reference)));

    if options.eps_smoothing {
        let scores = ratios.map(|(p, r)| (p.unwrap_or(EPS), r.unwrap_or(EPS)));
        let sum: f64 = scores
            .map(|(p, r)| if weight * p + r > 0.0 { f(p, r) } else { EPS })
            .sum();
        return 100.0 * sum / matches.len().max(1) as f64;
    }
    let both: Vec<(f64, f64)> = ratios.filter_map(|(p, r)| p.zip(r)).collect();
    let orders = both.len().max(1) as f64;
    let precision = both.iter().map(|(p, _)| p).sum::<f64>() / orders;
    let recall = both.iter().map(|(_, r)| r).sum::<f64>() / orders;
    if precision + recall == 0.0 {
        0.0
    } else {
        100.0 * f(precision, recall)
    }
}

/// A chrF score. `Display` writes sacreBLEU's line, `chrF2++ = 58.32`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChrfScore {
    /// The score, between 0 and 100.
    pub score: f64,
    beta: u32,
    word_order: usize,
}

impl fmt::Display for ChrfScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plus = "+".repeat(self.word_order);
        write!(f, "chrF{}{plus} = {:.2}", self.beta, self.score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_character_of_two() {
        // Unigrams: P = R = 1/2. Bigrams: none match. Longer ones do not exist and do not count.
        let mut chrf = Chrf::default();
        chrf.add("a b", &["ac"]);
        assert!((chrf.score().score - 25.0).abs() < 1e-12);
        assert_eq!(
            chrf.signature(),
            "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no"
        );
        assert_eq!(chrf.score().to_string(), "chrF2 = 25.00");
    }

    #[test]
    fn one_mark_is_parted() {
        let parts = |word| split_punctuation(word).collect::<Vec<_>>();
        assert_eq!(parts("(hi)"), ["(hi", ")"]);
        assert_eq!(parts("\"hi"), ["\"", "hi"]);
        assert_eq!(parts("."), ["."]);
        assert_eq!(parts("hé"), ["hé"]);
    }
}
