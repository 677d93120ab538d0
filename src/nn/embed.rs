//! Token embeddings: a table of vectors, optionally scaled and normalised.

use super::init::Init;
use super::norm::{Norm, NormConfig};
use crate::kernel;
use crate::nn::role::{Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

/// The roles of the parameters of [`Embedding`].
pub const ROLES: Roles = Roles::new("Embedding", &[("weight", TABLE)]);

/// The table of token vectors and what happens to them on the way in.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[vocab, d_model]`.
    pub weight: Param<Tensor<2>>,
    /// Norm on the embeddings, as in BLOOM and BART.
    pub norm: Option<Norm>,
    scale: f64,
}

impl Embedding {
    /// A table for `vocab` tokens; `scale` multiplies the vectors (√d_model in the 2017 Transformer).
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

    /// Vectors of `ids` `[batch, seq]` as `[batch, seq, d_model]`.
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        self.scaled(kernel::embedding(self.weight.val(), ids))
    }

    /// [`Self::forward`] of the sum of this table and another one, to which no gradient goes.
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

    /// The table as a head: scores of tokens by their vectors.
    pub fn head(&self) -> kernel::Head {
        kernel::Head {
            weight: self.weight.val(),
            bias: None,
        }
    }
}

/// Segment vectors `[batch, seq, d]`. A table of one row has one vector for all tokens, whatever their segment.
pub fn segment_vectors(
    table: Tensor<2>,
    segments: Option<Tensor<2, Int>>,
    batch: usize,
    seq: usize,
) -> Tensor<3> {
    let [rows, d] = table.dims();
    match segments {
        // A further segment counts as the last.
        Some(ids) if rows > 1 => kernel::embedding(table, ids.clamp_max(rows as i64 - 1)),
        Some(_) | None => table
            .slice([0..1, 0..d])
            .reshape([1, 1, d])
            .expand([batch, seq, d]),
    }
}
