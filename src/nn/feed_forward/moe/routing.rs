//! The conversion of a router's scores to weights of experts.

use super::assignment::token_softmax;
use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Added to the sum of sigmoids by which weights are divided, in case all of them underflow.
/// Source: DeepSeek-AI 2024, DeepSeek-V3, released code.
const SUM_EPSILON: f64 = 1e-20;

/// The function applied to a router's scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// The softmax over all experts: the experts of a token compete.
    #[default]
    Softmax,
    /// The sigmoid of each score by itself.
    Sigmoid,
}

impl Score {
    /// Whether experts compete.
    pub fn is_softmax(&self) -> bool {
        *self == Self::Softmax
    }

    /// Returns the values of all experts, `[tokens, experts]`.
    pub(super) fn apply(self, scores: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Softmax => token_softmax(scores),
            Self::Sigmoid => sigmoid(scores),
        }
    }

    /// Returns the values of all experts as shares that sum to 1 for each token; softmax values already do.
    pub(super) fn likelihoods(self, numbers: &Tensor<2>) -> Tensor<2> {
        match self {
            Self::Softmax => numbers.clone(),
            // Each tensor here has at most two uses: a sum of two gradients has only one order, so a recomputed block rounds the
            // same way.
            Self::Sigmoid => self.shares(numbers.clone() * 1.0),
        }
    }

    /// Divides each value by the sum of its row.
    pub(super) fn shares(self, numbers: Tensor<2>) -> Tensor<2> {
        let sum = numbers.clone().sum_dim(1);
        match self {
            Self::Softmax => numbers / sum,
            Self::Sigmoid => numbers / (sum + SUM_EPSILON),
        }
    }
}
