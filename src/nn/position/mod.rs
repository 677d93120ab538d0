//! Position schemes: how a model knows where a token stands.
//!
//! A scheme enters at up to four places: added to the embeddings (once, or before every layer), rotating queries
//! and keys, added to attention's scores, and added to its values. What depends on the span of positions alone is
//! prepared once a forward pass ([`Prepared`]) and shared by all layers; what depends on a layer, or meets queries and keys
//! as vectors, is asked for in every layer ([`PositionScheme::relative`]).

pub mod alibi;
pub mod learned;
pub mod learned_per_layer;
pub mod none;
pub mod relative_bias;
pub mod relative_bias_2d;
pub mod resample;
pub mod rotary;
pub mod rotary_2d;
pub mod scheme;
pub mod sinusoidal;
pub mod sinusoidal_2d;

use super::Kind;
use super::init::Init;
use crate::faults::TableFaults;
pub use crate::kernel::{ScoreBias, Span};
use alibi::{Alibi, AlibiConfig};
use burn::module::Module;
use learned::{Learned, LearnedConfig};
use learned_per_layer::{LearnedPerLayer, LearnedPerLayerConfig};
use none::{NoPosition, NoPositionConfig};
use relative_bias::{RelativeBias, RelativeBiasConfig};
use relative_bias_2d::{RelativeBias2d, RelativeBias2dConfig};
use rotary::{Rotary, RotaryConfig};
use rotary_2d::{Rotary2d, Rotary2dConfig};
pub(crate) use scheme::rows;
pub use scheme::{Attending, Places, PositionScheme, Prepared, Projections, Rotation};
use serde::{Deserialize, Serialize};
use sinusoidal::{Sinusoidal, SinusoidalConfig};
use sinusoidal_2d::{Sinusoidal2d, Sinusoidal2dConfig};

/// The kinds of `[model] position`.
pub const KINDS: &[Kind] = &[
    none::KIND,
    sinusoidal::KIND,
    sinusoidal_2d::KIND,
    learned::KIND,
    learned_per_layer::KIND,
    rotary::KIND,
    rotary_2d::KIND,
    alibi::KIND,
    relative_bias::KIND,
    relative_bias_2d::KIND,
];

/// Which position scheme a model uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PositionConfig {
    /// No positions.
    None(NoPositionConfig),
    /// Fixed sines and cosines, added to the embeddings.
    Sinusoidal(SinusoidalConfig),
    /// Fixed sines and cosines of an image's columns and rows.
    #[serde(rename = "sinusoidal_2d")]
    Sinusoidal2d(Sinusoidal2dConfig),
    /// A learned table, added to the embeddings.
    Learned(LearnedConfig),
    /// A learned table for each layer.
    LearnedPerLayer(LearnedPerLayerConfig),
    /// Queries and keys rotated by their position.
    Rotary(RotaryConfig),
    /// Queries and keys of an image rotated by column and row.
    #[serde(rename = "rotary_2d")]
    Rotary2d(Rotary2dConfig),
    /// Scores lowered in proportion to distance.
    Alibi(AlibiConfig),
    /// A learned scalar for each head and distance bucket.
    RelativeBias(RelativeBiasConfig),
    /// A learned scalar for each head and distance by rows and columns of an image.
    #[serde(rename = "relative_bias_2d")]
    RelativeBias2d(RelativeBias2dConfig),
}

impl Default for PositionConfig {
    fn default() -> Self {
        Self::Learned(LearnedConfig::default())
    }
}

/// The model's shape, as far as a position scheme depends on it.
#[derive(Clone, Copy, Debug)]
pub struct PositionShape {
    /// Width of the residual stream.
    pub d_model: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Width of a head.
    pub d_head: usize,
    /// Layers.
    pub n_layers: usize,
    /// Longest training input in tokens.
    pub context: usize,
    /// Whether a query sees earlier keys only.
    pub causal: bool,
    /// How the positions lie in an image; `None` in a text.
    pub grid: Option<Grid>,
}

/// The patches of an image, row by row, behind a class token when there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Patches from top to bottom.
    pub rows: usize,
    /// Patches from left to right.
    pub cols: usize,
    /// Whether a class token comes first.
    pub class_token: bool,
}

impl Grid {
    /// Positions, the class token's included.
    pub fn positions(self) -> usize {
        usize::from(self.class_token) + self.rows * self.cols
    }
}

impl PositionConfig {
    /// Faults of its keys, for heads of width `head` and inputs of `context` tokens, as far as these are known.
    pub fn faults(&self, head: Option<usize>, context: Option<usize>, at: &mut TableFaults) {
        match self {
            Self::None(_) | Self::RelativeBias2d(_) => {}
            Self::Sinusoidal(c) => c.faults(at),
            Self::Sinusoidal2d(c) => c.faults(at),
            Self::Learned(c) => c.faults(context, at),
            Self::LearnedPerLayer(c) => c.faults(context, at),
            Self::Rotary(c) => c.faults(head, at),
            Self::Rotary2d(c) => c.faults(head, at),
            Self::Alibi(c) => c.faults(at),
            Self::RelativeBias(c) => c.faults(at),
        }
    }

    /// The value of the key `kind` of a scheme that places the patches of an image by row and column, and the scheme of
    /// texts that is like it.
    pub fn on_a_grid(&self) -> Option<[&'static str; 2]> {
        match self {
            Self::Sinusoidal2d(_) => Some([sinusoidal_2d::KIND.kind, sinusoidal::KIND.kind]),
            Self::Rotary2d(_) => Some([rotary_2d::KIND.kind, rotary::KIND.kind]),
            Self::RelativeBias2d(_) => {
                Some([relative_bias_2d::KIND.kind, relative_bias::KIND.kind])
            }
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Learned(_)
            | Self::LearnedPerLayer(_)
            | Self::Rotary(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_) => None,
        }
    }

    /// The value of the key `kind` of a scheme that goes by distances along a line, of which the patches of an image have
    /// none, and what places them by row and column in its stead.
    pub fn along_a_line(&self) -> Option<[&'static str; 2]> {
        match self {
            Self::Rotary(_) => Some([rotary::KIND.kind, rotary_2d::KIND.kind]),
            Self::Alibi(_) => Some([alibi::KIND.kind, relative_bias_2d::KIND.kind]),
            Self::RelativeBias(_) => Some([relative_bias::KIND.kind, relative_bias_2d::KIND.kind]),
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Sinusoidal2d(_)
            | Self::Learned(_)
            | Self::LearnedPerLayer(_)
            | Self::Rotary2d(_)
            | Self::RelativeBias2d(_) => None,
        }
    }

    /// The value of the key `kind` of a scheme that tells a token its place in the segment that is read, so that it says
    /// nothing of earlier segments: their places are the same (Dai et al. 2019, section 3.3).
    pub fn by_place(&self) -> Option<&'static str> {
        match self {
            Self::Sinusoidal(_) => Some(sinusoidal::KIND.kind),
            Self::Sinusoidal2d(_) => Some(sinusoidal_2d::KIND.kind),
            Self::Learned(_) => Some(learned::KIND.kind),
            Self::LearnedPerLayer(_) => Some(learned_per_layer::KIND.kind),
            Self::None(_)
            | Self::Rotary(_)
            | Self::Rotary2d(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::RelativeBias2d(_) => None,
        }
    }

    /// Rows at the head of a table of positions that are no position's.
    pub fn reserved(&self) -> usize {
        match self {
            Self::Learned(c) => c.first,
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Sinusoidal2d(_)
            | Self::LearnedPerLayer(_)
            | Self::Rotary(_)
            | Self::Rotary2d(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::RelativeBias2d(_) => 0,
        }
    }

    /// Whether it acts on the heads of attention, whose number and width must then be one in all layers.
    pub fn has_heads(&self) -> bool {
        match self {
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Sinusoidal2d(_)
            | Self::Learned(_)
            | Self::LearnedPerLayer(_) => false,
            Self::Rotary(_)
            | Self::Rotary2d(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::RelativeBias2d(_) => true,
        }
    }

    /// The scheme for a model of this shape.
    pub fn init(&self, shape: &PositionShape, init: &Init) -> Position {
        match self {
            Self::None(_) => Position::None(NoPosition {}),
            Self::Sinusoidal(c) => Position::Sinusoidal(Sinusoidal::new(c, shape)),
            Self::Sinusoidal2d(c) => Position::Sinusoidal2d(Sinusoidal2d::new(c, shape)),
            Self::Learned(c) => Position::Learned(Learned::new(c, shape, init)),
            Self::LearnedPerLayer(c) => {
                Position::LearnedPerLayer(LearnedPerLayer::new(c, shape, init))
            }
            Self::Rotary(c) => Position::Rotary(Rotary::new(c, shape)),
            Self::Rotary2d(c) => Position::Rotary2d(Rotary2d::new(c, shape)),
            Self::Alibi(c) => Position::Alibi(Alibi::new(c, shape)),
            Self::RelativeBias(c) => Position::RelativeBias(RelativeBias::new(c, shape, init)),
            Self::RelativeBias2d(_) => Position::RelativeBias2d(RelativeBias2d::new(shape, init)),
        }
    }
}

/// A position scheme with its parameters.
#[derive(Module, Debug)]
pub enum Position {
    /// No positions.
    None(NoPosition),
    /// Fixed sines and cosines.
    Sinusoidal(Sinusoidal),
    /// Fixed sines and cosines of an image's columns and rows.
    Sinusoidal2d(Sinusoidal2d),
    /// A learned table.
    Learned(Learned),
    /// A learned table for each layer.
    LearnedPerLayer(LearnedPerLayer),
    /// Rotated queries and keys.
    Rotary(Rotary),
    /// The same by column and row.
    Rotary2d(Rotary2d),
    /// Linear biases.
    Alibi(Alibi),
    /// Bucketed biases.
    RelativeBias(RelativeBias),
    /// Biases by rows and columns.
    RelativeBias2d(RelativeBias2d),
}

impl Position {
    /// The scheme that acts.
    pub fn scheme(&self) -> &dyn PositionScheme {
        match self {
            Self::None(scheme) => scheme,
            Self::Sinusoidal(scheme) => scheme,
            Self::Sinusoidal2d(scheme) => scheme,
            Self::Learned(scheme) => scheme,
            Self::LearnedPerLayer(scheme) => scheme,
            Self::Rotary(scheme) => scheme,
            Self::Rotary2d(scheme) => scheme,
            Self::Alibi(scheme) => scheme,
            Self::RelativeBias(scheme) => scheme,
            Self::RelativeBias2d(scheme) => scheme,
        }
    }
}
