//! How the scores of a router become the weights of experts.

use super::route::likelihoods;
use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Added to sums of sigmoids that weights are divided by: all of them may be too small for a number.
/// Source: DeepSeek-AI 2024, DeepSeek-V3, released code.
const LEAST: f64 = 1e-20;

/// What is made of a router's scores.
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

    /// The numbers of all experts, `[tokens, experts]`.
    pub(super) fn of(self, scores: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Softmax => likelihoods(scores),
            Self::Sigmoid => sigmoid(scores),
        }
    }

    /// The numbers of all experts as shares of a token: as they are where they add up to 1.
    pub(super) fn likelihoods(self, numbers: &Tensor<2>) -> Tensor<2> {
        match self {
            Self::Softmax => numbers.clone(),
            // Two uses of the numbers, and two of what is used here: a sum of two gradients has one order, so that a block that
            // computes itself once more rounds alike.
            Self::Sigmoid => self.shares(numbers.clone() * 1.0),
        }
    }

    /// Each number of a row by the row's sum.
    pub(super) fn shares(self, numbers: Tensor<2>) -> Tensor<2> {
        let sum = numbers.clone().sum_dim(1);
        match self {
            Self::Softmax => numbers / sum,
            Self::Sigmoid => numbers / (sum + LEAST),
        }
    }
}
