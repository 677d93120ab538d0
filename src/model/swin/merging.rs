//! Patch merging: four neighbouring places of a map become one, of twice the width (Liu et al. 2021, section 3.1).
//!
//! ```text
//! y = W·norm([x₀₀; x₁₀; x₀₁; x₁₁])      W: 4d → 2d, without a bias
//! ```
//!
//! x_rc is the place in row r and column c of a square of two by two. Zeros fill up a map of odd sides, below and to the right.

use super::window::grown;
use crate::nn::init::{Init, Role};
use crate::nn::linear::Linear;
use crate::nn::norm::{Norm, NormConfig};
use crate::nn::role::{Place, Roles, Says};
use burn::module::Module;
use burn::tensor::Tensor;

/// Where the parameters of a [`PatchMerging`] stand.
pub const ROLES: Roles = Roles::new(
    "PatchMerging",
    &[
        ("norm", Says::Stands(Place::FeedForward)),
        ("reduction", Says::Stands(Place::FeedForward)),
    ],
);

/// Four places become one.
#[derive(Module, Debug)]
pub struct PatchMerging {
    /// Of four places together.
    pub norm: Norm,
    /// `[4·d, 2·d]`.
    pub reduction: Linear,
}

impl PatchMerging {
    /// The merging of places of width `d`.
    pub fn new(d: usize, norm: &NormConfig, init: &Init) -> Self {
        Self {
            norm: norm.init(4 * d, init),
            reduction: Linear::new(4 * d, 2 * d, false, Role::Inner, init),
        }
    }

    /// Places of a map, row by row: `[batch, rows·cols, d]` → `[batch, ⌈rows/2⌉·⌈cols/2⌉, 2·d]`.
    pub fn forward(&self, x: Tensor<3>, [rows, cols]: [usize; 2]) -> Tensor<3> {
        let [batch, _, d] = x.dims();
        let [below, beside] = [rows, cols].map(|side| side.div_ceil(2));
        let map = grown(x.reshape([batch, rows, cols, d]), [2 * below, 2 * beside]);
        let squares = map
            .reshape([batch, below, 2, beside, 2, d])
            .permute([0, 1, 3, 4, 2, 5])
            .reshape([batch, below * beside, 4 * d]);
        self.reduction.forward(self.norm.forward(squares))
    }
}
