//! The sense of positions on a grid, and along a line.

use super::Sense;
use crate::model::ItemOf;
use crate::nn::position::PositionConfig;

/// Faults of positions on a grid in texts, and along a line in images.
pub(super) fn positions(sense: &mut Sense, position: &PositionConfig, d_model: usize) {
    let model = &sense.loaded.experiment.model;
    let of_images = model.item() == ItemOf::Image;
    match (position.on_a_grid(), position.along_a_line()) {
        (Some([kind, other]), _) if !of_images => {
            let rule = format!(
                "kind = \"{kind}\" is for images; a {} reads lines of tokens: use \"{other}\"",
                model.kind()
            );
            sense.fault(&["model.position.kind"], rule);
        }
        (_, Some([kind, other])) if of_images => {
            let rule = format!(
                "kind = \"{kind}\" goes by distances along a line, and patches stand in rows and columns: use \"{other}\""
            );
            sense.fault(&["model.position.kind"], rule);
        }
        (Some([kind, _]), _) if !d_model.is_multiple_of(position.divides_width()) => {
            let rule = format!(
                "d_model = {d_model} is not a multiple of {}, as position kind = \"{kind}\" needs",
                position.divides_width()
            );
            sense.fault(&["model.d_model", "model.position.kind"], rule);
        }
        _ => {}
    }
}
