//! Facts about a position scheme, queried by checks and plans. Each scheme states them in its own file.

use super::learned::LearnedConfig;
use super::{Kind, PositionConfig, PositionShape, Span};
use crate::faults::TableFaults;

/// The point at which a scheme acts in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActsOn {
    /// Its vectors are added to the embeddings and have their width.
    Embeddings,
    /// Its vectors are added to the input of every layer.
    Layers,
    /// It acts on the heads of attention, whose number and width must then be the same in all layers.
    Heads(HeadEffect),
}

/// The way in which a scheme acts on heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadEffect {
    /// Queries and keys are rotated before their product.
    Rotation,
    /// Queries and keys are rotated and multiplied by factors; the keys' factors are the inverse of the queries'.
    FadingRotation,
    /// A bias for each head and distance is added to the scores.
    Bias,
    /// A bias for each head and distance, different in each layer.
    LayerBias,
    /// A separate bias for each pair of query and key.
    PairBias,
    /// Vectors of distances are combined with queries, keys or weights.
    Vectors,
}

/// What the rows of a table stand for, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsOf {
    /// Positions: tokens of a text; tokens before the patches of an image, then its patches row by row.
    Positions,
    /// The rows of a grid of patches.
    GridRows,
    /// The columns of a grid of patches.
    GridColumns,
    /// The distances of patches by rows and columns, then this many rows for a class token if there is one.
    GridDistances(usize),
}

/// The model's sizes, as far as they are known when the settings are checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownSizes {
    /// Width of the residual stream.
    pub d_model: Option<usize>,
    /// Width of a head.
    pub d_head: Option<usize>,
    /// Number of tokens of the longest input; for an image, its patches and the tokens before them that have a position.
    pub context: Option<usize>,
    /// Whether inputs are images.
    pub is_image: bool,
}

/// The settings that determine the width of a head, named in faults of schemes that need another width.
pub(super) const HEAD_KEYS: [&str; 4] = [
    "kind",
    "model.attention.d_head",
    "model.attention.n_heads",
    "model.d_model",
];

/// The facts of a scheme; the defaults are those of a scheme without the feature.
pub trait PositionFacts {
    /// Entry of this kind in its family's table.
    fn kind(&self) -> Kind;

    /// Returns the point at which the scheme acts.
    fn acts_on(&self) -> ActsOn;

    /// Reports invalid settings.
    fn faults(&self, _known: &KnownSizes, _at: &mut TableFaults) {}

    /// Whether the scheme is only for stacks that read from left to right.
    fn causal_only(&self) -> bool {
        false
    }

    /// Number of segments of a text that the scheme's scores distinguish; 0 if none.
    fn segments(&self) -> usize {
        0
    }

    /// Whether the scheme rotates values as well as keys.
    fn rotates_values(&self) -> bool {
        false
    }

    /// For a scheme that places the patches of an image by row and column: the corresponding scheme for texts.
    fn text_counterpart(&self) -> Option<Kind> {
        None
    }

    /// For a scheme that uses distances along a line, which patches do not have: the scheme that replaces it for images.
    fn image_counterpart(&self) -> Option<Kind> {
        None
    }

    /// For a scheme that acts in the blocks: whether it leaves the tokens before an image's patches unchanged, however many there
    /// are.
    fn skips_prefix_tokens(&self) -> bool {
        false
    }

    /// Whether the attention of some blocks may use this scheme in place of the model's: it must act on heads, or not at all, and
    /// have no learned parameters.
    fn allowed_per_block(&self) -> bool {
        false
    }

    /// Whether the scheme encodes a token's position in the current segment. Such a scheme cannot distinguish earlier segments,
    /// whose tokens have the same positions (Dai et al. 2019, section 3.3).
    fn encodes_absolute_position(&self) -> bool {
        !matches!(self.acts_on(), ActsOn::Heads(_))
    }

    /// Returns what the rows of the parameter of this name stand for, so that the parameter can be resampled for another number
    /// of them; `None` if it cannot be resampled.
    fn rows_of(&self, _parameter: &str) -> Option<RowsOf> {
        None
    }

    /// Whether images of smaller grids than the model's may be read in the same batch
    /// ([`PositionScheme::embed_smaller`](super::PositionScheme::embed_smaller)).
    fn reads_smaller_grids(&self) -> bool {
        false
    }

    /// Number of rows at the start of a table of positions that do not belong to a position.
    fn reserved_rows(&self) -> usize {
        0
    }

    /// Returns the fault of the scheme's own widths if embeddings have `width` elements in a model of width `d_model`.
    fn embedding_width_fault(&self, _width: usize, _d_model: usize) -> Option<String> {
        None
    }

    /// Returns the number of which the model's width must be a multiple.
    fn divides_width(&self) -> usize {
        1
    }

    /// Returns the multiplications that the scheme adds to the attention of one layer of this shape, with `queries` queries over
    /// `sources` positions, of which each query sees `keys`. Lookups, additions and element-wise rotations count as none. Vectors
    /// of distances are projected once, and no query or key meets more of them than exist.
    fn products(&self, _shape: &PositionShape, [_queries, _sources, _keys]: [usize; 3]) -> u128 {
        0
    }

    /// Returns how many values the scheme keeps for the backward pass of a batch whose queries see up to this many keys, whatever
    /// the number of rows: the vectors of distances, and their projections in each layer.
    fn activations(&self, _shape: &PositionShape, _keys: usize) -> u128 {
        0
    }
}

impl PositionConfig {
    /// Returns the settings of a learned table with a row for each position, if that is the scheme.
    pub fn learned(&self) -> Option<&LearnedConfig> {
        match self {
            Self::Learned(c) => Some(c),
            _ => None,
        }
    }

    /// Returns the same scheme with `rows` rows in a learned table, if a number is given.
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

    /// Returns the scheme's facts.
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

    /// Whether the scheme acts on the heads of attention.
    pub fn has_heads(&self) -> bool {
        matches!(self.facts().acts_on(), ActsOn::Heads(_))
    }
}

/// Returns the span of the last `queries` of `keys` positions.
pub(super) fn last_span(queries: usize, keys: usize) -> Span {
    Span {
        queries,
        keys,
        offset: keys.saturating_sub(queries),
    }
}
