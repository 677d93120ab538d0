//! The tokens that are global in attention with global tokens (Beltagy et al. 2020, Longformer, section 3.1). They depend on the
//! task: the first token for text classification, the question's tokens for question answering, none for language modelling.

use crate::kernel::Globals;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tokens that a task marks as global.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GlobalTokens {
    /// No tokens.
    #[default]
    None,
    /// The first token of each text.
    First,
    /// All tokens of the first segment: the question of a pair.
    FirstSegment,
    /// The first token, and the last token of each segment: the special tokens of a text.
    Special,
}

/// The rows of texts that marks of global tokens depend on.
#[derive(Clone, Copy, Debug)]
pub struct TextBatchLayout<'a> {
    /// Number of rows.
    pub rows: usize,
    /// Positions of each row.
    pub cols: usize,
    /// Number of tokens in each row, if some are padded.
    pub lengths: Option<&'a [usize]>,
    /// Segment of each position `[rows, cols]`; the first one everywhere when absent.
    pub segments: Option<&'a [i32]>,
}

impl<'a> TextBatchLayout<'a> {
    /// Describes texts of one segment.
    pub fn single_segment([rows, cols]: [usize; 2], lengths: Option<&'a [usize]>) -> Self {
        Self {
            rows,
            cols,
            lengths,
            segments: None,
        }
    }
}

impl GlobalTokens {
    /// Returns the global positions of each row, ascending; `None` if the task marks none.
    pub fn positions_in(self, texts: &TextBatchLayout) -> Option<Globals> {
        if self == Self::None {
            return None;
        }
        let rows = (0..texts.rows).map(|row| {
            let length = texts.lengths.map_or(texts.cols, |lengths| lengths[row]);
            let length = length.min(texts.cols);
            let segment = |at: usize| texts.segments.map_or(0, |all| all[row * texts.cols + at]);
            let is_global = |at: &usize| match self {
                Self::None => false,
                Self::First => *at == 0,
                Self::FirstSegment => segment(*at) == 0,
                Self::Special => *at == 0 || at + 1 == length || segment(*at) != segment(at + 1),
            };
            (0..length).filter(is_global).collect()
        });
        Some(rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_follow_from_lengths_and_segments() {
        let segments = [0, 0, 1, 1, 0, 0, 0, 0];
        let texts = TextBatchLayout {
            rows: 2,
            cols: 4,
            lengths: Some(&[4, 3]),
            segments: Some(&segments),
        };
        let of = |tokens: GlobalTokens| tokens.positions_in(&texts).map(|rows| rows.to_vec());
        assert_eq!(of(GlobalTokens::None), None);
        assert_eq!(of(GlobalTokens::First), Some(vec![vec![0], vec![0]]));
        let segment = vec![vec![0, 1], vec![0, 1, 2]];
        assert_eq!(of(GlobalTokens::FirstSegment), Some(segment));
        let special = vec![vec![0, 1, 3], vec![0, 2]];
        assert_eq!(of(GlobalTokens::Special), Some(special));
    }
}
