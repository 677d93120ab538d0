//! ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum, equal to Google's rouge-score 0.1.2.
//!
//! Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries". ROUGE-N compares n-grams, ROUGE-L the longest
//! common subsequence of the whole texts, and ROUGE-Lsum the union of the subsequences that each sentence of the target
//! (a line) shares with the prediction's sentences.
//!
//! Words are runs of the letters a to z and of digits after lower-casing, so that text in other scripts has none and
//! scores 0. The corpus score is the mean over pairs; rouge-score's bootstrap intervals are not implemented.

use super::ngrams::{clipped, ngrams, total};
use super::{PrecisionRecall, porter};
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// Options of a score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RougeOptions {
    /// Whether to compare stems of words with more than three letters (rouge-score's `use_stemmer`).
    pub stemmer: bool,
}

/// The four scores, of a pair or as means over pairs. `Display` writes the F1 values in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RougeScores {
    /// Scores of unigrams.
    pub rouge_1: PrecisionRecall,
    /// Scores of bigrams.
    pub rouge_2: PrecisionRecall,
    /// Scores of the longest common subsequence of the texts.
    pub rouge_l: PrecisionRecall,
    /// Scores of the longest common subsequences of the texts' sentences.
    pub rouge_lsum: PrecisionRecall,
}

impl RougeScores {
    fn all(&self) -> [PrecisionRecall; 4] {
        [self.rouge_1, self.rouge_2, self.rouge_l, self.rouge_lsum]
    }

    fn each(&mut self) -> [&mut PrecisionRecall; 4] {
        [
            &mut self.rouge_1,
            &mut self.rouge_2,
            &mut self.rouge_l,
            &mut self.rouge_lsum,
        ]
    }
}

impl fmt::Display for RougeScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, two, l, lsum] = self.all().map(|score| 100.0 * score.f1);
        write!(
            f,
            "ROUGE-1 = {one:.2} ROUGE-2 = {two:.2} ROUGE-L = {l:.2} ROUGE-Lsum = {lsum:.2}"
        )
    }
}

/// The sum of the scores of pairs.
#[derive(Clone, Debug, Default)]
pub struct Rouge {
    options: RougeOptions,
    sum: RougeScores,
    pairs: u64,
}

impl Rouge {
    /// Builds an accumulator without pairs.
    pub fn new(options: RougeOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Scores a prediction and adds its scores to the sum. There must be at least one target; if there are several,
    /// each kind of score takes the target with its highest F1.
    pub fn add<S: AsRef<str>>(&mut self, prediction: &str, targets: &[S]) -> RougeScores {
        assert!(
            !targets.is_empty(),
            "a prediction is scored against at least one target"
        );
        let prediction = TokenizedText::new(prediction, self.options);
        let mut best: Option<RougeScores> = None;
        for target in targets {
            let score = prediction.against(&TokenizedText::new(target.as_ref(), self.options));
            let best = best.get_or_insert(score);
            for (best, new) in best.each().into_iter().zip(score.all()) {
                if new.f1 > best.f1 {
                    *best = new;
                }
            }
        }
        let best = best.unwrap_or_default();
        self.accumulate(best, 1);
        best
    }

    /// Adds the pairs of another part of the corpus, scored with the same options.
    pub fn merge(&mut self, other: &Self) {
        self.accumulate(other.sum, other.pairs);
    }

    /// Returns the means over all pairs; zeros without pairs.
    pub fn score(&self) -> RougeScores {
        let mut mean = self.sum;
        for score in mean.each() {
            *score = score.over(self.pairs);
        }
        mean
    }

    fn accumulate(&mut self, scores: RougeScores, pairs: u64) {
        for (sum, more) in self.sum.each().into_iter().zip(scores.all()) {
            sum.accumulate(more);
        }
        self.pairs += pairs;
    }
}

/// The words of a text, all together and line by line.
struct TokenizedText {
    words: Vec<String>,
    lines: Vec<Vec<String>>,
}

impl TokenizedText {
    fn new(text: &str, options: RougeOptions) -> Self {
        let lines = text.split('\n').map(|line| tokenize(line, options));
        Self {
            words: tokenize(text, options),
            lines: lines.collect(),
        }
    }

    fn against(&self, target: &Self) -> RougeScores {
        let (found, wanted) = (&self.words, &target.words);
        let by_ngrams = |n| {
            let (found, wanted) = (ngrams(found, n), ngrams(wanted, n));
            PrecisionRecall::of_counts(clipped(&found, &wanted), total(&found), total(&wanted))
        };
        let (n, m) = (found.len() as u64, wanted.len() as u64);
        let longest = common_subsequence(wanted, found).len() as u64;
        let hits = union_hits(&target.lines, &self.lines);
        RougeScores {
            rouge_1: by_ngrams(1),
            rouge_2: by_ngrams(2),
            rouge_l: PrecisionRecall::of_counts(longest, n, m),
            rouge_lsum: PrecisionRecall::of_counts(
                hits,
                words_in(&self.lines),
                words_in(&target.lines),
            ),
        }
    }
}

fn words_in(lines: &[Vec<String>]) -> u64 {
    lines.iter().map(|line| line.len() as u64).sum()
}

/// Splits a text into rouge-score's words: lower-cased runs of a to z and 0 to 9, stemmed if longer than three letters.
fn tokenize(text: &str, options: RougeOptions) -> Vec<String> {
    let lower = text.to_lowercase();
    let runs = lower.split(|c: char| !matches!(c, 'a'..='z' | '0'..='9'));
    runs.filter(|run| !run.is_empty())
        .map(|run| match options.stemmer && run.len() > 3 {
            true => porter::stem(run),
            false => run.to_string(),
        })
        .collect()
}

/// Returns positions in `reference` of a longest common subsequence with `candidate`. If there are several, the one
/// that rouge-score's backtracking finds, since the union of ROUGE-Lsum depends on it.
fn common_subsequence(reference: &[String], candidate: &[String]) -> Vec<usize> {
    let width = candidate.len() + 1;
    let mut table = vec![0u32; (reference.len() + 1) * width];
    for (i, wanted) in reference.iter().enumerate() {
        for (j, found) in candidate.iter().enumerate() {
            let (above, below) = (i * width + j, (i + 1) * width + j);
            table[below + 1] = if wanted == found {
                table[above] + 1
            } else {
                table[above + 1].max(table[below])
            };
        }
    }
    let (mut i, mut j) = (reference.len(), candidate.len());
    let mut positions = Vec::new();
    while i > 0 && j > 0 {
        if reference[i - 1] == candidate[j - 1] {
            (i, j) = (i - 1, j - 1);
            positions.push(i);
        } else if table[i * width + j - 1] > table[(i - 1) * width + j] {
            j -= 1;
        } else {
            i -= 1;
        }
    }
    positions.reverse();
    positions
}

/// Returns the number of words of the target's lines in the union of their common subsequences with the prediction's
/// lines. No word counts more often than it occurs in either text.
fn union_hits(target: &[Vec<String>], prediction: &[Vec<String>]) -> u64 {
    let count = |lines: &[Vec<String>]| {
        let mut left = HashMap::<String, u64>::new();
        for word in lines.iter().flatten() {
            *left.entry(word.clone()).or_default() += 1;
        }
        left
    };
    let (mut left_target, mut left_prediction) = (count(target), count(prediction));
    let mut hits = 0;
    for line in target {
        let shared = prediction
            .iter()
            .flat_map(|other| common_subsequence(line, other));
        for position in shared.collect::<BTreeSet<usize>>() {
            let word = &line[position];
            if let (Some(a @ 1..), Some(b @ 1..)) =
                (left_target.get_mut(word), left_prediction.get_mut(word))
            {
                (*a, *b) = (*a - 1, *b - 1);
                hits += 1;
            }
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_pairs_and_subsequences() {
        let score = Rouge::default().add(
            "police killed the gunman",
            &["police kill the gunman today"],
        );
        assert_eq!((score.rouge_1.precision, score.rouge_1.recall), (0.75, 0.6));
        assert_eq!(
            (score.rouge_2.precision, score.rouge_2.recall),
            (1.0 / 3.0, 0.25)
        );
        assert_eq!((score.rouge_l.precision, score.rouge_l.recall), (0.75, 0.6));
        let stemmer = RougeOptions { stemmer: true };
        let score =
            Rouge::new(stemmer).add("police killed the gunman", &["Police kill the gunmen."]);
        assert_eq!(score.rouge_1.f1, 0.75);
    }

    #[test]
    fn the_example_of_the_union() {
        // Section 3.2 of the paper: w1 w2 w3 w4 w5 against two lines shares w1 w2 and w1 w3 w5.
        let score = Rouge::default().add("w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", &["w1 w2 w3 w4 w5"]);
        assert_eq!(score.rouge_lsum.recall, 0.8);
    }

    #[test]
    fn empty_texts_score_nothing() {
        assert_eq!(
            Rouge::default().add("", &["日本語"]),
            RougeScores::default()
        );
        assert_eq!(Rouge::default().score(), RougeScores::default());
    }
}
