//! Text classification: `logits` of every row.

use super::{ATTENTION_MASK, GLOBAL_ATTENTION_MASK};
use super::{
    ArrayContent, InferenceOutputs, InferenceTask, Input, InputArrays, LABELS, LOGITS, Scores,
    masked_lm,
};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::TextClassification;

impl InferenceTask for TextClassification {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let mut all = masked_lm::text_inputs(&self.model, shape);
        // Texts that are read separately share no row in which global tokens of both could be marked.
        all.retain(|input| !self.reading.towers || input.name != GLOBAL_ATTENTION_MASK);
        let below = shape.classes.len();
        all.push(Input::labels(ArrayContent::Classes { below }));
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let device = self.device();
        let (scores, hidden) = match given.integers.contains_key(GLOBAL_ATTENTION_MASK) {
            true => {
                let input = masked_lm::input(given, self.reading.globals, &device);
                self.scores_and_hidden_of(input, pass)
            }
            false => self.scores_and_hidden(&masked_lm::texts(given), &device, pass),
        };
        let lengths = given.lengths(ATTENTION_MASK);
        InferenceOutputs {
            scores: vec![Scores::for_rows(LOGITS, scores, LABELS)],
            pooled: masked_lm::pooled(&self.model, hidden, lengths.as_deref()),
        }
    }

    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        let input = masked_lm::input(given, self.reading.globals, &self.device());
        self.model.forward(input, pass);
    }
}
