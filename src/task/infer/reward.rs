//! Reward models: `logits` `[rows, 1]`, the rewards of single texts. There are no labels, since a pair has no right
//! answer that an array of rows could hold.

use super::{InferenceOutputs, InferenceTask, Input, InputArrays, masked_lm};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::Reward;

impl InferenceTask for Reward {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        masked_lm::text_inputs(&self.scorer().model, shape)
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        self.scorer().infer(given, pass)
    }

    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        self.scorer().run_for_records(given, pass);
    }
}
