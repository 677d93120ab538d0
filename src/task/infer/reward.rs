//! Rewards of single texts: `logits` `[rows, 1]`. A pair has no right answer that an array of rows could say, so that there are no labels.

use super::{Given, Inferred, Infers, Input, masked_lm};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::Reward;

impl Infers for Reward {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        masked_lm::of_texts(&self.scorer().model, shape)
    }

    fn infer(&self, given: &Given, pass: &Pass) -> Inferred {
        self.scorer().infer(given, pass)
    }

    fn read(&self, given: &Given, pass: &Pass) {
        self.scorer().read(given, pass);
    }
}
