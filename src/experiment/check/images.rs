//! The sense of positions on a grid.

use super::Sense;
use crate::model::ItemOf;

/// Faults of positions on a grid.
pub(super) fn grid_positions(sense: &mut Sense, d_model: usize) {
    let model = &sense.loaded.experiment.model;
    if model.item() != ItemOf::Image {
        let rule = format!(
            "kind = \"sinusoidal_2d\" is for images; a {} reads lines of tokens: use \"sinusoidal\"",
            model.kind()
        );
        sense.fault(&["model.position.kind"], rule);
    } else if !d_model.is_multiple_of(4) {
        let rule = format!(
            "d_model = {d_model} is not a multiple of 4, as position kind = \"sinusoidal_2d\" needs"
        );
        sense.fault(&["model.d_model", "model.position.kind"], rule);
    }
}
