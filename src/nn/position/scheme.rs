//! The trait through which attention, stacks and networks use a position scheme, and the values that it exchanges.

use super::{Grid, ScoreBias, Span};
use crate::kernel::{self, Relative};
use crate::nn::pass::Pass;
use burn::tensor::{Device, Int, Tensor};
use std::cell::Cell;

/// The positions of an input's tokens.
#[derive(Clone, Debug)]
pub struct TokenPositions {
    /// Position of the first token: tokens already in the cache come before it.
    pub offset: usize,
    /// Position of each token `[batch, seq]`, if they are not `offset..offset + seq` in every row
    /// (documents packed into one window, each counted from its own start).
    pub ids: Option<Tensor<2, Int>>,
    /// Segment of each token `[batch, seq]`, if an encoder reads texts with several; otherwise all tokens belong to the first.
    pub segments: Option<Tensor<2, Int>>,
}

/// The positions of inputs that are read whole, starting at position 0.
pub static FROM_START: TokenPositions = TokenPositions {
    offset: 0,
    ids: None,
    segments: None,
};

/// What all layers of one forward pass share.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Rotation of queries and keys, and of values if it says so.
    pub rotation: Option<Rotation>,
    /// Bias added to the scores of every layer.
    pub score_bias: ScoreBias,
    /// Vectors of distances before a layer projects them, `[rows, d_model]`.
    pub vectors: Option<Tensor<2>>,
    /// For a scheme that distinguishes segments in scores: 1 at the segment of each token and 0 at the others,
    /// `[batch, seq, segments]`.
    pub segments: Option<Tensor<3>>,
}

/// Tables of a rotation: cosines and sines `[queries, rotated/2]` at the positions of the queries.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// cos(mθ).
    pub cos: Tensor<2>,
    /// sin(mθ).
    pub sin: Tensor<2>,
    /// Separate cosines and sines for keys, if queries are multiplied by a factor and keys by its inverse.
    pub keys: Option<[Tensor<2>; 2]>,
    /// Whether pairs are formed by neighbours (2i, 2i+1), rather than by (i, i + rotated/2).
    pub interleaved: bool,
    /// Whether values are rotated, too.
    pub values: bool,
}

impl Rotation {
    /// Rotates queries and keys by their positions, which are the last ones of the tables, and values if the rotation includes
    /// them.
    pub fn rotate_qkv(&self, [q, k, v]: [Tensor<4>; 3]) -> [Tensor<4>; 3] {
        let v = if self.values { self.rotate(v) } else { v };
        [self.rotate(q), self.rotate_keys(k), v]
    }

    /// Rotates `x` by the last rows of the tables, one row for each of its positions.
    pub fn rotate(&self, x: Tensor<4>) -> Tensor<4> {
        self.rotate_with(x, [&self.cos, &self.sin])
    }

    /// Like [`Self::rotate`], with the tables for keys.
    pub fn rotate_keys(&self, x: Tensor<4>) -> Tensor<4> {
        match &self.keys {
            Some([cos, sin]) => self.rotate_with(x, [cos, sin]),
            None => self.rotate(x),
        }
    }

    fn rotate_with(&self, x: Tensor<4>, [cos, sin]: [&Tensor<2>; 2]) -> Tensor<4> {
        let ([_, _, positions, _], [rows, _]) = (x.dims(), cos.dims());
        let last = |table: &Tensor<2>| match rows - positions {
            0 => table.clone(),
            others => table.clone().narrow(0, others, positions),
        };
        kernel::rotary(x, last(cos), last(sin), self.interleaved)
    }

    /// Applies `f` to each table.
    #[must_use]
    pub fn map(self, f: impl Fn(Tensor<2>) -> Tensor<2>) -> Self {
        Self {
            cos: f(self.cos),
            sin: f(self.sin),
            keys: self.keys.map(|tables| tables.map(&f)),
            ..self
        }
    }
}

/// The attention of a layer, as a scheme based on distances sees it.
pub struct AttentionView<'a> {
    /// Number of the layer that owns the attention's parameters, in its stack.
    pub layer: usize,
    /// Positions of the queries and keys.
    pub span: Span,
    /// Factor on the scores.
    pub scale: f64,
    /// The projections to queries and keys, for schemes that project vectors of distances with them.
    pub heads: &'a dyn HeadProjections,
    /// What all layers of this pass share.
    pub prepared: &'a Prepared,
    /// A table by heads `[heads, rows, d_head]` that the scheme stores in the layer's cache in decoding; `None` if the layer
    /// keeps nothing.
    pub cached_table: Option<&'a Cell<Option<Tensor<3>>>>,
    /// Device of the tensors.
    pub device: &'a Device,
    /// The current pass, for the draws of dropout.
    pub pass: &'a Pass,
}

/// The linear maps of attention to queries and keys, head by head.
pub trait HeadProjections {
    /// Projects `[rows, d_model]` like queries to `[heads, rows, d_head]`.
    fn queries(&self, x: Tensor<2>) -> Tensor<3>;

    /// Projects `[rows, d_model]` like the keys of each query head to `[heads, rows, d_head]`.
    fn keys(&self, x: Tensor<2>) -> Tensor<3>;
}

/// The vectors with which a layer's queries distinguish keys of their own segment from others (Yang et al. 2019, XLNet,
/// section 2.5).
#[derive(Clone, Debug)]
pub struct SegmentVectors {
    /// Added to the queries before the product with the vectors, `[heads, d_head]`.
    pub shift: Tensor<2>,
    /// For each head the vector for the query's own segment, then for each head the vector for any other, `[2·heads, d_head]`.
    pub vectors: Tensor<2>,
}

/// The operations of a position scheme; each default does nothing.
pub trait PositionScheme {
    /// Changes the embeddings `[batch, seq, d_model]` before the first layer.
    fn embed(&self, x: Tensor<3>, _at: &TokenPositions) -> Tensor<3> {
        x
    }

    /// Like [`Self::embed`] for an image whose grid `to` is smaller than the model's grid `from`, for schemes that support this.
    fn embed_smaller(&self, x: Tensor<3>, _from: Grid, _to: Grid) -> Tensor<3> {
        x
    }

    /// Changes the input of a layer.
    fn embed_layer(&self, x: Tensor<3>, _layer: usize, _at: &TokenPositions) -> Tensor<3> {
        x
    }

    /// Computes everything that the layers of one pass share.
    fn prepare(&self, _span: Span, _device: &Device) -> Prepared {
        Prepared::default()
    }

    /// Returns the rotation of a training pass that draws one at random, in place of the rotation of [`Self::prepare`].
    fn random_rotation(&self, _span: Span, _device: &Device, _pass: &Pass) -> Option<Rotation> {
        None
    }

    /// Whether a text that continues after `seen` positions would have these rotated differently, so that the keys in a cache do
    /// not match those of one pass over the whole text.
    fn rotation_changes_after(&self, _seen: usize) -> bool {
        false
    }

    /// Returns the vectors of the distances of a pass before any layer projects them, `[rows, d_model]`: [`Prepared::vectors`].
    /// `None` also if layers keep them in projected form ([`AttentionView::cached_table`]).
    fn vectors(&self, _span: Span, _device: &Device, _pass: &Pass) -> Option<Tensor<2>> {
        None
    }

    /// Returns the bias for the scores of one layer, which replaces the bias shared by all layers.
    fn score_bias(&self, _: &AttentionView) -> Option<ScoreBias> {
        None
    }

    /// Returns the contribution of distances to the scores and values of a layer, through vectors that queries and keys are
    /// multiplied with.
    fn relative(&self, _: &AttentionView) -> Option<Relative> {
        None
    }

    /// Number of segments that the scheme's scores distinguish; 0 if none.
    fn segments(&self) -> usize {
        0
    }

    /// Returns the vectors with which the layer with these parameters distinguishes segments.
    fn segment_vectors(&self, _layer: usize) -> Option<SegmentVectors> {
        None
    }

    /// Returns the longest input that the scheme supports, if there is a limit.
    fn max_len(&self) -> Option<usize> {
        None
    }
}

/// Splits vectors of all heads `[rows, heads·d_head]` into heads, `[heads, rows, d_head]`.
pub(crate) fn split_heads(x: Tensor<2>, heads: usize) -> Tensor<3> {
    let [rows, width] = x.dims();
    x.reshape([rows, heads, width / heads]).swap_dims(0, 1)
}

/// Looks up the rows of a table `[positions, d]` for `seq` tokens, as `[1 or batch, seq, d]`.
pub(crate) fn lookup_rows(table: Tensor<2>, seq: usize, at: &TokenPositions) -> Tensor<3> {
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
