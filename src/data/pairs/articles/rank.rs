//! The order of an article's paragraphs: by tf-idf with its title, as in the article, or at random.
//!
//! Liu et al., "Generating Wikipedia by summarizing long sequences", arXiv:1801.10198, section 4.1:
//! paragraphs are the documents of a search whose query is the title. The score of a paragraph d is the sum,
//! over the words w of the title, of
//!
//! > N(w, d) · ln(N / N(w))
//!
//! where N(w, d) counts w in d, N counts the paragraphs of the article, and N(w) counts the paragraphs that
//! contain w. A word in every paragraph scores nothing, so that "of" and "the" need no stop list. Words are
//! runs of letters and digits in lower case; a word that occurs twice in the title counts once. Paragraphs
//! with equal scores keep their order.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data::Split;
use crate::data::split::SPLIT_SEED;
use crate::rng::{Purpose, Stream};

/// The order in which paragraphs are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ranking {
    /// By tf-idf with the title, the highest first.
    #[default]
    TfIdf,
    /// As in the article.
    Order,
    /// At random, the same for every seed: the baseline that an extraction is measured against.
    Random,
}

/// Separates the draws of this file from others of the same purpose.
const SITE: u64 = 2;

impl Ranking {
    /// Returns the indices of an article's paragraphs in the order in which they are read; `number` is the
    /// index of the article in its split.
    pub(super) fn order(
        self,
        title: &str,
        paragraphs: &[String],
        split: Split,
        number: u64,
    ) -> Vec<usize> {
        let mut order: Vec<usize> = (0..paragraphs.len()).collect();
        match self {
            Self::TfIdf => {
                let scores = tf_idf(title, paragraphs);
                order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            }
            Self::Order => {}
            Self::Random => {
                let at = (SITE, number, split as u64);
                Stream::new(SPLIT_SEED, Purpose::Split, at).shuffle(&mut order);
            }
        }
        order
    }
}

/// Returns the score of each paragraph for a title.
pub fn tf_idf(title: &str, paragraphs: &[String]) -> Vec<f64> {
    let mut query: Vec<String> = Vec::new();
    for word in words(title) {
        if !query.contains(&word) {
            query.push(word);
        }
    }
    let counts: Vec<HashMap<String, usize>> = paragraphs.iter().map(|p| counted(p)).collect();
    let mut scores = vec![0.0; paragraphs.len()];
    for word in &query {
        let having = counts.iter().filter(|c| c.contains_key(word)).count();
        if having == 0 {
            continue;
        }
        let weight = (paragraphs.len() as f64 / having as f64).ln();
        for (score, counts) in scores.iter_mut().zip(&counts) {
            *score += counts.get(word).map_or(0.0, |n| *n as f64 * weight);
        }
    }
    scores
}

/// Returns the words of a text in lower case.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

fn counted(text: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for word in words(text) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(paragraphs: &[&str]) -> Vec<String> {
        paragraphs.iter().map(|p| (*p).to_owned()).collect()
    }

    #[test]
    fn rare_words_of_the_title_count_and_ties_keep_their_order() {
        let paragraphs = of(&["the end", "The red fox .", "the fox , the FOX", "the red"]);
        let scores = tf_idf("The red fox", &paragraphs);
        let half = 2f64.ln();
        assert_eq!(scores, [0.0, 2.0 * half, 2.0 * half, half]);
        let order = |ranking: Ranking| ranking.order("The red fox", &paragraphs, Split::Train, 3);
        assert_eq!(order(Ranking::TfIdf), [1, 2, 3, 0]);
        assert_eq!(order(Ranking::Order), [0, 1, 2, 3]);
        let mut random = order(Ranking::Random);
        assert_eq!(random, order(Ranking::Random));
        random.sort_unstable();
        assert_eq!(random, [0, 1, 2, 3]);
    }

    #[test]
    fn a_word_that_the_title_has_twice_counts_once() {
        let paragraphs = of(&["big fish", "small"]);
        assert_eq!(tf_idf("Big Big", &paragraphs), tf_idf("big", &paragraphs));
        assert_eq!(tf_idf("whale", &paragraphs), [0.0, 0.0]);
    }
}
