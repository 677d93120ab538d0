//! Token classification: `logits` at every position.

use super::{ArrayContent, INPUT_IDS, Inferred, Infers, Input, InputArrays, Scores, masked_lm};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::TokenClassification;

impl Infers for TokenClassification {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let mut all = masked_lm::of_texts(&self.model, shape);
        all.push(Input::labels(ArrayContent::Targets {
            of: INPUT_IDS,
            below: shape.classes.len(),
        }));
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> Inferred {
        let input = masked_lm::input(given, self.globals, &self.device());
        Inferred::of(Scores::of_tokens(self.all_scores(input, pass)))
    }
}
