//! Token embeddings: an embedding table whose vectors are optionally scaled and normalised.

use super::init::Init;
use super::norm::{Norm, NormConfig};
use crate::kernel;
use crate::nn::role::{Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

/// Roles of the parameters of [`Embedding`].
pub const ROLES: Roles = Roles::new("Embedding", &[("weight", TABLE)]);

/// The token embedding table, with the scale and the norm applied after the lookup.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[vocab, d_model]`.
    pub weight: Param<Tensor<2>>,
    /// Norm on the embeddings, as in BLOOM and BART.
    pub norm: Option<Norm>,
    scale: f64,
}

impl Embedding {
    /// Builds a table for `vocab` tokens; `scale` multiplies the vectors (√d_model in the 2017 Transformer).
    pub fn new(
        vocab: usize,
        d_model: usize,
        scale: f64,
        norm: Option<&NormConfig>,
        init: &Init,
    ) -> Self {
        Self {
            weight: init.table(vocab, d_model),
            norm: norm.map(|n| n.init(d_model, init)),
            scale,
        }
    }

    /// Looks up the vectors of `ids` `[batch, seq]` as `[batch, seq, d_model]`.
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        self.scaled(kernel::embedding(self.weight.val(), ids))
    }

    /// Like [`Self::forward`] for the sum of this table and `other`, which receives no gradient.
    pub fn forward_with(&self, other: &Self, ids: Tensor<2, Int>) -> Tensor<3> {
        let fixed = kernel::untracked(other.weight.val());
        let fixed = kernel::embedding(fixed, ids.clone().inner());
        let x = kernel::embedding(self.weight.val(), ids);
        let fixed = match x.is_autodiff() {
            true => Tensor::from_inner(fixed),
            false => fixed,
        };
        self.scaled(x + fixed)
    }

    fn scaled(&self, x: Tensor<3>) -> Tensor<3> {
        let x = if self.scale == 1.0 { x } else { x * self.scale };
        match &self.norm {
            Some(norm) => norm.forward(x),
            None => x,
        }
    }

    /// Returns the table as an LM head (tied weights): a token's logit is the product with its vector.
    pub fn head(&self) -> kernel::Head {
        kernel::Head {
            weight: self.weight.val(),
            bias: None,
        }
    }
}

/// Returns the segment vectors `[batch, seq, d]`. A table with one row gives all tokens the same vector, whatever their segment.
pub fn segment_vectors(
    table: Tensor<2>,
    segments: Option<Tensor<2, Int>>,
    batch: usize,
    seq: usize,
) -> Tensor<3> {
    let [rows, d] = table.dims();
    match segments {
        // A segment number beyond the table counts as the last segment.
        Some(ids) if rows > 1 => kernel::embedding(table, ids.clamp_max(rows as i64 - 1)),
        Some(_) | None => table
            .slice([0..1, 0..d])
            .reshape([1, 1, d])
            .expand([batch, seq, d]),
    }
}
