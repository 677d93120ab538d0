//! Regression: `logits` `[rows, 1]`, the predicted numbers.

use super::{
    ArrayContent, InferenceOutputs, InferenceTask, Input, InputArrays, LABELS, LOGITS, Scores,
    masked_lm,
};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::Regression;
use crate::task::regression::squared_errors;
use burn::tensor::Tensor;

impl InferenceTask for Regression {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let mut all = masked_lm::text_inputs(&self.model, shape);
        all.push(Input::labels(ArrayContent::Numbers));
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let input = masked_lm::input(given, self.reading.globals, &self.device());
        let lengths = input.lengths.clone();
        let (numbers, hidden) = self.numbers_and_hidden_of(input, pass);
        InferenceOutputs {
            scores: vec![Scores::for_rows(LOGITS, numbers, LABELS)],
            pooled: masked_lm::pooled(&self.model, hidden, lengths.as_deref()),
        }
    }

    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        let input = masked_lm::input(given, self.reading.globals, &self.device());
        self.model.forward(input, pass);
    }

    fn count_labels(&self, given: &InputArrays, labels: &str) -> Option<usize> {
        given.numbers.get(labels).map(Vec::len)
    }

    /// Returns the sum of the squared errors.
    fn loss(&self, scores: &Scores, given: &InputArrays) -> Option<Tensor<1>> {
        let truth = given.numbers.get(scores.labels)?;
        Some(squared_errors(scores.values.clone(), truth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn squares_are_of_distances() {
        let numbers = Tensor::<2>::from_floats([[1.0], [3.0]], &Device::flex());
        let sum = squared_errors(numbers, &[2.0, 0.0]).into_data();
        assert_eq!(sum.iter::<f32>().collect::<Vec<_>>(), [10.0]);
    }
}
