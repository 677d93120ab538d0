//! Token embedding: rows of a table, and their gradients added back in a fixed order.

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::{Int, Tensor};

use super::composed;
#[cfg(feature = "kernels")]
use super::{extension::KernelOps, has_kernels};

/// Looks up the rows `ids` `[B, S]` of `weight` `[V, D]`: `[B, S, D]`. Every id must be below V.
pub fn embedding(weight: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<3> {
    #[cfg(feature = "kernels")]
    if has_kernels(&weight) {
        let rows = Dispatch::rows(weight.into_dispatch(), ids.into_dispatch());
        return Tensor::from_dispatch(rows);
    }
    composed::embedding(weight, ids)
}
