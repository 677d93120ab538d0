//! The facts of a position scheme that checks and plans ask. Each scheme says its own, in its own file.

use super::learned::LearnedConfig;
use super::{Kind, PositionConfig, PositionShape, Span};
use crate::faults::TableFaults;

/// The place where a scheme enters a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acts {
    /// Its vectors are added to the embeddings, and are as wide as these.
    Embeddings,
    /// Its vectors are added to the input of every layer.
    Layers,
    /// It acts on the heads of attention, whose number and width are then one in all layers.
    Heads(Means),
}

/// The way in which a scheme acts on heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Queries and keys are turned before they meet.
    Rotation,
    /// They are turned, and multiplied by factors of which keys have the inverse.
    FadingRotation,
    /// A number for each head and distance is added to the scores.
    Bias,
    /// The same, with other numbers in each layer.
    LayerBias,
    /// A number for each score of its own.
    PairBias,
    /// Vectors of distances meet queries, keys or weights.
    Vectors,
}

/// The things that the rows of a table stand for, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsOf {
    /// Positions: tokens of a text; tokens before the patches of an image, then its patches row by row.
    Positions,
    /// The rows of a grid of patches.
    GridRows,
    /// Its columns.
    GridColumns,
    /// The distances of its patches by rows and columns, then so many rows of a class token where there is one.
    GridDistances(usize),
}

/// The sizes of a model that are known when its keys are checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Width of the residual stream.
    pub d_model: Option<usize>,
    /// Width of a head.
    pub d_head: Option<usize>,
    /// Tokens of the longest input; of an image its patches and the tokens before them that have a place.
    pub context: Option<usize>,
    /// Whether inputs are images.
    pub of_images: bool,
}

/// The keys by which a head has its width, of a scheme that needs another one.
pub(super) const HEAD_KEYS: [&str; 4] = [
    "kind",
    "model.attention.d_head",
    "model.attention.n_heads",
    "model.d_model",
];

/// The facts of a scheme; each default is that of a scheme that has no such thing.
pub trait PositionFacts {
    /// Its row of the family's table.
    fn kind(&self) -> Kind;

    /// The place where it enters.
    fn acts(&self) -> Acts;

    /// Faults of its keys.
    fn faults(&self, _known: &Known, _at: &mut TableFaults) {}

    /// Whether it is for stacks alone that read from left to right.
    fn causal_alone(&self) -> bool {
        false
    }

    /// Segments of a text that its scores tell apart; 0 where they tell none.
    fn segments(&self) -> usize {
        0
    }

    /// Whether it turns values as it turns keys.
    fn turns_values(&self) -> bool {
        false
    }

    /// The scheme of texts that is like it, of one that places the patches of an image by row and column.
    fn of_texts(&self) -> Option<Kind> {
        None
    }

    /// The scheme of images that takes the place of one that goes by distances along a line: patches have none.
    fn of_images(&self) -> Option<Kind> {
        None
    }

    /// Whether it leaves tokens before the patches of an image alone, however many there are, where it acts in the blocks.
    fn leaves_tokens(&self) -> bool {
        false
    }

    /// Whether the attention of some blocks may have it in place of the model's scheme: it acts there, or nowhere, and learns
    /// nothing.
    fn of_blocks(&self) -> bool {
        false
    }

    /// Whether it tells a token its place in the segment that is read, so that it says nothing of earlier segments: their
    /// places are the same (Dai et al. 2019, section 3.3).
    fn by_place(&self) -> bool {
        !matches!(self.acts(), Acts::Heads(_))
    }

    /// The things that the rows of its parameter of this name stand for, so that it can be resampled for others of them; `None`
    /// where none can be made from those that are there.
    fn rows_of(&self, _parameter: &str) -> Option<RowsOf> {
        None
    }

    /// Whether images of smaller grids than the model's may be read beside others
    /// ([`PositionScheme::embed_smaller`](super::PositionScheme::embed_smaller)).
    fn reads_smaller_grids(&self) -> bool {
        false
    }

    /// Rows at the head of a table of positions that are no position's.
    fn reserved(&self) -> usize {
        0
    }

    /// The fault of widths of its own beside embeddings of `width` elements in a model of width `d_model`.
    fn narrow_fault(&self, _width: usize, _d_model: usize) -> Option<String> {
        None
    }

    /// The number of which the model's width must be a multiple.
    fn divides_width(&self) -> usize {
        1
    }

    /// Multiplications that it adds to one layer's attention of this shape: so many queries over `sources` positions, of
    /// which each sees `keys`. What is looked up, added or turned element by element is none; vectors of distances are
    /// projected once, and no query or key meets more of them than there are.
    fn products(&self, _shape: &PositionShape, [_queries, _sources, _keys]: [usize; 3]) -> u128 {
        0
    }

    /// Numbers that it keeps for the backward pass of a batch whose queries see up to so many keys, however many rows there
    /// are: vectors of distances, and those projected by each layer.
    fn kept(&self, _shape: &PositionShape, _keys: usize) -> u128 {
        0
    }
}

impl PositionConfig {
    /// The keys of a learned table with a row for each position, when it is one.
    pub fn learned(&self) -> Option<&LearnedConfig> {
        match self {
            Self::Learned(c) => Some(c),
            _ => None,
        }
    }

    /// The same with so many rows in a learned table, where a number is given.
    #[must_use]
    pub fn with_rows(&self, rows: Option<usize>) -> Self {
        match (self, rows) {
            (Self::Learned(c), Some(_)) => Self::Learned(LearnedConfig {
                max_len: rows,
                ..c.clone()
            }),
            (other, _) => other.clone(),
        }
    }

    /// The scheme's facts.
    pub fn facts(&self) -> &dyn PositionFacts {
        match self {
            Self::None(c) => c,
            Self::Sinusoidal(c) => c,
            Self::Sinusoidal2d(c) => c,
            Self::Learned(c) => c,
            Self::LearnedPerLayer(c) => c,
            Self::Learned2d(c) => c,
            Self::Axial(c) => c,
            Self::Rotary(c) => c,
            Self::Rotary2d(c) => c,
            Self::RotaryCentred(c) => c,
            Self::Xpos(c) => c,
            Self::Alibi(c) => c,
            Self::Kerple(c) => c,
            Self::DynamicBias(c) => c,
            Self::Fire(c) => c,
            Self::RelativeBias(c) => c,
            Self::RelativeBias2d(c) => c,
            Self::RelativeBias2dPerLayer(c) => c,
            Self::Shaw(c) => c,
            Self::TransformerXl(c) => c,
            Self::Disentangled(c) => c,
        }
    }

    /// Whether it acts on the heads of attention.
    pub fn has_heads(&self) -> bool {
        matches!(self.facts().acts(), Acts::Heads(_))
    }
}

/// The span of the last `queries` of so many positions.
pub(super) fn last(queries: usize, keys: usize) -> Span {
    Span {
        queries,
        keys,
        offset: keys.saturating_sub(queries),
    }
}
