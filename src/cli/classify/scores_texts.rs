//! Networks that predict numbers for texts.

use crate::data::batch::TextBatch;
use crate::nn::pass::Pass;
use crate::task::{Regression, TextClassification};
use burn::tensor::Tensor;

/// A network that predicts from one text example.
pub(super) trait ScoresTexts {
    fn class_scores(&self, texts: &TextBatch) -> Tensor<2>;
}

impl ScoresTexts for TextClassification {
    fn class_scores(&self, texts: &TextBatch) -> Tensor<2> {
        self.scores(texts, &self.device(), &Pass::evaluation())
    }
}

impl ScoresTexts for Regression {
    fn class_scores(&self, texts: &TextBatch) -> Tensor<2> {
        self.numbers(texts, &self.device(), &Pass::evaluation())
    }
}
