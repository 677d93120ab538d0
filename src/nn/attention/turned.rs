//! Queries, keys and values turned by their positions (Su et al. 2021, RoFormer).

use crate::kernel;
use crate::nn::position::Rotation;
use burn::tensor::Tensor;

/// Queries, keys and values turned by their positions, the last ones of the tables; values where the rotation is of them,
/// too.
pub fn rotated(qkv: [Tensor<4>; 3], rotation: Option<&Rotation>) -> [Tensor<4>; 3] {
    let Some(r) = rotation else {
        return qkv;
    };
    let [q, k, v] = qkv;
    [
        turned(q, r),
        turned(k, r),
        if r.values { turned(v, r) } else { v },
    ]
}

/// `x` turned by the last rows of the tables, one for each of its positions.
pub fn turned(x: Tensor<4>, r: &Rotation) -> Tensor<4> {
    let ([_, _, positions, _], [rows, _]) = (x.dims(), r.cos.dims());
    let last = |table: &Tensor<2>| match rows - positions {
        0 => table.clone(),
        others => table.clone().narrow(0, others, positions),
    };
    kernel::rotary(x, last(&r.cos), last(&r.sin), r.interleaved)
}
