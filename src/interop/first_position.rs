//! The row of an encoder's table at which positions begin. RoBERTa and its kin count positions from the row behind the id of padding on
//! (`create_position_ids_from_input_ids` of transformers), so that it follows from the vocabulary; ours is `[model.position] first`.

use super::families::HfShape;
use crate::model::ModelConfig;
use crate::nn::position::PositionConfig;

/// The families that count positions by the id of padding.
pub const BY_PADDING: [&str; 4] = ["roberta", "xlm-roberta", "camembert", "longformer"];

/// The path of the table among the parameters of a task.
pub const TABLE: &str = "model.position.table";

/// The row of the first position of an encoder whose table has rows before it.
pub fn first_position(of: &HfShape) -> Option<usize> {
    match &of.model {
        ModelConfig::Encoder(config) => match &config.stack.position {
            PositionConfig::Learned(positions) => Some(positions.first).filter(|first| *first > 0),
            _ => None,
        },
        _ => None,
    }
}

/// Moves the first position to a row; the table keeps as many rows from there on.
pub fn move_first_position(of: &mut HfShape, to: usize) {
    if let ModelConfig::Encoder(config) = &mut of.model
        && let PositionConfig::Learned(positions) = &mut config.stack.position
    {
        let from = std::mem::replace(&mut positions.first, to);
        positions.max_len = positions.max_len.map(|rows| rows.saturating_sub(from) + to);
    }
}
