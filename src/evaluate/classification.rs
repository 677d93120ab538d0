//! Classification metrics, equal to scikit-learn's: a confusion matrix with the scores computed from it, and top-k
//! accuracy.
//!
//! ```text
//! precision = hits / predicted,  recall = hits / true,  F1 = 2 P R / (P + R)       (0 where undefined)
//! MCC = (h n − Σ_c t_c p_c) / √((n² − Σ_c p_c²)(n² − Σ_c t_c²))                    (0 where undefined)
//! ```
//!
//! with h hits among n examples, t_c examples of class c and p_c predictions of class c. For more than two classes the
//! Matthews correlation is Gorodkin's (2004) R_K.

use super::PrecisionRecall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Confusion matrix: rows are true classes, columns are predicted classes. `Display` writes an aligned table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confusion {
    names: Vec<String>,
    counts: Vec<u64>,
}

impl Confusion {
    /// Builds an empty matrix; `names` has one name per class, in the order of class numbers.
    pub fn new(names: Vec<String>) -> Self {
        let counts = vec![0; names.len() * names.len()];
        Self { names, counts }
    }

    /// Counts one example. Class numbers must be below the number of names.
    pub fn add(&mut self, truth: usize, predicted: usize) {
        let n = self.names.len();
        assert!(
            truth < n && predicted < n,
            "class {truth} or {predicted} of {n} classes"
        );
        self.counts[truth * n + predicted] += 1;
    }

    /// Adds the counts of another part of the split, over the same classes.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.names, other.names, "the same classes");
        for (sum, more) in self.counts.iter_mut().zip(&other.counts) {
            *sum += more;
        }
    }

    /// Returns the names of the classes.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the matrix with other class names; the names stay if `names` has another length.
    pub fn with_names(&self, names: &[String]) -> Self {
        Self {
            names: match names.len() == self.names.len() {
                true => names.to_vec(),
                false => self.names.clone(),
            },
            counts: self.counts.clone(),
        }
    }

    /// Returns the number of examples of class `truth` that were predicted as `predicted`.
    pub fn count(&self, truth: usize, predicted: usize) -> u64 {
        self.counts[truth * self.names.len() + predicted]
    }

    /// Returns the number of all examples.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the share of the examples whose class was predicted right; 0 without examples.
    pub fn accuracy(&self) -> f64 {
        self.hits() as f64 / self.total().max(1) as f64
    }

    /// Returns precision, recall and F1 of one class against all others.
    pub fn class(&self, class: usize) -> PrecisionRecall {
        let (hits, predicted, actual) = (
            self.count(class, class),
            self.predicted(class),
            self.actual(class),
        );
        PrecisionRecall::of_counts(hits, predicted, actual)
    }

    /// Returns the scores of the positive class, number 1, as reported for binary tasks (MRPC, QQP); zeros if there is
    /// no class 1.
    pub fn binary(&self) -> PrecisionRecall {
        if self.names.len() > 1 {
            self.class(1)
        } else {
            PrecisionRecall::default()
        }
    }

    /// Returns the unweighted means over the classes that occur as true classes or as predictions.
    pub fn macro_average(&self) -> PrecisionRecall {
        let occurs = |class: &usize| self.predicted(*class) + self.actual(*class) > 0;
        PrecisionRecall::mean(
            (0..self.names.len())
                .filter(occurs)
                .map(|class| self.class(class)),
        )
    }

    /// Returns the scores from the counts of all classes together; each of the three equals the accuracy.
    pub fn micro_average(&self) -> PrecisionRecall {
        PrecisionRecall::of_counts(self.hits(), self.total(), self.total())
    }

    /// Returns the Matthews correlation, from -1 to 1, with 0 for chance or if undefined; the metric of CoLA.
    pub fn matthews(&self) -> f64 {
        let n = i128::from(self.total());
        let classes = 0..self.names.len();
        let pairs: Vec<(i128, i128)> = classes
            .map(|c| (i128::from(self.actual(c)), i128::from(self.predicted(c))))
            .collect();
        let sum = |of: fn(&(i128, i128)) -> i128| pairs.iter().map(of).sum::<i128>();
        let both = i128::from(self.hits()) * n - sum(|(t, p)| t * p);
        let (truth, predicted) = (n * n - sum(|(t, _)| t * t), n * n - sum(|(_, p)| p * p));
        if truth == 0 || predicted == 0 {
            return 0.0;
        }
        both as f64 / (truth as f64 * predicted as f64).sqrt()
    }

    fn hits(&self) -> u64 {
        (0..self.names.len())
            .map(|class| self.count(class, class))
            .sum()
    }

    fn actual(&self, class: usize) -> u64 {
        (0..self.names.len())
            .map(|predicted| self.count(class, predicted))
            .sum()
    }

    fn predicted(&self, class: usize) -> u64 {
        (0..self.names.len())
            .map(|truth| self.count(truth, class))
            .sum()
    }
}

/// Cuts a name to a number of terminal columns.
fn fitted(name: &str, columns: usize) -> String {
    if name.width() <= columns {
        return name.to_string();
    }
    let (mut cut, mut used) = (String::new(), 1);
    for c in name.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        cut.push(c);
    }
    cut + "…"
}

impl fmt::Display for Confusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Maximum width of a name in terminal columns; longer names are cut.
        const COLUMNS: usize = 14;
        const CORNER: &str = "true \\ predicted";
        let names: Vec<String> = self
            .names
            .iter()
            .map(|name| fitted(name, COLUMNS))
            .collect();
        let width = |text: &str| text.width();
        let first = names
            .iter()
            .map(|n| width(n))
            .chain([width(CORNER)])
            .max()
            .unwrap_or(0);
        let pad = |text: &str, columns: usize| " ".repeat(columns.saturating_sub(width(text)));

        write!(f, "{CORNER}{}", pad(CORNER, first))?;
        let mut columns = Vec::new();
        for (class, name) in names.iter().enumerate() {
            let most = (0..names.len())
                .map(|truth| self.count(truth, class))
                .max()
                .unwrap_or(0);
            columns.push(width(name).max(most.to_string().len()) + 2);
            write!(f, "{}{name}", pad(name, columns[class]))?;
        }
        for (truth, name) in names.iter().enumerate() {
            write!(f, "\n{name}{}", pad(name, first))?;
            for (predicted, columns) in columns.iter().enumerate() {
                write!(f, "{:>columns$}", self.count(truth, predicted))?;
            }
        }
        Ok(())
    }
}

/// Counts how often the true class was among the k classes with the highest scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK {
    k: usize,
    hits: u64,
    total: u64,
}

impl TopK {
    /// Builds a counter without examples.
    pub fn new(k: usize) -> Self {
        Self {
            k,
            hits: 0,
            total: 0,
        }
    }

    /// Counts one example from the scores of its classes, and returns whether it was a hit. Among equal scores the
    /// class with the higher number comes first, as in scikit-learn; NaN never hits.
    pub fn add(&mut self, scores: &[f32], truth: usize) -> bool {
        let own = scores[truth];
        let ahead =
            |(class, score): &(usize, &f32)| **score > own || (**score == own && *class > truth);
        let rank = scores.iter().enumerate().filter(ahead).count();
        let hit = !own.is_nan() && rank < self.k;
        self.hits += u64::from(hit);
        self.total += 1;
        hit
    }

    /// Adds the counts of another part of the split, with the same k.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.k, other.k, "the same k");
        self.hits += other.hits;
        self.total += other.total;
    }

    /// Returns the share of hits; 0 without examples.
    pub fn accuracy(&self) -> f64 {
        self.hits as f64 / self.total.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confusion(rows: &[&[u64]], names: &[&str]) -> Confusion {
        let mut confusion = Confusion::new(names.iter().map(|n| (*n).to_string()).collect());
        confusion.counts = rows.concat();
        confusion
    }

    #[test]
    fn two_classes_by_hand() {
        let confusion = confusion(&[&[5, 1], &[2, 4]], &["no", "yes"]);
        assert_eq!(confusion.accuracy(), 0.75);
        let yes = confusion.binary();
        assert_eq!((yes.precision, yes.recall), (0.8, 4.0 / 6.0));
        assert!((yes.f1 - 8.0 / 11.0).abs() < 1e-15);
        // (TP TN - FP FN) / sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN))
        let mcc = 18.0 / (5.0f64 * 6.0 * 6.0 * 7.0).sqrt();
        assert!((confusion.matthews() - mcc).abs() < 1e-15);
    }

    #[test]
    fn hits_alone_have_a_correlation_of_one() {
        for (a, b) in (1..60).flat_map(|a| (1..60).map(move |b| (a, b))) {
            let hits = confusion(&[&[a, 0], &[0, b]], &["no", "yes"]);
            assert_eq!(hits.matthews(), 1.0, "{a} and {b}");
        }
    }

    #[test]
    fn table_is_aligned() {
        let confusion = confusion(&[&[1200, 3], &[0, 7]], &["cat", "a very long class name"]);
        let table = "true \\ predicted   cat  a very long c…\n\
                     cat               1200               3\n\
                     a very long c…       0               7";
        assert_eq!(confusion.to_string(), table);
    }

    #[test]
    fn ties_and_nan() {
        let mut top = TopK::new(1);
        assert!(!top.add(&[1.0, 1.0, 0.0], 0));
        assert!(top.add(&[1.0, 1.0, 0.0], 1));
        assert!(!top.add(&[0.0, f32::NAN], 1));
        assert_eq!(top.accuracy(), 1.0 / 3.0);
    }

    #[test]
    fn nothing_scores_nothing() {
        let empty = Confusion::new(Vec::new());
        assert_eq!((empty.accuracy(), empty.matthews()), (0.0, 0.0));
        assert_eq!(empty.macro_average(), PrecisionRecall::default());
        assert_eq!(TopK::new(5).accuracy(), 0.0);
    }
}
