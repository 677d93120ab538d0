//! Multi-label metrics, for examples that may have any number of classes; equal to scikit-learn's.
//!
//! A class is predicted if its probability reaches a threshold. Micro-averaged F1 is computed from the summed counts of
//! all classes; macro-averaged F1 is the unweighted mean over the classes (0 where undefined). Exact match is the share
//! of examples whose predicted classes are exactly the true ones. The area under the ROC curve is the mean over the
//! classes that some examples have and others do not (0.5 if there are no such classes).

use super::PrecisionRecall;
use serde::{Deserialize, Serialize};

/// The score of every class for every example, and whether the example has the class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MultiLabelScores {
    /// Minimum score of a predicted class, as bits.
    threshold: u32,
    /// Number of classes.
    classes: usize,
    /// The bits of each class's score and whether the example has the class, example by example.
    scores: Vec<(u32, bool)>,
}

impl MultiLabelScores {
    /// Builds an empty collection for `classes` classes, which are predicted if their score is at least `threshold`.
    pub fn new(classes: usize, threshold: f32) -> Self {
        Self {
            threshold: threshold.to_bits(),
            classes,
            scores: Vec::new(),
        }
    }

    /// Adds an example: the score of each class, and the numbers of the classes that it has.
    pub fn add(&mut self, scores: &[f32], truth: &[i32]) {
        let all = scores.iter().zip(0i32..);
        let all = all.map(|(score, class)| (score.to_bits(), truth.contains(&class)));
        self.scores.extend(all);
    }

    /// Adds the examples of another part of the split.
    pub fn merge(&mut self, other: &Self) {
        // An empty collection may have been made without knowing the classes.
        if self.scores.is_empty() {
            (self.classes, self.threshold) = (other.classes, other.threshold);
        }
        self.scores.extend_from_slice(&other.scores);
    }

    /// Returns F1 from the summed counts of all classes.
    pub fn micro_f1(&self) -> f64 {
        let counts = self.counts().into_iter();
        let [hits, predicted, actual] =
            counts.fold([0; 3], |sums, class| [0, 1, 2].map(|i| sums[i] + class[i]));
        PrecisionRecall::of_counts(hits, predicted, actual).f1
    }

    /// Returns the mean of the F1 of the classes.
    pub fn macro_f1(&self) -> f64 {
        let counts = self.counts().into_iter();
        let each = counts
            .map(|[hits, predicted, actual]| PrecisionRecall::of_counts(hits, predicted, actual));
        PrecisionRecall::mean(each).f1
    }

    /// Returns the share of the examples whose predicted classes are exactly the true ones.
    pub fn exact_match(&self) -> f64 {
        let examples = self.scores.chunks(self.classes.max(1));
        let right = examples.clone().filter(|example| {
            let mut classes = example.iter();
            classes.all(|(score, truth)| self.predicts(*score) == *truth)
        });
        right.count() as f64 / examples.count().max(1) as f64
    }

    /// Returns the mean area under the ROC curve over the classes that some examples have and others do not: the share
    /// of pairs of such examples in which the one with the class has the higher score, with equal scores counted half.
    pub fn roc_auc(&self) -> f64 {
        let areas: Vec<f64> = (0..self.classes)
            .filter_map(|class| self.area(class))
            .collect();
        match areas.is_empty() {
            true => 0.5,
            false => areas.iter().sum::<f64>() / areas.len() as f64,
        }
    }

    fn predicts(&self, score: u32) -> bool {
        f32::from_bits(score) >= f32::from_bits(self.threshold)
    }

    /// Returns the hits, predictions and true occurrences of each class.
    fn counts(&self) -> Vec<[u64; 3]> {
        let mut counts = vec![[0; 3]; self.classes];
        for example in self.scores.chunks(self.classes.max(1)) {
            for (count, (score, truth)) in counts.iter_mut().zip(example) {
                let predicted = self.predicts(*score);
                count[0] += u64::from(predicted && *truth);
                count[1] += u64::from(predicted);
                count[2] += u64::from(*truth);
            }
        }
        counts
    }

    fn area(&self, class: usize) -> Option<f64> {
        let column = self.scores.iter().skip(class).step_by(self.classes);
        let mut column: Vec<(f32, bool)> = column
            .map(|(score, truth)| (f32::from_bits(*score), *truth))
            .collect();
        if column.iter().any(|(score, _)| score.is_nan()) {
            return Some(f64::NAN);
        }
        column.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut below, mut doubled) = (0u64, 0u64);
        for equal in column.chunk_by(|a, b| a.0 == b.0) {
            let with = equal.iter().filter(|(_, truth)| *truth).count() as u64;
            let without = equal.len() as u64 - with;
            doubled += with * (2 * below + without);
            below += without;
        }
        let with = column.len() as u64 - below;
        (with > 0 && below > 0).then(|| doubled as f64 / (2.0 * with as f64 * below as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_all_examples_have_has_no_area() {
        let mut all = MultiLabelScores::new(2, 0.0);
        all.add(&[1.0, 2.0], &[0]);
        all.add(&[1.0, 1.0], &[0, 1]);
        all.add(&[-1.0, 1.0], &[0]);
        // Class 1 occurs in one example, with score 1.0, against 2.0 and 1.0.
        assert_eq!(all.roc_auc(), 0.25);
        assert_eq!(all.exact_match(), 1.0 / 3.0);
        let mut one = MultiLabelScores::new(1, 0.0);
        one.add(&[3.0], &[]);
        assert_eq!(
            (one.roc_auc(), one.micro_f1(), one.macro_f1()),
            (0.5, 0.0, 0.0)
        );
        assert_eq!(MultiLabelScores::default().exact_match(), 0.0);
    }

    #[test]
    fn parts_of_a_split_add_up() {
        let rows: [(&[f32], &[i32]); 3] = [
            (&[0.3, -2.0], &[1]),
            (&[-0.1, 0.6], &[1]),
            (&[2.0, 0.1], &[0]),
        ];
        let of = |rows: &[(&[f32], &[i32])]| {
            let mut all = MultiLabelScores::new(2, 0.0);
            rows.iter()
                .for_each(|(scores, truth)| all.add(scores, truth));
            all
        };
        let (mut first, second) = (of(&rows[..1]), of(&rows[1..]));
        first.merge(&second);
        assert_eq!(first, of(&rows));
    }
}
