//! The first used row of the position table of RoBERTa and related models in a folder: the row after the padding id of the
//! run's vocabulary.

use super::{hf_shape, special_tokens};
use crate::error::Error;
use crate::experiment::open::OpenedRun;
use crate::interop::Parameters;
use crate::interop::families::HfShape;
use crate::interop::first_position::{BY_PADDING, TABLE, first_position, move_first_position};
use crate::interop::weights::Array;
use crate::tokenizer::Tokenizer;
use std::collections::BTreeMap;

/// Row of the first position, in the run's table and in the folder's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PositionOffset {
    from: usize,
    to: usize,
}

impl PositionOffset {
    /// Returns the rows for a run that is exported as the family `wanted`; `None` if both are the same. An `imported` run keeps
    /// those of its folder. Without a padding token, the first position is in row 0, as in BERT.
    pub(super) fn of(opened: &OpenedRun, wanted: Option<&str>, imported: bool) -> Option<Self> {
        if imported {
            return None;
        }
        let from = first_position(&hf_shape(&opened.experiment, &opened.shape))?;
        let by_padding = wanted.is_none_or(|wanted| BY_PADDING.contains(&wanted));
        let to = match padding(opened).filter(|_| by_padding) {
            Some(id) => id as usize + 1,
            None => 0,
        };
        (to != from).then_some(Self { from, to })
    }

    /// Sets the first position of the model description to the folder's.
    pub(super) fn apply_to(self, shape: &mut HfShape) {
        move_first_position(shape, self.to);
    }

    /// Moves the rows of the position table in the model's parameters.
    pub(super) fn move_table(self, parameters: &mut Parameters) {
        parameters.move_rows(TABLE, self.from, self.to);
    }

    /// As [`Self::move_table`], for arrays in memory.
    pub(super) fn move_array(self, arrays: &mut BTreeMap<String, Array>) {
        if let Some(table) = arrays.get_mut(TABLE) {
            table.move_rows(self.from, self.to);
        }
    }

    /// Extends the error that no family holds the model by the reason in its vocabulary.
    pub(super) fn explain(self, error: Error) -> Error {
        match self.to {
            0 => Error::usage(format!(
                "{error}; RoBERTa, XLM-RoBERTa, CamemBERT and Longformer count positions from the padding id, which requires a \
                 tokenizer with the special token `<pad>` or `[PAD]`"
            )),
            _ => error,
        }
    }

    /// A note about unused rows at the beginning of the table.
    pub(super) fn note(self, shape: &HfShape) -> Option<String> {
        let unread = self.to.checked_sub(1)?;
        (unread > shape.shape.context).then(|| {
            format!(
                "the class counts positions from the padding id, {unread}: the position table begins with {} rows of zeros that \
                 are never read; a tokenizer with `<pad>` among its first tokens needs fewer",
                self.to
            )
        })
    }
}

/// The padding token, as the folder's tokenizer names it.
fn padding(opened: &OpenedRun) -> Option<u32> {
    let tokenizer = opened.tokenizers.text.as_ref();
    let marked = special_tokens::text_marks(opened).pad;
    marked.or_else(|| tokenizer.and_then(Tokenizer::pad))
}
