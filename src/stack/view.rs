//! The positions of a block's queries and keys in one pass, and the position scheme's rotations and biases for them.
//!
//! Blocks that keep all earlier positions, or none, share the network's view. A block that keeps only the newest ones
//! counts positions from the first one still cached, so that tables and biases do not grow with the text.

use super::StackContext;
use crate::kernel;
use crate::nn::attention::Visibility;
use crate::nn::pass::Pass;
use crate::nn::position::{Position, Prepared, Span, TokenPositions};
use burn::tensor::{Device, Tensor};

/// The position scheme of the attention of one group's blocks, in place of the model's. It has no parameters.
#[derive(Clone, Debug)]
pub(super) struct GroupPosition {
    /// The number of the first block that has this scheme.
    pub first: usize,
    /// The position scheme.
    pub scheme: Position,
}

/// The part of the earlier positions that a block still has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// All earlier positions.
    Whole,
    /// Keys in a cache, without the oldest ones.
    Newest {
        /// Number of positions that were dropped from the cache.
        dropped: usize,
    },
    /// Hidden states of earlier segments.
    Segments {
        /// Number of remembered positions.
        positions: usize,
        /// Number of the newest of these that each row may see.
        open: Vec<usize>,
    },
}

/// The view that blocks with the same past and position scheme share.
#[derive(Debug)]
pub(super) struct BlockView {
    past: Past,
    /// The first block with their position scheme, if that is not the model's.
    own: Option<usize>,
    /// The positions of their queries and keys.
    pub span: Span,
    /// Which of the keys a query may see.
    pub visible: Visibility,
    /// Rotations, biases and other tensors of the position scheme.
    pub prepared: Prepared,
}

/// The views of a pass, each computed once.
pub(super) struct Views<'a> {
    /// The model's position scheme.
    pub position: &'a Position,
    /// Position and segment ids of the tokens.
    pub places: &'a TokenPositions,
    /// Positions of queries and keys as the network counts them.
    pub span: Span,
    /// Which of these keys a query may see.
    pub visible: &'a Visibility,
    /// The device on which tensors are created.
    pub device: Device,
    /// The forward pass with its random draws.
    pub pass: &'a Pass,
    /// The views computed so far.
    pub computed: Vec<BlockView>,
}

impl<'a> Views<'a> {
    /// Prepares the views of a pass over `x` in this context; none is computed yet.
    pub(super) fn new(context: &StackContext<'a>, x: &Tensor<3>) -> Self {
        Self {
            position: context.position,
            places: context.token_positions,
            span: context.span,
            visible: context.visible,
            device: x.device(),
            computed: Vec::new(),
            pass: context.pass,
        }
    }

    /// Returns the view of blocks with this past and, if they have one, their own position scheme.
    pub(super) fn get_or_compute(&mut self, past: Past, own: Option<&GroupPosition>) -> &BlockView {
        let first = own.map(|own| own.first);
        let mut made = self.computed.iter();
        let known = made.position(|view| view.past == past && view.own == first);
        let number = known.unwrap_or_else(|| {
            let view = self.compute(past, own);
            self.computed.push(view);
            self.computed.len() - 1
        });
        &self.computed[number]
    }

    fn compute(&self, past: Past, own: Option<&GroupPosition>) -> BlockView {
        let position = own.map_or(self.position, |own| &own.scheme).scheme();
        let Span {
            queries, offset, ..
        } = self.span;
        let (span, turned, visible) = match &past {
            Past::Whole => (self.span, self.span, self.visible.clone()),
            Past::Newest { dropped } => {
                let at_hand = Span {
                    queries,
                    keys: self.span.keys - dropped,
                    offset: offset - dropped,
                };
                // Keys in a cache were rotated by their positions in the text.
                let new = Span {
                    queries,
                    keys: queries,
                    offset,
                };
                (at_hand, new, self.visible.without_first(*dropped))
            }
            Past::Segments { positions, .. } => {
                let all = Span {
                    queries,
                    keys: positions + queries,
                    offset: *positions,
                };
                (
                    all,
                    Span::full(all.keys),
                    self.with_past(&past, self.visible),
                )
            }
        };
        let mut prepared = position.prepare(span, &self.device);
        if prepared.rotation.is_some() && turned != span {
            prepared.rotation = position.prepare(turned, &self.device).rotation;
        }
        if let Some(drawn) = position.random_rotation(turned, &self.device, self.pass) {
            prepared.rotation = Some(drawn);
        }
        prepared.vectors = position.vectors(span, &self.device, self.pass);
        prepared.segments = self.segment_one_hot(position.segments(), span.keys);
        BlockView {
            past,
            own: own.map(|own| own.first),
            span,
            visible,
            prepared,
        }
    }

    /// Extends a mask of this pass by the positions that a block remembers before them.
    pub(super) fn with_past(&self, past: &Past, visible: &Visibility) -> Visibility {
        match past {
            Past::Segments { positions, open } => {
                visible.after_earlier_segments(*positions, open, self.span.queries)
            }
            Past::Whole | Past::Newest { .. } => visible.clone(),
        }
    }

    /// One-hot segments of `keys` keys, for a scheme that distinguishes `apart` segments, [`Prepared::segments`]; higher ids count
    /// as the last segment.
    fn segment_one_hot(&self, apart: usize, keys: usize) -> Option<Tensor<3>> {
        let ids = self.places.segments.clone().filter(|_| apart > 0)?;
        let [rows, tokens] = ids.dims();
        // Positions remembered from earlier texts belong to the first segment, as in the released code.
        let ids = match keys.saturating_sub(tokens) {
            0 => ids,
            earlier => {
                let first = Tensor::zeros([rows, earlier], &ids.device());
                Tensor::cat(vec![first, ids], 1)
            }
        };
        let one_each = Tensor::<2>::eye(apart, &self.device);
        Some(kernel::embedding(one_each, ids.clamp_max(apart as i64 - 1)))
    }
}
