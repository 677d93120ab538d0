//! Reward models: `logits` `[rows, 1]`, the rewards of single texts. There are no labels, since a pair has no right
//! answer that an array of rows could hold.

use super::{Inferred, Infers, Input, InputArrays, masked_lm};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::Reward;

impl Infers for Reward {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        masked_lm::of_texts(&self.scorer().model, shape)
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> Inferred {
        self.scorer().infer(given, pass)
    }

    fn read(&self, given: &InputArrays, pass: &Pass) {
        self.scorer().read(given, pass);
    }
}
