//! Imports image models: how pixels become inputs, and a classifier that the folder lacks.

use super::ImportReport;
use crate::error::{Error, Result};
use crate::interop::families::HfShape;
use crate::interop::image_processor::{self, NAME, PROCESSOR};
use crate::interop::weights::Array;
use crate::interop::{HfModel, arrays_of};
use crate::task::Objective;
use std::collections::BTreeMap;

/// Applies the folder's image settings to the input shape. If it has none, adds a note on what is done instead.
///
/// # Errors
/// If the settings file is damaged, or has an unsupported value.
pub(super) fn settings(hf: &mut HfModel, imported: &mut ImportReport) -> Result<()> {
    match image_processor::read(&hf.dir).map_err(Error::into_usage_error)? {
        Some(processor) => {
            let other = hf.shape.apply_processor(&processor);
            imported
                .notes
                .extend(other.map(|other| other_size(&hf.shape, other)));
            imported.unsupported.extend(processor.ignored);
        }
        None if hf.shape.shape.image.is_some() => imported.notes.push(format!(
            "the folder has no image settings ({NAME}, or `image_processor` in {PROCESSOR}): pixels are read as numbers from 0 \
             to 1, and images of another size are stretched; import again with the file that the model was trained with, or set \
             mean and std in [data] of a run that begins from this one"
        )),
        None => {}
    }
    Ok(())
}

/// The note that the image settings give another size than the network's own, which the run uses.
fn other_size(of: &HfShape, [rows, columns]: [usize; 2]) -> String {
    let [_, height, width] = of.shape.image.unwrap_or_default();
    let mut networks = of.model.networks().into_iter();
    let resampled = networks.any(|network| {
        let of_images = network.facts().image_facts();
        of_images.is_some_and(|facts| facts.resizes_positions([height, width], [rows, columns]))
    });
    let mut networks = of.model.networks().into_iter();
    let registers = networks.any(|network| network.facts().tokens_without_position() > 0);
    let resample = match (resampled, registers) {
        (true, false) => " and [init] resample = [\"position\"]",
        (true, true) => {
            " and [init] resample = [\"position\"], resample_antialias = true, as transformers resamples it"
        }
        (false, _) => "",
    };
    format!(
        "the folder's image settings produce {rows} by {columns} pixels, but its config.json has {height} by {width}: the run \
         reads {height} by {width}, resized in proportion, where transformers would read {rows} by {columns}; a run for images \
         of {rows} by {columns} begins from this one with [data] size = [{rows}, {columns}], [init] from{resample}"
    )
}

/// The randomly initialised parameters that the folder lacks, by path.
pub(super) fn random_parameters(
    objective: &Objective,
    paths: &[String],
) -> BTreeMap<String, Array> {
    match paths {
        [] => BTreeMap::new(),
        paths => arrays_of(objective, paths),
    }
}
