//! Scores of answers to questions, as in SQuAD (Rajpurkar et al., arXiv:1606.05250, section 6.1; arXiv:1806.03822).
//!
//! Answers are compared in lower case, without ASCII punctuation and without the words a, an and the. F1 is computed
//! over the bags of words of an answer and a right answer; if there are several right answers, the best one counts. A
//! question without an answer is right if no answer is given. A long context is read in windows: the best span of all
//! windows is the answer, unless questions may lack an answer and the lowest score of no answer is higher.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The best span of one window.
#[derive(Clone, Copy, Debug)]
pub struct SpanPrediction<'a> {
    /// Score of the span.
    pub score: f32,
    /// Score of no answer.
    pub none: f32,
    /// Text of the span.
    pub text: &'a str,
}

/// The answers of a split, question by question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    best: BTreeMap<u64, Best>,
}

/// The best span of a question's windows. Floats are stored as bits, since JSON between processes keeps integers
/// exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Best {
    score: u32,
    none: u32,
    exact: bool,
    f1: u64,
    /// Whether the question has no answer.
    unanswered: bool,
    /// Whether questions of the data may lack an answer.
    may_lack: bool,
}

impl Answers {
    /// Adds the best span of a window of a question with these right answers, of which there are none if the question
    /// has no answer. `may_lack` tells whether questions of the data may lack an answer.
    pub fn add(
        &mut self,
        question: u64,
        found: SpanPrediction<'_>,
        right: &[String],
        may_lack: bool,
    ) {
        let of = |score: fn(&str, &str) -> f64| {
            let right = right.iter().map(|right| score(right, found.text));
            right
                .reduce(f64::max)
                .unwrap_or_else(|| score("", found.text))
        };
        let new = Best {
            score: found.score.to_bits(),
            none: found.none.to_bits(),
            exact: of(|right, text| f64::from(u8::from(exact(right, text)))) == 1.0,
            f1: of(f1).to_bits(),
            unanswered: right.is_empty(),
            may_lack,
        };
        self.join(question, new);
    }

    fn join(&mut self, question: u64, new: Best) {
        let float = f32::from_bits;
        self.best
            .entry(question)
            .and_modify(|best| {
                let none = float(best.none).min(float(new.none));
                if float(new.score) > float(best.score) {
                    *best = new;
                }
                best.none = none.to_bits();
            })
            .or_insert(new);
    }

    /// Adds the answers of another part of the split.
    pub fn merge(&mut self, other: &Self) {
        for (question, best) in &other.best {
            self.join(*question, *best);
        }
    }

    /// Returns the share of the questions with an exact match, and the mean F1; zeros without questions.
    pub fn scores(&self) -> [f64; 2] {
        let one = |best: &Best| {
            let lacks = f32::from_bits(best.none) > f32::from_bits(best.score);
            match best.may_lack && lacks {
                true => [f64::from(u8::from(best.unanswered)); 2],
                false => [f64::from(u8::from(best.exact)), f64::from_bits(best.f1)],
            }
        };
        let count = self.best.len().max(1) as f64;
        let sums = self
            .best
            .values()
            .map(one)
            .fold([0.0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        sums.map(|sum| sum / count)
    }
}

/// Normalises a text for comparison: lower case, without ASCII punctuation, articles and extra blanks.
pub fn normalize(text: &str) -> String {
    let lower = text.to_lowercase();
    let plain: Vec<char> = lower
        .chars()
        .filter(|c| !c.is_ascii_punctuation())
        .collect();
    // Words also end at punctuation outside ASCII, like the word boundaries of regular expressions.
    let runs = plain.chunk_by(|a, b| a.is_alphanumeric() && b.is_alphanumeric());
    let kept: String = runs
        .map(|run| run.iter().collect::<String>())
        .map(|run| match run.as_str() {
            "a" | "an" | "the" => " ".to_owned(),
            _ => run,
        })
        .collect();
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether an answer equals the right one after normalisation.
pub fn exact(right: &str, answer: &str) -> bool {
    normalize(right) == normalize(answer)
}

/// Returns F1 over the words of an answer; if either text has no words, 1 if both have none, else 0.
pub fn f1(right: &str, answer: &str) -> f64 {
    let (right, answer) = (normalize(right), normalize(answer));
    let [right, answer] = [&right, &answer].map(|text| text.split_whitespace().collect::<Vec<_>>());
    if right.is_empty() || answer.is_empty() {
        return f64::from(u8::from(right.is_empty() && answer.is_empty()));
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in &right {
        *left.entry(word).or_default() += 1;
    }
    let mut shared = 0u64;
    for word in &answer {
        if let Some(count) = left.get_mut(word).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1;
        }
    }
    super::PrecisionRecall::of_counts(shared, answer.len() as u64, right.len() as u64).f1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_window_answers_unless_none_is_likelier() {
        let right = ["The Seine".to_string()];
        let found = |score, none, text| SpanPrediction { score, none, text };
        let mut one = Answers::default();
        one.add(0, found(2.0, 5.0, "Rhine"), &right, true);
        one.add(0, found(3.0, 1.0, "seine."), &right, true);
        assert_eq!(one.scores(), [1.0, 1.0]);
        let mut other = Answers::default();
        other.add(1, found(1.0, 2.0, "x"), &[], true);
        other.add(2, found(1.0, 2.0, "x"), &[], false);
        assert_eq!(other.scores(), [0.5, 0.5]);
        one.merge(&other);
        assert!((one.scores()[0] - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn articles_and_marks_are_passed_over() {
        assert_eq!(normalize("The  U.S.A., an «Idea»"), "usa «idea»");
        assert!(exact("the cat", "Cat!") && !exact("cat", "cats"));
        assert_eq!(f1("a red cat", "red cat red"), 0.8);
        assert_eq!((f1("", "the"), f1("", "cat")), (1.0, 0.0));
    }
}
