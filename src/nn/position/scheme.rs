//! The trait that attention, stacks and networks ask, and the values that go through it.

use super::{Grid, ScoreBias, Span};
use crate::kernel::{self, Relative};
use crate::nn::pass::Pass;
use burn::tensor::{Device, Int, Tensor};
use std::cell::Cell;

/// Where the tokens of an input stand.
#[derive(Clone, Debug)]
pub struct Places {
    /// Position of the first token: tokens already in the cache come before it.
    pub offset: usize,
    /// Position of each token `[batch, seq]`, when they are not `offset..offset + seq` in every row
    /// (documents packed into one window, each counted from its own start).
    pub ids: Option<Tensor<2, Int>>,
    /// Segment of each token `[batch, seq]`, where an encoder reads texts of several; the first one everywhere otherwise.
    pub segments: Option<Tensor<2, Int>>,
}

/// The places of inputs that are read whole, from their first position on.
pub static FROM_THE_FIRST: Places = Places {
    offset: 0,
    ids: None,
    segments: None,
};

/// The part that all layers of one forward pass share.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Rotation of queries and keys, and of values where it says so.
    pub rotation: Option<Rotation>,
    /// Added to the scores of every layer.
    pub score_bias: ScoreBias,
    /// Vectors of distances as they are before a layer projects them, `[rows, d_model]`.
    pub vectors: Option<Tensor<2>>,
    /// 1 at the segment of each token and 0 at the others, `[batch, seq, segments]`, of a scheme that tells segments apart
    /// in scores.
    pub segments: Option<Tensor<3>>,
}

/// Tables of a rotation: cosines and sines `[queries, rotated/2]` at the queries' positions.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// cos(mθ).
    pub cos: Tensor<2>,
    /// sin(mθ).
    pub sin: Tensor<2>,
    /// Other cosines and sines for keys, where queries are multiplied by a factor and keys by its inverse.
    pub keys: Option<[Tensor<2>; 2]>,
    /// Whether neighbours (2i, 2i+1) make a pair, or (i, i + rotated/2).
    pub interleaved: bool,
    /// Whether values are rotated, too.
    pub values: bool,
}

impl Rotation {
    /// Queries, keys and values turned by their positions, the last ones of the tables; values where the rotation is of
    /// them, too.
    pub fn turned(&self, [q, k, v]: [Tensor<4>; 3]) -> [Tensor<4>; 3] {
        let v = if self.values { self.turn(v) } else { v };
        [self.turn(q), self.turn_keys(k), v]
    }

    /// `x` turned by the last rows of the tables, one for each of its positions.
    pub fn turn(&self, x: Tensor<4>) -> Tensor<4> {
        self.turn_by(x, [&self.cos, &self.sin])
    }

    /// The same of keys.
    pub fn turn_keys(&self, x: Tensor<4>) -> Tensor<4> {
        match &self.keys {
            Some([cos, sin]) => self.turn_by(x, [cos, sin]),
            None => self.turn(x),
        }
    }

    fn turn_by(&self, x: Tensor<4>, [cos, sin]: [&Tensor<2>; 2]) -> Tensor<4> {
        let ([_, _, positions, _], [rows, _]) = (x.dims(), cos.dims());
        let last = |table: &Tensor<2>| match rows - positions {
            0 => table.clone(),
            others => table.clone().narrow(0, others, positions),
        };
        kernel::rotary(x, last(cos), last(sin), self.interleaved)
    }

    /// Each table changed by `f`.
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

/// The attention of a layer, as a scheme of distances sees it.
pub struct Attending<'a> {
    /// Number of the layer whose parameters it has, in its stack.
    pub layer: usize,
    /// Where its queries and keys stand.
    pub span: Span,
    /// The factor on its scores.
    pub scale: f64,
    /// Its maps onto queries and keys, for schemes that project vectors of distances with them.
    pub heads: &'a dyn Projections,
    /// What all layers of this pass share.
    pub prepared: &'a Prepared,
    /// A table by heads `[heads, rows, d_head]` that the scheme keeps with the layer's cache in decoding; `None` where a layer
    /// keeps nothing.
    pub kept: Option<&'a Cell<Option<Tensor<3>>>>,
    /// Where its tensors live.
    pub device: &'a Device,
    /// Dropout's draws.
    pub pass: &'a Pass,
}

/// The linear maps of attention, head by head.
pub trait Projections {
    /// `[rows, d_model]` as queries, `[heads, rows, d_head]`.
    fn queries(&self, x: Tensor<2>) -> Tensor<3>;

    /// `[rows, d_model]` as the keys of each query head, `[heads, rows, d_head]`.
    fn keys(&self, x: Tensor<2>) -> Tensor<3>;
}

/// The vectors by which a layer's queries tell keys of their own segment from others (Yang et al. 2019, XLNet, section 2.5).
#[derive(Clone, Debug)]
pub struct SegmentVectors {
    /// Added to the queries before they meet the vectors, `[heads, d_head]`.
    pub shift: Tensor<2>,
    /// That of the query's own segment for each head, then that of any other one, `[2·heads, d_head]`.
    pub vectors: Tensor<2>,
}

/// The work of a position scheme; each default does nothing.
pub trait PositionScheme {
    /// Changes the embeddings `[batch, seq, d_model]` before the first layer.
    fn embed(&self, x: Tensor<3>, _at: &Places) -> Tensor<3> {
        x
    }

    /// As [`Self::embed`] for an image of a smaller grid `to` than the model's grid `from`, of a scheme that reads such images.
    fn embed_smaller(&self, x: Tensor<3>, _from: Grid, _to: Grid) -> Tensor<3> {
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

    /// The rotation of a training pass that draws one, in place of the one of [`Self::prepare`].
    fn drawn(&self, _span: Span, _device: &Device, _pass: &Pass) -> Option<Rotation> {
        None
    }

    /// Whether a text that continues behind `seen` positions has these turned otherwise than the text so far, so that keys in a
    /// cache are not those of one pass over all of it.
    fn turns_anew(&self, _seen: usize) -> bool {
        false
    }

    /// Vectors of the distances of a pass before any layer projects them, `[rows, d_model]`: [`Prepared::vectors`]. `None` also
    /// where layers keep them projected ([`Attending::kept`]).
    fn vectors(&self, _span: Span, _device: &Device, _pass: &Pass) -> Option<Tensor<2>> {
        None
    }

    /// Added to the scores of one layer, in place of what all layers share.
    fn score_bias(&self, _: &Attending) -> Option<ScoreBias> {
        None
    }

    /// The share of distances in the scores and values of a layer, through vectors that queries and keys are multiplied
    /// with.
    fn relative(&self, _: &Attending) -> Option<Relative> {
        None
    }

    /// Segments that its scores tell apart; 0 where they tell none.
    fn segments(&self) -> usize {
        0
    }

    /// The vectors by which the layer with these parameters tells segments apart.
    fn segment_vectors(&self, _layer: usize) -> Option<SegmentVectors> {
        None
    }

    /// The longest input that the scheme can place, when it has a limit.
    fn max_len(&self) -> Option<usize> {
        None
    }
}

/// Vectors of all heads `[rows, heads·d_head]`, head by head: `[heads, rows, d_head]`.
pub(crate) fn by_heads(x: Tensor<2>, heads: usize) -> Tensor<3> {
    let [rows, width] = x.dims();
    x.reshape([rows, heads, width / heads]).swap_dims(0, 1)
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
