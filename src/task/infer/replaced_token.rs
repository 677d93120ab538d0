//! Replaced-token detection: `logits` `[rows, tokens]`, above 0 for tokens that are predicted to be replaced, as in
//! Hugging Face's discriminators. Labels are 1 for replaced tokens and 0 otherwise.

use super::{
    ATTENTION_MASK, ArrayContent, INPUT_IDS, InferenceOutputs, InferenceTask, Input, InputArrays,
    LABELS, LOGITS, Scores, masked_lm,
};
use crate::data::{NOT_SCORED, Shape};
use crate::model::GlobalTokens;
use crate::nn::pass::Pass;
use crate::task::ReplacedToken;

impl InferenceTask for ReplacedToken {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let mut all = masked_lm::inputs(&self.model, shape);
        all.push(Input::labels(ArrayContent::Targets {
            of: INPUT_IDS,
            below: 2,
        }));
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let scores = self.scores(
            masked_lm::input(given, GlobalTokens::None, &self.device()),
            pass,
        );
        let [rows, tokens] = scores.dims();
        InferenceOutputs::of(Scores {
            name: LOGITS,
            values: scores.reshape([rows * tokens, 1]),
            shape: vec![rows, tokens],
            labels: LABELS,
        })
    }

    /// Labels at padding are not scored.
    fn targets(&self, given: &InputArrays, labels: &str) -> Option<Vec<i32>> {
        let labels = given.values(labels)?.iter();
        Some(match given.values(ATTENTION_MASK) {
            Some(mask) => labels
                .zip(mask)
                .map(|(label, mask)| if *mask == 1 { *label } else { NOT_SCORED })
                .collect(),
            None => labels.copied().collect(),
        })
    }
}
