//! Token classification: `logits` at every position.

use super::{
    ArrayContent, INPUT_IDS, InferenceOutputs, InferenceTask, Input, InputArrays, Scores, masked_lm,
};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::TokenClassification;

impl InferenceTask for TokenClassification {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let mut all = masked_lm::text_inputs(&self.model, shape);
        all.push(Input::labels(ArrayContent::Targets {
            of: INPUT_IDS,
            below: shape.classes.len(),
        }));
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let input = masked_lm::input(given, self.globals, &self.device());
        InferenceOutputs::of(Scores::for_tokens(self.all_scores(input, pass)))
    }
}
