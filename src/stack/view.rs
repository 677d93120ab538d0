//! Where the queries and keys of a block stand in one pass, and what the position scheme says of them.
//!
//! Blocks that keep all earlier positions, or none, have the view of the network. A block that keeps the newest ones alone
//! counts positions from the first that is at hand, so that tables and biases do not grow with the text.

use super::StackContext;
use crate::kernel;
use crate::nn::attention::Visibility;
use crate::nn::pass::Pass;
use crate::nn::position::{Places, Position, Prepared, Span};
use burn::tensor::{Device, Tensor};

/// The position scheme that the attention of a group's blocks has in place of the model's. It has no parameters.
#[derive(Clone, Debug)]
pub(super) struct OwnPosition {
    /// The number of the first block that has it.
    pub first: usize,
    /// The scheme.
    pub scheme: Position,
}

/// What a block has of the positions before this pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// All of them.
    Whole,
    /// Keys in a cache, but for the first so many.
    Newest {
        /// Positions that are not at hand any more.
        dropped: usize,
    },
    /// Hidden states of earlier segments.
    Segments {
        /// Their number.
        positions: usize,
        /// How many of the newest each row may see.
        open: Vec<usize>,
    },
}

/// The view of some blocks.
#[derive(Debug)]
pub(super) struct View {
    past: Past,
    /// The first block with their position scheme, where that is not the model's.
    own: Option<usize>,
    /// Their queries and keys.
    pub span: Span,
    /// Which of the keys a query may see.
    pub visible: Visibility,
    /// Rotation and biases.
    pub prepared: Prepared,
}

/// The views of a pass, each made once.
pub(super) struct Views<'a> {
    /// The model's position scheme.
    pub position: &'a Position,
    /// Where the tokens stand.
    pub places: &'a Places,
    /// Queries and keys as the network counts them.
    pub span: Span,
    /// Which of these keys a query may see.
    pub visible: &'a Visibility,
    /// Where tensors are made.
    pub device: Device,
    /// Dropout's draws.
    pub pass: &'a Pass,
    /// The views so far.
    pub made: Vec<View>,
}

impl<'a> Views<'a> {
    /// The views of a pass over `x` in this context, none of them made yet.
    pub(super) fn new(context: &StackContext<'a>, x: &Tensor<3>) -> Self {
        Self {
            position: context.position,
            places: context.places,
            span: context.span,
            visible: context.visible,
            device: x.device(),
            made: Vec::new(),
            pass: context.pass,
        }
    }

    /// The view of blocks with this past, and the position scheme of their own where they have one.
    pub(super) fn of(&mut self, past: Past, own: Option<&OwnPosition>) -> &View {
        let first = own.map(|own| own.first);
        let mut made = self.made.iter();
        let known = made.position(|view| view.past == past && view.own == first);
        let number = known.unwrap_or_else(|| {
            let view = self.make(past, own);
            self.made.push(view);
            self.made.len() - 1
        });
        &self.made[number]
    }

    fn make(&self, past: Past, own: Option<&OwnPosition>) -> View {
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
                // Keys in a cache are turned by their positions in the text.
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
                (all, Span::of(all.keys), self.behind(&past, self.visible))
            }
        };
        let mut prepared = position.prepare(span, &self.device);
        if prepared.rotation.is_some() && turned != span {
            prepared.rotation = position.prepare(turned, &self.device).rotation;
        }
        if let Some(drawn) = position.drawn(turned, &self.device, self.pass) {
            prepared.rotation = Some(drawn);
        }
        prepared.vectors = position.vectors(span, &self.device, self.pass);
        prepared.segments = self.segments(position.segments(), span.keys);
        View {
            past,
            own: own.map(|own| own.first),
            span,
            visible,
            prepared,
        }
    }

    /// What is seen of the positions of this pass, with those that a block remembers before them.
    pub(super) fn behind(&self, past: &Past, visible: &Visibility) -> Visibility {
        match past {
            Past::Segments { positions, open } => {
                visible.behind(*positions, open, self.span.queries)
            }
            Past::Whole | Past::Newest { .. } => visible.clone(),
        }
    }

    /// The segments of so many keys for a scheme that tells so many apart, [`Prepared::segments`]; a further one counts as the last.
    fn segments(&self, apart: usize, keys: usize) -> Option<Tensor<3>> {
        let ids = self.places.segments.clone().filter(|_| apart > 0)?;
        let [rows, tokens] = ids.dims();
        // What is remembered of earlier texts is of the first segment, as in the released code.
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
