//! Checks two-dimensional and one-dimensional position schemes.

use super::Checker;
use crate::model::ThroughputUnit;
use crate::nn::position::PositionConfig;

/// Reports two-dimensional position schemes for text, and one-dimensional ones for images.
pub(super) fn positions(sense: &mut Checker, position: &PositionConfig, d_model: usize) {
    let model = sense.model();
    let of_images = model.throughput_unit() == ThroughputUnit::Image;
    let facts = position.facts();
    let (kind, multiple) = (facts.kind().kind, facts.divides_width());
    match (facts.text_counterpart(), facts.image_counterpart()) {
        (Some(other), _) if !of_images => {
            let rule = format!(
                "kind = \"{kind}\" is for images, but a {} reads sequences of tokens: use \"{}\"",
                model.kind(),
                other.kind
            );
            sense.fault(&["model.position.kind"], rule);
        }
        // Not for networks with register tokens: these have no position, so no other scheme that acts in the blocks suits either.
        (_, Some(other)) if of_images && model.facts().tokens_without_position() == 0 => {
            let rule = format!(
                "kind = \"{kind}\" uses distances along a line, but patches are in rows and columns: use \"{}\"",
                other.kind
            );
            sense.fault(&["model.position.kind"], rule);
        }
        (Some(_), _) if !d_model.is_multiple_of(multiple) => {
            let rule = format!(
                "d_model = {d_model} is not a multiple of {multiple}, as position kind = \"{kind}\" needs"
            );
            sense.fault(&["model.d_model", "model.position.kind"], rule);
        }
        _ => {}
    }
}
