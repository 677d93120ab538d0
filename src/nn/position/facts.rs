//! The facts of the position schemes that checks and plans ask: faults of their keys, what they go by, what they cost.

use super::{PositionConfig, PositionShape, Span};
use super::{
    alibi, axial, disentangled, learned, learned_2d, learned_per_layer, relative_bias,
    relative_bias_2d, rotary, rotary_2d, shaw, sinusoidal, sinusoidal_2d, transformer_xl,
};
use crate::faults::TableFaults;

impl PositionConfig {
    /// Faults of its keys, for a model of width `d_model`, heads of width `head` and inputs of `context` tokens, as far as
    /// these are known.
    pub fn faults(
        &self,
        [d_model, head]: [Option<usize>; 2],
        context: Option<usize>,
        at: &mut TableFaults,
    ) {
        match self {
            Self::None(_) | Self::RelativeBias2d(_) | Self::Learned2d(_) => {}
            Self::Sinusoidal(c) => c.faults(at),
            Self::Sinusoidal2d(c) => c.faults(at),
            Self::Learned(c) => c.faults(context, at),
            Self::LearnedPerLayer(c) => c.faults(context, at),
            Self::Rotary(c) => c.faults(head, at),
            Self::Rotary2d(c) => c.faults(head, at),
            Self::Alibi(c) => c.faults(at),
            Self::RelativeBias(c) => c.faults(at),
            Self::Axial(c) => c.faults(d_model, context, at),
            Self::Shaw(c) => c.faults(at),
            Self::TransformerXl(c) => c.faults(at),
            Self::Disentangled(c) => c.faults(at),
        }
    }

    /// The value of the key `kind` of a scheme that places the patches of an image by row and column, and the scheme of
    /// texts that is like it.
    pub fn on_a_grid(&self) -> Option<[&'static str; 2]> {
        match self {
            Self::Sinusoidal2d(_) => Some([sinusoidal_2d::KIND.kind, sinusoidal::KIND.kind]),
            Self::Rotary2d(_) => Some([rotary_2d::KIND.kind, rotary::KIND.kind]),
            Self::Learned2d(_) => Some([learned_2d::KIND.kind, learned::KIND.kind]),
            Self::RelativeBias2d(_) => {
                Some([relative_bias_2d::KIND.kind, relative_bias::KIND.kind])
            }
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Learned(_)
            | Self::LearnedPerLayer(_)
            | Self::Rotary(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::Axial(_)
            | Self::Shaw(_)
            | Self::TransformerXl(_)
            | Self::Disentangled(_) => None,
        }
    }

    /// The value of the key `kind` of a scheme that goes by distances along a line, of which the patches of an image have
    /// none, and what places them by row and column in its stead.
    pub fn along_a_line(&self) -> Option<[&'static str; 2]> {
        match self {
            Self::Rotary(_) => Some([rotary::KIND.kind, rotary_2d::KIND.kind]),
            Self::Alibi(_) => Some([alibi::KIND.kind, relative_bias_2d::KIND.kind]),
            Self::RelativeBias(_) => Some([relative_bias::KIND.kind, relative_bias_2d::KIND.kind]),
            Self::Shaw(_) => Some([shaw::KIND.kind, relative_bias_2d::KIND.kind]),
            Self::TransformerXl(_) => {
                Some([transformer_xl::KIND.kind, relative_bias_2d::KIND.kind])
            }
            Self::Disentangled(_) => Some([disentangled::KIND.kind, relative_bias_2d::KIND.kind]),
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Sinusoidal2d(_)
            | Self::Learned(_)
            | Self::LearnedPerLayer(_)
            | Self::Rotary2d(_)
            | Self::RelativeBias2d(_)
            | Self::Learned2d(_)
            | Self::Axial(_) => None,
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
            Self::Learned2d(_) => Some(learned_2d::KIND.kind),
            Self::Axial(_) => Some(axial::KIND.kind),
            Self::None(_)
            | Self::Rotary(_)
            | Self::Rotary2d(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::RelativeBias2d(_)
            | Self::Shaw(_)
            | Self::TransformerXl(_)
            | Self::Disentangled(_) => None,
        }
    }

    /// Whether its table has a row for each position, in their order, so that it can be resampled for others. The rows of
    /// other tables are distances, or the two sides of a grid.
    pub fn has_a_row_each(&self) -> bool {
        match self {
            Self::Learned(_) | Self::LearnedPerLayer(_) => true,
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Sinusoidal2d(_)
            | Self::Rotary(_)
            | Self::Rotary2d(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::RelativeBias2d(_)
            | Self::Learned2d(_)
            | Self::Axial(_)
            | Self::Shaw(_)
            | Self::TransformerXl(_)
            | Self::Disentangled(_) => false,
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
            | Self::RelativeBias2d(_)
            | Self::Learned2d(_)
            | Self::Axial(_)
            | Self::Shaw(_)
            | Self::TransformerXl(_)
            | Self::Disentangled(_) => 0,
        }
    }

    /// Whether it acts on the heads of attention, whose number and width must then be one in all layers.
    pub fn has_heads(&self) -> bool {
        match self {
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Sinusoidal2d(_)
            | Self::Learned(_)
            | Self::LearnedPerLayer(_)
            | Self::Learned2d(_)
            | Self::Axial(_) => false,
            Self::Rotary(_)
            | Self::Rotary2d(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::RelativeBias2d(_)
            | Self::Shaw(_)
            | Self::TransformerXl(_)
            | Self::Disentangled(_) => true,
        }
    }

    /// Whether its vectors are added to the embeddings, and are as wide as these; others act in the blocks.
    pub fn adds_to_embeddings(&self) -> bool {
        match self {
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Sinusoidal2d(_)
            | Self::Learned(_)
            | Self::Learned2d(_)
            | Self::Axial(_) => true,
            Self::LearnedPerLayer(_)
            | Self::Rotary(_)
            | Self::Rotary2d(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::RelativeBias2d(_)
            | Self::Shaw(_)
            | Self::TransformerXl(_)
            | Self::Disentangled(_) => false,
        }
    }

    /// The fault of widths of its own beside embeddings of `width` elements in a model of width `d_model`.
    pub fn narrow_fault(&self, width: usize, d_model: usize) -> Option<String> {
        match self {
            Self::Axial(c) if width != d_model && (c.axial_widths.is_some() || width == 1) => {
                Some(format!(
                    "d_embedding = {width} is the width of what axial positions are added to, and their widths make \
                     d_model = {d_model}: leave axial_widths out for halves of 2 or more"
                ))
            }
            Self::Axial(_)
            | Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Sinusoidal2d(_)
            | Self::Learned(_)
            | Self::Learned2d(_)
            | Self::LearnedPerLayer(_)
            | Self::Rotary(_)
            | Self::Rotary2d(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::RelativeBias2d(_)
            | Self::Shaw(_)
            | Self::TransformerXl(_)
            | Self::Disentangled(_) => None,
        }
    }

    /// What the model's width must be a multiple of.
    pub fn divides_width(&self) -> usize {
        match self {
            Self::Sinusoidal2d(_) => 4,
            Self::Learned2d(c) => c.divides_width(),
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Learned(_)
            | Self::LearnedPerLayer(_)
            | Self::Axial(_)
            | Self::Rotary(_)
            | Self::Rotary2d(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::RelativeBias2d(_)
            | Self::Shaw(_)
            | Self::TransformerXl(_)
            | Self::Disentangled(_) => 1,
        }
    }

    /// Multiplications that it adds to one layer's attention of this shape: so many queries over `sources` positions, of
    /// which each sees `keys`. What is looked up, added or turned element by element is none.
    pub fn products(&self, shape: &PositionShape, [queries, sources, keys]: [usize; 3]) -> u128 {
        match self {
            Self::Shaw(c) => c.products(shape, [queries, keys]),
            Self::TransformerXl(c) => c.products(shape, [queries, sources, keys]),
            Self::Disentangled(c) => c.products(shape, [queries, sources, keys]),
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Sinusoidal2d(_)
            | Self::Learned(_)
            | Self::LearnedPerLayer(_)
            | Self::Learned2d(_)
            | Self::Axial(_)
            | Self::Rotary(_)
            | Self::Rotary2d(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::RelativeBias2d(_) => 0,
        }
    }

    /// Numbers that it keeps for the backward pass of a batch whose queries see up to so many keys, however many rows there are:
    /// vectors of distances, and those projected by each layer.
    pub fn kept(&self, shape: &PositionShape, keys: usize) -> u128 {
        match self {
            Self::TransformerXl(c) => c.kept(shape, keys),
            Self::Disentangled(c) => c.kept(shape, keys),
            Self::None(_)
            | Self::Sinusoidal(_)
            | Self::Sinusoidal2d(_)
            | Self::Learned(_)
            | Self::LearnedPerLayer(_)
            | Self::Learned2d(_)
            | Self::Axial(_)
            | Self::Rotary(_)
            | Self::Rotary2d(_)
            | Self::Alibi(_)
            | Self::RelativeBias(_)
            | Self::RelativeBias2d(_)
            | Self::Shaw(_) => 0,
        }
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
