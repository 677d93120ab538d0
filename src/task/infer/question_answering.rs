//! Question answering: `start_logits` and `end_logits` `[rows, tokens]`.

use super::{
    ArrayContent, INPUT_IDS, InferenceOutputs, InferenceTask, Input, InputArrays, Requirement,
    Scores, masked_lm,
};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::QuestionAnswering;
use burn::tensor::Tensor;

/// Names of the labels: the first and the last token of each row's answer, `[rows]`.
pub const POSITIONS: [&str; 2] = ["start_positions", "end_positions"];
const LOGITS: [&str; 2] = ["start_logits", "end_logits"];

impl InferenceTask for QuestionAnswering {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let mut all = masked_lm::text_inputs(&self.model, shape);
        let position = ArrayContent::Position { of: INPUT_IDS };
        let [start, end] = POSITIONS;
        all.push(Input::new(start, position, Requirement::IfGiven(end)));
        all.push(Input::new(end, position, Requirement::IfGiven(start)));
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let input = masked_lm::input(given, self.globals, &self.device());
        let scores = self.scores(input, pass);
        let [twice, cols] = scores.dims();
        let both = scores.reshape([twice / 2, 2, cols]);
        let side = |side: usize| {
            let values = both.clone().narrow(1, side, 1).reshape([twice / 2, cols]);
            Scores::for_rows(LOGITS[side], values, POSITIONS[side])
        };
        InferenceOutputs {
            scores: vec![side(0), side(1)],
            pooled: None,
        }
    }

    /// Returns half of each cross-entropy, since the loss is the mean of the two.
    fn loss(&self, scores: &Scores, given: &InputArrays) -> Option<Tensor<1>> {
        let targets = self.targets(given, scores.labels)?;
        Some(scores.loss(targets) * 0.5)
    }
}
