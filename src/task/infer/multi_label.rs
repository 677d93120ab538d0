//! Multi-label classification: `logits` `[rows, classes]`.

use super::{
    ArrayContent, InferenceOutputs, InferenceTask, Input, InputArrays, LABELS, LOGITS, Scores,
    masked_lm,
};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::MultiLabel;
use crate::task::multi_label::loss;
use burn::tensor::Tensor;

impl InferenceTask for MultiLabel {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let mut all = masked_lm::text_inputs(&self.model, shape);
        let classes = shape.classes.len();
        all.push(Input::labels(ArrayContent::Indicators { classes }));
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let input = masked_lm::input(given, self.reading.globals, &self.device());
        let lengths = input.lengths.clone();
        let (scores, hidden) = self.scores_and_hidden_of(input, pass);
        InferenceOutputs {
            scores: vec![Scores::for_rows(LOGITS, scores, LABELS)],
            pooled: masked_lm::pooled(&self.model, hidden, lengths.as_deref()),
        }
    }

    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        let input = masked_lm::input(given, self.reading.globals, &self.device());
        self.model.forward(input, pass);
    }

    /// Counts one label for each row, which may hold several classes or none.
    fn count_labels(&self, given: &InputArrays, labels: &str) -> Option<usize> {
        given.numbers.get(labels).map(|_| given.rows)
    }

    fn loss(&self, scores: &Scores, given: &InputArrays) -> Option<Tensor<1>> {
        let truth = given.numbers.get(scores.labels)?;
        let truth: Vec<i32> = truth.iter().map(|x| i32::from(*x > 0.5)).collect();
        Some(loss(scores.values.clone(), &truth))
    }
}
