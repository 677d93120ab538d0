//! Patch merging: four neighbouring positions of a map become one of twice the width (Liu et al. 2021, section 3.1).
//!
//! ```text
//! y = W·norm([x₀₀; x₁₀; x₀₁; x₁₁])      W: 4d → 2d, without a bias
//! ```
//!
//! x_rc is the position in row r and column c of a two-by-two square. A map with odd sides is padded with zeros below and to the
//! right. If norms follow layers, y = norm(W·[x₀₀; x₁₀; x₀₁; x₁₁]) (Liu et al. 2022, Swin V2).

use super::window::pad_map;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::norm::{Norm, NormConfig};
use crate::nn::role::{Declaration, Place, Roles};
use crate::stack::NormPlacement;
use burn::module::Module;
use burn::tensor::Tensor;

/// Places of the parameters of a [`PatchMerging`].
pub const ROLES: Roles = Roles::new(
    "PatchMerging",
    &[
        ("norm", Declaration::Place(Place::FeedForward)),
        ("reduction", Declaration::Place(Place::FeedForward)),
    ],
);

/// The merging of four positions into one.
#[derive(Module, Debug)]
pub struct PatchMerging {
    /// The norm of the four concatenated positions, or of the merged one.
    pub norm: Norm,
    /// The map onto the merged position, `[4·d, 2·d]`.
    pub reduction: Linear,
    reads_through_norm: bool,
}

impl PatchMerging {
    /// Builds the merging of positions of width `d`.
    pub fn new(d: usize, placement: NormPlacement, norm: &NormConfig, init: &Init) -> Self {
        let reads_through_norm = placement.reads_through_norm();
        let normed = match reads_through_norm {
            true => 4 * d,
            false => 2 * d,
        };
        Self {
            norm: norm.init(normed, init),
            reduction: Linear::new(4 * d, 2 * d, false, MatrixRole::Inner, init),
            reads_through_norm,
        }
    }

    /// Merges the positions of a map, row by row: `[batch, rows·cols, d]` → `[batch, ⌈rows/2⌉·⌈cols/2⌉, 2·d]`.
    pub fn forward(&self, x: Tensor<3>, [rows, cols]: [usize; 2]) -> Tensor<3> {
        let [batch, _, d] = x.dims();
        let [below, beside] = [rows, cols].map(|side| side.div_ceil(2));
        let map = pad_map(x.reshape([batch, rows, cols, d]), [2 * below, 2 * beside]);
        let squares = map
            .reshape([batch, below, 2, beside, 2, d])
            .permute([0, 1, 3, 4, 2, 5])
            .reshape([batch, below * beside, 4 * d]);
        match self.reads_through_norm {
            true => self.reduction.forward(self.norm.forward(squares)),
            false => self.norm.forward(self.reduction.forward(squares)),
        }
    }
}
