//! The row of an encoder's position table at which positions begin. RoBERTa and its kin count positions from the row after the
//! padding id (`create_position_ids_from_input_ids` of transformers), so the row depends on the vocabulary. Our key for it is
//! `[model.position] first`.

use super::families::HfShape;
use crate::model::ModelConfig;
use crate::nn::position::PositionConfig;

/// The families that count positions from the padding id.
pub const BY_PADDING: [&str; 4] = ["roberta", "xlm-roberta", "camembert", "longformer"];

/// The path of the position table among the parameters of a task.
pub const TABLE: &str = "model.position.table";

/// Returns the row of the first position of an encoder whose position table has rows before it.
pub fn first_position(of: &HfShape) -> Option<usize> {
    match &of.model {
        ModelConfig::Encoder(config) => match &config.stack.position {
            PositionConfig::Learned(positions) => Some(positions.first).filter(|first| *first > 0),
            _ => None,
        },
        _ => None,
    }
}

/// Moves the first position to row `to`; the table keeps the same number of rows from there on.
pub fn move_first_position(of: &mut HfShape, to: usize) {
    if let ModelConfig::Encoder(config) = &mut of.model
        && let PositionConfig::Learned(positions) = &mut config.stack.position
    {
        let from = std::mem::replace(&mut positions.first, to);
        positions.max_len = positions.max_len.map(|rows| rows.saturating_sub(from) + to);
    }
}
