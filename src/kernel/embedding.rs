//! Token embedding: rows of a table, and their gradients added back in a fixed order.

use burn::tensor::{Int, Tensor};

use super::composed;

/// The rows `ids` `[B, S]` of `weight` `[V, D]`: `[B, S, D]`. Every id must be below V.
pub fn embedding(weight: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<3> {
    composed::embedding(weight, ids)
}
