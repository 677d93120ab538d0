//! The view in which a task reads examples: which parts of them are inputs, and which are targets.

use super::{CorruptedView, MaskedView};

/// The targets that a model gets from an example.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum View {
    /// The next token of a text or caption, or the targets of the data itself.
    #[default]
    Plain,
    /// Masked tokens, and the relation of two segments.
    Masked(MaskedView),
    /// Another text: the input is a text with parts missing or changed.
    Corrupted(CorruptedView),
    /// None: both texts of a pair, or the caption of an image, are each read with an encoder's special
    /// tokens.
    EncodedSeparately,
    /// A transcript without special tokens, to be aligned with its recording.
    Ctc,
}
