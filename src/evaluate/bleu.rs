//! Corpus BLEU, equal to sacreBLEU 2.6.
//!
//! ```text
//! BLEU = 100 · BP · exp(Σ_n log(p_n) / 4),   p_n = clipped n-gram matches / n-grams of the hypotheses
//! BP   = 1 if the hypotheses are at least as long as the references, else exp(1 − ref_len / sys_len)
//! ```
//!
//! Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation"; the conventions
//! are those of Post 2018, "A Call for Clarity in Reporting BLEU Scores". If there are several references, the one
//! nearest in length counts for BP (the shorter one on a tie), and a match may come from any of them.
//!
//! Text must be detokenized: the metric brings its own tokenization. Chinese, Japanese and Korean
//! segmentation (sacreBLEU's `zh`, `ja-mecab`, `ko-mecab`, `spm`) is not here; `char` serves them.

use super::ngrams::{Counts, clipped, ngrams, total};
use super::whitespace::{trim_end, words};
use super::{References, case, mteval, yes_no};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum length of the counted n-grams.
pub const MAX_ORDER: usize = 4;

/// How text is cut into words before counting; the serde names are sacreBLEU's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BleuTokenizer {
    /// NIST's `mteval-v13a`, the standard of WMT: ASCII punctuation is split off.
    #[default]
    #[serde(rename = "13a")]
    V13a,
    /// NIST's `mteval-v14` for all scripts: Unicode punctuation and symbols are split off.
    Intl,
    /// Every character is a word.
    Char,
    /// Words separated by whitespace, for text that is already tokenized.
    None,
}

impl BleuTokenizer {
    /// Returns sacreBLEU's name of the tokenizer, as in a signature.
    pub fn name(self) -> &'static str {
        match self {
            Self::V13a => "13a",
            Self::Intl => "intl",
            Self::Char => "char",
            Self::None => "none",
        }
    }

    /// Returns the words of a text, separated by whitespace.
    fn apply(self, text: &str) -> String {
        match self {
            Self::V13a => mteval::v13a(text),
            Self::Intl => mteval::international(text),
            Self::Char => text.chars().flat_map(|c| [c, ' ']).collect(),
            Self::None => text.to_string(),
        }
    }
}

/// Smoothing of a precision if no n-gram of its order matched (Chen and Cherry 2014).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Smoothing {
    /// 1/2 of a match for the first such order, 1/4 for the next, and so on.
    #[default]
    Exp,
    /// No smoothing: the precision is 0, and so is the score.
    None,
    /// This number of matches, usually 0.1.
    Floor(f64),
    /// Adds this number to the matches and n-grams of every order above 1, usually 1.
    AddK(f64),
}

impl fmt::Display for Smoothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exp => f.write_str("exp"),
            Self::None => f.write_str("none"),
            Self::Floor(value) => write!(f, "floor[{value:.2}]"),
            Self::AddK(value) => write!(f, "add-k[{value:.2}]"),
        }
    }
}

/// Options of a score; the default is the one to report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BleuOptions {
    /// How text is cut into words.
    pub tokenizer: BleuTokenizer,
    /// Whether to compare lower-cased text.
    pub lowercase: bool,
    /// Smoothing of orders without a match.
    pub smoothing: Smoothing,
    /// Whether to leave out orders that are longer than the hypotheses; for single sentences.
    pub effective_order: bool,
}

/// The counts behind a BLEU score, added segment by segment.
#[derive(Clone, Debug, Default)]
pub struct Bleu {
    options: BleuOptions,
    references: References,
    sys_len: u64,
    ref_len: u64,
    correct: [u64; MAX_ORDER],
    total: [u64; MAX_ORDER],
}

impl Bleu {
    /// Builds an accumulator without counts.
    pub fn new(options: BleuOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Counts a hypothesis against its references; there must be at least one.
    pub fn add<S: AsRef<str>>(&mut self, hypothesis: &str, references: &[S]) {
        self.references.record(references.len());
        let hypothesis = self.prepare(hypothesis);
        let hypothesis: Vec<&str> = words(&hypothesis).collect();
        let texts: Vec<String> = references
            .iter()
            .map(|r| self.prepare(r.as_ref()))
            .collect();
        let references: Vec<Vec<&str>> = texts.iter().map(|t| words(t).collect()).collect();

        let distance = |len: &usize| (len.abs_diff(hypothesis.len()), *len);
        let nearest = references.iter().map(Vec::len).min_by_key(distance);
        self.sys_len += hypothesis.len() as u64;
        self.ref_len += nearest.unwrap_or(0) as u64;
        for n in 1..=MAX_ORDER {
            let found = ngrams(&hypothesis, n);
            let mut wanted = Counts::new();
            for reference in &references {
                for (ngram, count) in ngrams(reference, n) {
                    let most = wanted.entry(ngram).or_insert(0);
                    *most = count.max(*most);
                }
            }
            self.correct[n - 1] += clipped(&found, &wanted);
            self.total[n - 1] += total(&found);
        }
    }

    /// Adds the counts of another part of the corpus, made with the same options.
    pub fn merge(&mut self, other: &Self) {
        self.references.merge(other.references);
        self.sys_len += other.sys_len;
        self.ref_len += other.ref_len;
        for n in 0..MAX_ORDER {
            self.correct[n] += other.correct[n];
            self.total[n] += other.total[n];
        }
    }

    /// Returns the score of all segments added; 0 if there were none.
    pub fn score(&self) -> BleuScore {
        let brevity_penalty = match (self.sys_len, self.ref_len) {
            (hypothesis, reference) if hypothesis >= reference => 1.0,
            (0, _) => 0.0,
            (hypothesis, reference) => (1.0 - reference as f64 / hypothesis as f64).exp(),
        };
        let (precisions, orders) = self.precisions();
        let logs = precisions[..orders].iter().map(|p: &f64| p.ln());
        let mean = logs.sum::<f64>() / orders as f64;
        BleuScore {
            // The logarithm of a precision of 0 is minus infinity, and the exponential of that is 0.
            score: brevity_penalty * mean.exp(),
            precisions,
            brevity_penalty,
            sys_len: self.sys_len,
            ref_len: self.ref_len,
            correct: self.correct,
            total: self.total,
        }
    }

    /// Returns the options in sacreBLEU's notation, without the version of a program.
    pub fn signature(&self) -> String {
        let options = &self.options;
        format!(
            "nrefs:{}|case:{}|eff:{}|tok:{}|smooth:{}",
            self.references,
            case(options.lowercase),
            yes_no(options.effective_order),
            options.tokenizer.name(),
            options.smoothing
        )
    }

    fn prepare(&self, text: &str) -> String {
        let tokenizer = self.options.tokenizer;
        if self.options.lowercase {
            tokenizer.apply(trim_end(&text.to_lowercase()))
        } else {
            tokenizer.apply(trim_end(text))
        }
    }

    /// Returns the precisions in percent after smoothing, and the number of orders that count.
    fn precisions(&self) -> ([f64; MAX_ORDER], usize) {
        let mut precisions = [0.0; MAX_ORDER];
        // Smoothing does not create matches if there are none at all.
        if self.correct == [0; MAX_ORDER] {
            return (precisions, MAX_ORDER);
        }
        let (mut orders, mut halvings) = (MAX_ORDER, 0);
        for (n, precision) in precisions.iter_mut().enumerate() {
            let more = match self.options.smoothing {
                Smoothing::AddK(k) if n > 0 => k,
                _ => 0.0,
            };
            let correct = self.correct[n] as f64 + more;
            let total = self.total[n] as f64 + more;
            if total == 0.0 {
                break;
            }
            if self.options.effective_order {
                orders = n + 1;
            }
            let matches = match self.options.smoothing {
                Smoothing::Exp if correct == 0.0 => {
                    halvings += 1;
                    0.5f64.powi(halvings)
                }
                Smoothing::Floor(value) if correct == 0.0 => value,
                _ => correct,
            };
            *precision = 100.0 * matches / total;
        }
        (precisions, orders)
    }
}

/// Returns BLEU of one sentence like sacreBLEU's `sentence_bleu`: default options with effective order.
pub fn sentence<S: AsRef<str>>(hypothesis: &str, references: &[S]) -> BleuScore {
    let mut bleu = Bleu::new(BleuOptions {
        effective_order: true,
        ..BleuOptions::default()
    });
    bleu.add(hypothesis, references);
    bleu.score()
}

/// A BLEU score and its components. `Display` writes sacreBLEU's line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BleuScore {
    /// The score, between 0 and 100.
    pub score: f64,
    /// Smoothed precision of each order from 1, in percent.
    pub precisions: [f64; MAX_ORDER],
    /// The brevity penalty, between 0 and 1.
    pub brevity_penalty: f64,
    /// Number of words of the hypotheses.
    pub sys_len: u64,
    /// Number of words of the references that are nearest in length.
    pub ref_len: u64,
    /// Number of matches of each order, before smoothing.
    pub correct: [u64; MAX_ORDER],
    /// Number of n-grams in the hypotheses for each order, before smoothing.
    pub total: [u64; MAX_ORDER],
}

impl fmt::Display for BleuScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p1, p2, p3, p4] = self.precisions;
        let ratio = match self.ref_len {
            0 => 0.0,
            len => self.sys_len as f64 / len as f64,
        };
        write!(
            f,
            "BLEU = {:.2} {p1:.1}/{p2:.1}/{p3:.1}/{p4:.1} (BP = {:.3} ratio = {ratio:.3} hyp_len = {} ref_len = {})",
            self.score, self.brevity_penalty, self.sys_len, self.ref_len
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_words_of_five() {
        // Matches 4/5, 3/4, 2/3, 1/2: the product is 1/5.
        let mut bleu = Bleu::default();
        bleu.add("the cat sat down there", &["the cat sat down here"]);
        let score = bleu.score();
        assert!((score.score - 100.0 * 0.2f64.powf(0.25)).abs() < 1e-12);
        assert_eq!((score.correct, score.total), ([4, 3, 2, 1], [5, 4, 3, 2]));
        assert_eq!(
            bleu.signature(),
            "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"
        );
        let line =
            "BLEU = 66.87 80.0/75.0/66.7/50.0 (BP = 1.000 ratio = 1.000 hyp_len = 5 ref_len = 5)";
        assert_eq!(score.to_string(), line);
    }

    #[test]
    fn short_hypotheses_pay() {
        let mut bleu = Bleu::default();
        bleu.add("a b c d", &["a b c d e f g h"]);
        assert!((bleu.score().score - 100.0 * (-1.0f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn parts_sum_to_the_whole() {
        let pairs = [
            ("a b c d e", "a b c d f"),
            ("", "x"),
            ("x y z w", "x y z w"),
        ];
        let mut whole = Bleu::default();
        let mut sum = Bleu::default();
        for (hypothesis, reference) in pairs {
            whole.add(hypothesis, &[reference]);
            let mut part = Bleu::default();
            part.add(hypothesis, &[reference]);
            sum.merge(&part);
        }
        assert_eq!(whole.score(), sum.score());
    }

    #[test]
    fn nothing_scores_nothing() {
        assert_eq!(Bleu::default().score().score, 0.0);
        assert_eq!(sentence("", &[""]).score, 0.0);
        assert!((sentence("one", &["one"]).score - 100.0).abs() < 1e-12);
    }
}
