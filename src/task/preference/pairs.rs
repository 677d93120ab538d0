//! The pairs of a batch: the positions of their scored tokens, and the log-probabilities that a network gives to their
//! texts.

use crate::data::batch::TextBatch;
use crate::kernel;
use crate::model::LanguageModel;
use crate::nn::pass::Pass;
use crate::task::{Sum, causal_lm, host};
use burn::tensor::{Tensor, TensorData, activation};

/// Document number of a row's better text.
const BETTER: i32 = 1;
/// Document number of a row's worse text.
const WORSE: i32 = 2;

/// The scored tokens of the texts of a batch. Texts are numbered through the batch: first all better ones, then all
/// worse ones.
pub(super) struct Pairs {
    rows: usize,
    /// Positions whose outputs predict the scored tokens, counted through all rows.
    places: Vec<i32>,
    /// The scored tokens.
    targets: Vec<i32>,
    /// Number of the text of each scored token.
    texts: Vec<usize>,
    /// Number of scored tokens of each text.
    lengths: Vec<f32>,
}

/// A network's outputs for the pairs.
pub(super) struct PairOutputs {
    /// Log-probability of each text after its prompt, `[2·rows]`, in at least 32 bits.
    pub likelihoods: Tensor<1>,
    /// Logits over the vocabulary at each scored token `[n, vocab]`, if asked for.
    pub scores: Option<Tensor<2>>,
}

impl Pairs {
    /// Extracts the pairs of `rows` rows; `None` if rows are not pairs, or if a text has nothing to score.
    pub(super) fn of(batch: &TextBatch, rows: usize) -> Option<Self> {
        let documents = batch.documents.as_ref()?;
        let mut pairs = Self {
            rows,
            places: Vec::new(),
            targets: Vec::new(),
            texts: Vec::new(),
            lengths: vec![0.0; 2 * rows],
        };
        let all = batch.targets.iter().zip(documents).enumerate();
        for (place, (target, document)) in all.filter(|(_, (target, _))| **target >= 0) {
            let row = place / batch.cols.max(1);
            let text = match *document {
                BETTER => row,
                WORSE => rows + row,
                _ => return None,
            };
            *pairs.lengths.get_mut(text)? += 1.0;
            pairs.places.push(place as i32);
            pairs.targets.push(*target);
            pairs.texts.push(text);
        }
        let scored = pairs.lengths.iter().all(|length| *length > 0.0);
        (rows > 0 && scored).then_some(pairs)
    }

    /// Computes a network's log-probabilities of the texts, and keeps the logits if `keeps`. The LM head only runs at
    /// scored tokens.
    pub(super) fn read(
        &self,
        network: &dyn LanguageModel,
        batch: &TextBatch,
        keeps: bool,
        pass: &Pass,
    ) -> PairOutputs {
        let device = network.device();
        let hidden = network.forward(causal_lm::input(batch, &device), None, pass);
        let scores = network.logits(host::gather_at(hidden, &self.places, &device));
        let [_, n, vocab] = scores.dims();
        let scores = kernel::to_f32(scores.reshape([n, vocab]));
        let kept = keeps.then(|| scores.clone());
        let targets = host::matrix(&self.targets, 1, &device);
        let tokens = activation::log_softmax(scores, 1).gather(1, targets);
        let count = 2 * self.rows;
        let mut own = vec![0.0f32; count * n];
        for (token, text) in self.texts.iter().enumerate() {
            own[text * n + token] = 1.0;
        }
        let own = TensorData::new(own, [count, n]);
        let own = Tensor::<2>::from_data(own, (&device, tokens.dtype()));
        let sums = (own * tokens.reshape([1, n])).sum_dim(1);
        PairOutputs {
            likelihoods: sums.reshape([count]),
            scores: kept,
        }
    }

    /// Returns the value of each better text minus that of its worse one, `[rows]`, from values of all texts
    /// `[2·rows]`.
    pub(super) fn differences(&self, of_texts: Tensor<1>) -> Tensor<1> {
        let better = of_texts.clone().narrow(0, 0, self.rows);
        better - of_texts.narrow(0, self.rows, self.rows)
    }

    /// Returns the number of scored tokens of each text `[2·rows]`, with the device and data type of `beside`.
    pub(super) fn lengths(&self, beside: &Tensor<1>) -> Tensor<1> {
        let lengths = TensorData::new(self.lengths.clone(), [self.lengths.len()]);
        Tensor::from_data(lengths, (&beside.device(), beside.dtype()))
    }

    /// Counts the pairs whose better text has the most likely token at every position, from the logits of all scored
    /// tokens.
    pub(super) fn count_exact(&self, scores: Tensor<2>) -> Sum {
        let best = kernel::read(kernel::untracked(scores).argmax(1));
        let mut right = vec![true; self.rows];
        let tokens = best.iter::<i64>().zip(&self.targets).zip(&self.texts);
        for ((best, target), text) in tokens {
            if let Some(right) = right.get_mut(*text) {
                *right &= best == i64::from(*target);
            }
        }
        let right = right.iter().filter(|right| **right).count();
        Sum::new(right as f64, self.rows as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    const NO: i32 = crate::data::NOT_SCORED;

    fn batch() -> TextBatch {
        TextBatch {
            inputs: vec![4, 5, 6, 4, 5, 0, 7, 7, 8, 7, 7, 8],
            targets: vec![NO, 6, 1, NO, 2, NO, NO, 8, NO, NO, 8, 3],
            documents: Some(vec![1, 1, 1, 2, 2, -1, 1, 1, 2, 2, 2, 2]),
            lengths: Some(vec![5, 6]),
            cols: 6,
            ..TextBatch::default()
        }
    }

    #[test]
    fn tokens_belong_to_the_better_or_the_worse_text_of_their_row() {
        let pairs = Pairs::of(&batch(), 2).unwrap();
        assert_eq!(pairs.places, [1, 2, 4, 7, 10, 11]);
        assert_eq!(pairs.targets, [6, 1, 2, 8, 8, 3]);
        assert_eq!(pairs.texts, [0, 0, 2, 1, 3, 3]);
        assert_eq!(pairs.lengths, [2.0, 1.0, 1.0, 2.0]);
        let others = Tensor::from_floats([5.0, 1.0, 2.0, 4.0], &Device::flex());
        let found: Vec<f32> = pairs.differences(others).into_data().iter().collect();
        assert_eq!(found, [3.0, -3.0]);
        // A row whose worse text has no scored token, and rows that are not pairs.
        let mut lacking = batch();
        lacking.targets[4] = NO;
        assert!(Pairs::of(&lacking, 2).is_none());
        let plain = TextBatch {
            documents: None,
            ..batch()
        };
        assert!(Pairs::of(&plain, 2).is_none());
    }

    #[test]
    fn a_better_text_is_exact_where_all_of_its_tokens_are_the_likeliest() {
        let pairs = Pairs::of(&batch(), 2).unwrap();
        let mut scores = vec![0.0f32; 6 * 9];
        for (token, best) in [6, 0, 2, 8, 8, 3].into_iter().enumerate() {
            scores[token * 9 + best] = 1.0;
        }
        let scores = Tensor::from_data(TensorData::new(scores, [6, 9]), &Device::flex());
        assert_eq!(pairs.count_exact(scores), Sum::new(1.0, 2.0));
    }
}
