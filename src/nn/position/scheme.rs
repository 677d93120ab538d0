//! The trait that attention, stacks and networks ask, and the values that go through it.

use super::{ScoreBias, Span};
use burn::tensor::{Device, Int, Tensor};

/// Where the tokens of an input stand.
#[derive(Clone, Debug)]
pub struct Places {
    /// Position of the first token: tokens already in the cache come before it.
    pub offset: usize,
    /// Position of each token `[batch, seq]`, when they are not `offset..offset + seq` in every row
    /// (documents packed into one window, each counted from its own start).
    pub ids: Option<Tensor<2, Int>>,
}

/// The part that all layers of one forward pass share.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Rotation of queries and keys.
    pub rotation: Option<Rotation>,
    /// Added to the scores of every layer.
    pub score_bias: ScoreBias,
}

/// Tables of a rotation: cosines and sines `[queries, rotated/2]` at the queries' positions.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// cos(mθ).
    pub cos: Tensor<2>,
    /// sin(mθ).
    pub sin: Tensor<2>,
    /// Whether neighbours (2i, 2i+1) make a pair, or (i, i + rotated/2).
    pub interleaved: bool,
}

/// The tensors that the attention of a layer compares.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    /// Number of the layer in its stack.
    pub layer: usize,
    /// Queries after their rotation, `[batch, heads, queries, d_head]`.
    pub query: &'a Tensor<4>,
    /// Keys after their rotation, `[batch, kv heads, keys, d_head]`.
    pub key: &'a Tensor<4>,
    /// Where they stand.
    pub span: Span,
    /// Factor of their products.
    pub scale: f64,
}

/// The work of a position scheme; each default does nothing.
pub trait PositionScheme {
    /// Changes the embeddings `[batch, seq, d_model]` before the first layer.
    fn embed(&self, x: Tensor<3>, _at: &Places) -> Tensor<3> {
        x
    }

    /// Changes the input of a layer.
    fn embed_layer(&self, x: Tensor<3>, _layer: usize, _at: &Places) -> Tensor<3> {
        x
    }

    /// Computes what the layers of one pass share.
    fn prepare(&self, _span: Span, _device: &Device) -> Prepared {
        Prepared::default()
    }

    /// The bias of the scores of a layer, from the bias that all layers share. Shaw et al. 2018, Transformer-XL (Dai
    /// et al. 2019) and DeBERTa (He et al. 2021) add products of queries or keys with vectors of distances:
    /// [`kernel::by_pair`](crate::kernel::by_pair) turns those into products of pairs.
    fn score_bias(&self, _: &Compared, shared: ScoreBias) -> ScoreBias {
        shared
    }

    /// The vectors added to the values of a layer, by distance, `[1 or heads, queries + keys − 1, d_head]`
    /// ([`kernel::Relations`](crate::kernel::Relations)).
    fn values(&self, _layer: usize, _span: Span, _device: &Device) -> Option<Tensor<3>> {
        None
    }

    /// The longest input that the scheme can place, when it has a limit.
    fn max_len(&self) -> Option<usize> {
        None
    }
}

/// The rows of a table `[positions, d]` for the tokens of `x`, as `[1 or batch, seq, d]`.
pub(crate) fn rows(table: Tensor<2>, seq: usize, at: &Places) -> Tensor<3> {
    let [positions, d] = table.dims();
    match &at.ids {
        Some(ids) => crate::kernel::embedding(table, ids.clone()),
        None => {
            assert!(
                at.offset + seq <= positions,
                "positions {}..{} of a table of {positions}",
                at.offset,
                at.offset + seq
            );
            table
                .slice([at.offset..at.offset + seq, 0..d])
                .unsqueeze_dim(0)
        }
    }
}
