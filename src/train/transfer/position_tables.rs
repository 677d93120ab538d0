//! Position tables of a run that cut its images into another grid, or has other tokens before the patches: its
//! positions mean other places.

use super::{LengthChange, Resample};
use crate::error::{Error, Result};
use crate::nn::role::Place;
use crate::train::parameters::Parameter;
use burn::tensor::TensorData;
use std::collections::BTreeMap;

/// Fails if any of the wanted parameters are position tables. The message suggests resampling them if all can be
/// resampled, or else initialising them again.
pub(super) fn require_no_position_tables<'a>(
    wanted: impl Iterator<Item = &'a Parameter>,
    stored: &BTreeMap<String, TensorData>,
    resample: Resample,
) -> Result<()> {
    let placed = wanted.filter(|p| p.role.place == Some(Place::Position));
    let placed: Vec<&Parameter> = placed.collect();
    if placed.is_empty() {
        return Ok(());
    }
    let made = |p: &Parameter| {
        let data = stored.get(&p.path)?;
        let made = resample((p.path.as_str(), data), &p.shape, LengthChange::Resample);
        Some(made.map(|made| made != *data))
    };
    let made: Vec<_> = placed.iter().map(|p| made(p)).collect();
    let stuck = made.iter().position(|made| *made == Some(None));
    let remedy = match stuck {
        None if made.contains(&Some(Some(true))) => {
            "resample = [\"position\"] interpolates them".to_owned()
        }
        stuck => format!(
            "`{}` cannot be resampled: new = [\"position\"] initialises them",
            placed[stuck.unwrap_or(0)].path
        ),
    };
    Err(Error::usage(format!(
        "[init] the other run cuts images into a different grid or has different tokens before the patches, so its positions mean other \
         places; {remedy}"
    )))
}
