//! The longest texts that an exported model reads: those of the run that it began from, as far as its own tables go.

use super::super::Experiment;
use super::super::assemble;
use super::super::open::Opened;
use super::super::transfer::limit;
use crate::data::{Limit, Shape};
use crate::device;
use crate::error::Result;
use crate::train::parameters;
use std::path::Path;

/// Settles the limit of an opened run: the noted one, cut to the rows of its tables of positions; none where these end with its own texts.
///
/// # Errors
/// Damaged files of the run.
pub(super) fn settle(run: &Path, opened: &mut Opened) -> Result<()> {
    let noted = limit::noted(run, &opened.experiment, &opened.shape)?;
    opened.shape.limit = noted.and_then(|limit| within(limit, &opened.experiment, &opened.shape));
    Ok(())
}

fn within(limit: Limit, experiment: &Experiment, shape: &Shape) -> Option<Limit> {
    let rows = experiment.model.networks().into_iter();
    let of_texts = rows.filter(|network| network.facts().of_images().is_none());
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

/// Whether a model for texts of so many tokens has the parameters of the run's.
fn same_parameters(experiment: &Experiment, shape: &Shape, positions: usize) -> bool {
    let mut plain = experiment.clone();
    (plain.lora, plain.init) = Default::default();
    let shapes = |context: usize| {
        let shape = Shape {
            context,
            ..shape.clone()
        };
        let model = assemble::objective(&plain, &shape, &device::host()).ok()?;
        let all = parameters::with_state(&model).into_iter();
        Some(all.map(|p| (p.path, p.shape)).collect::<Vec<_>>())
    };
    shapes(shape.context).is_some_and(|own| shapes(positions) == Some(own))
}

/// A shape with the positions that the model was made for.
pub(super) fn of_positions(shape: &Shape) -> Shape {
    let positions = shape.limit.map_or(0, |limit| limit.positions);
    Shape {
        context: shape.context.max(positions),
        ..shape.clone()
    }
}

/// Tokens that texts are cut to before the model reads them; none of a model that reads no texts.
pub(super) fn read(opened: &Opened) -> Option<usize> {
    // An imported run may read less than its table of positions has.
    let own = opened.shape.context.min(opened.experiment.data.context());
    let longest = opened.shape.limit.map_or(own, |limit| limit.read);
    Some(longest).filter(|n| *n > 0)
}
