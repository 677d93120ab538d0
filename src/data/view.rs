//! How examples are read for a task: what of them is given, and what is to be said.

use super::{CorruptedView, MaskedView};

/// The targets that a model gets from a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum View {
    /// The next token of a text or caption; or the targets of the data itself.
    #[default]
    AsItIs,
    /// Masked tokens, and how two segments follow each other.
    Masked(MaskedView),
    /// A text with parts missing or changed becomes another one.
    Corrupted(CorruptedView),
    /// Both texts of a pair, or the caption of an image, each in the frame of encoders.
    Alone,
    /// A transcript without marks, whose tokens are to be found along its recording.
    Aligned,
}
