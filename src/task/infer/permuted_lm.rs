//! Permutation language modelling: `logits` of the token stream at every position, where each token attends to all
//! others, like Hugging Face's model without a `perm_mask`.

use super::masked_lm::{input, inputs};
use super::{
    ArrayContent, INPUT_IDS, InferenceOutputs, InferenceTask, Input, InputArrays, LABELS, LOGITS,
    Scores,
};
use crate::data::Shape;
use crate::model::GlobalTokens;
use crate::nn::pass::Pass;
use crate::task::PermutedLm;

impl InferenceTask for PermutedLm {
    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        self.model
            .forward(input(given, GlobalTokens::None, &self.device()), pass);
    }

    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let mut all = inputs(&self.model, shape);
        all.push(Input::labels(ArrayContent::Targets {
            of: INPUT_IDS,
            below: shape.vocab_size,
        }));
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let input = input(given, GlobalTokens::None, &self.device());
        let hidden = self.model.forward(input, pass);
        let [rows, tokens, d] = hidden.dims();
        let flat = hidden.reshape([1, rows * tokens, d]);
        let values = self.head.forward(flat, &self.model);
        let vocab = values.dims()[1];
        InferenceOutputs {
            scores: vec![Scores {
                name: LOGITS,
                values,
                shape: vec![rows, tokens, vocab],
                labels: LABELS,
            }],
            pooled: None,
        }
    }
}
