//! The maximum text length of an exported model: that of the run it began from, as far as its own position tables allow.

use super::super::Experiment;
use super::super::assemble;
use super::super::open::OpenedRun;
use super::super::transfer::limit;
use crate::data::{Limit, Shape};
use crate::device;
use crate::error::Result;
use crate::train::parameters;
use std::path::Path;

/// Sets the maximum length of an opened run: the recorded limit, cut to the rows of its position tables; none if these have no
/// rows beyond the run's own context.
///
/// # Errors
/// If files of the run are damaged.
pub(super) fn set_max_length(run: &Path, opened: &mut OpenedRun) -> Result<()> {
    let noted = limit::length_limit(run, &opened.experiment, &opened.shape)?;
    opened.shape.limit =
        noted.and_then(|limit| capped_limit(limit, &opened.experiment, &opened.shape));
    Ok(())
}

fn capped_limit(limit: Limit, experiment: &Experiment, shape: &Shape) -> Option<Limit> {
    let rows = experiment.model.networks().into_iter();
    let of_texts = rows.filter(|network| network.facts().image_facts().is_none());
    let stacks = of_texts.filter_map(|network| network.transformer());
    let tables = stacks.filter_map(|network| {
        let table = network.stack.position.learned()?;
        Some(table.max_len?.saturating_sub(table.first))
    });
    let positions = tables.fold(limit.positions, usize::min);
    let at_hand = positions <= shape.context || same_parameters(experiment, shape, positions);
    at_hand.then_some(Limit {
        positions: positions.max(shape.context),
        read: limit.read.min(positions.max(shape.context)),
    })
}

/// Whether a model with a context of `positions` tokens has parameters of the same shapes as the run's.
fn same_parameters(experiment: &Experiment, shape: &Shape, positions: usize) -> bool {
    let mut plain = experiment.clone();
    (plain.lora, plain.init) = Default::default();
    let shapes = |context: usize| {
        let shape = Shape {
            context,
            ..shape.clone()
        };
        let model = assemble::objective(&plain, &shape, &device::host()).ok()?;
        let all = parameters::list_with_state(&model).into_iter();
        Some(all.map(|p| (p.path, p.shape)).collect::<Vec<_>>())
    };
    shapes(shape.context).is_some_and(|own| shapes(positions) == Some(own))
}

/// Returns the shape with the number of positions that the model was made for.
pub(super) fn with_model_positions(shape: &Shape) -> Shape {
    let positions = shape.limit.map_or(0, |limit| limit.positions);
    Shape {
        context: shape.context.max(positions),
        ..shape.clone()
    }
}

/// Length in tokens to which texts are truncated before the model reads them; none for a model that reads no texts.
pub(super) fn truncation_length(opened: &OpenedRun) -> Option<usize> {
    // An imported run may read fewer tokens than its position table has rows.
    let own = opened.shape.context.min(opened.experiment.data.context());
    let longest = opened.shape.limit.map_or(own, |limit| limit.read);
    Some(longest).filter(|n| *n > 0)
}
