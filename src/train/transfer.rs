//! `[init]`: weights taken from another run, in part or in full, and frozen parameters.
//!
//! Every parameter of the model must be in the other run's file, with the same shape, unless `new` names it; every parameter of
//! the file must be taken, unless `new` or `skip` names it. Parameters that only training uses are newly initialised or skipped
//! if one of the two models lacks them. Nothing is ignored silently.

mod heads;
mod initial;
mod layers;
mod lengthen;
mod matching;
mod parts;
mod position_tables;
mod token_tables;
mod transferred;

use super::checkpoint::weights;
use super::layer_rates::depth_from_end;
use super::lora::{self, LoraConfig};
use super::optim::{Factors, FactorsByRole};
use super::parameters::{self, Parameter};
use super::patterns::Patterns;
use crate::error::{Error, Result};
use crate::model::StackDepths;
use crate::nn::role::Role;
use crate::one_table::{is_usual, word_or_number};
use crate::task::is_training_only;
use burn::module::{Module, ParamGroup};
pub use initial::{INIT, InitialCheckpoint, is_initial_weight_key};
use layers::LayerSelection;
pub use lengthen::{LengthChange, Resample};
use matching::{fits, is_position_table, local_projection, mismatch};
pub use parts::{InitialRun, PartConfig, PartName, PathMapping};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
pub use token_tables::{GrownTables, Lengths, extend_token_table};
pub use transferred::Transferred;
use transferred::shape_fault;

/// `[init]`: another run to begin from, frozen parameters, learning rates by depth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransferConfig {
    /// Folder of the run to begin from, or the file of the experiment that makes it, which means `checkpoints/NAME`. For an arm
    /// of a sweep (`SWEEP/cells/ARM`) it is the run with the same seed as this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
    /// Run that the image network begins from, in a model with one network for images and one for texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<PartConfig>,
    /// Run that the text network begins from, in a model with one network for images and one for texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<PartConfig>,
    /// Checkpoint of the run: `best`, `latest` or the number of a step; the best one when absent. A run cannot begin from a mean
    /// of several (`average:5`).
    #[schemars(extend("type" = ["string", "integer"]))]
    #[serde(
        deserialize_with = "word_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub checkpoint: Option<String>,
    /// Layers of a deeper run, from 0, that this model's layers begin from: `every_second` for 0, 2, 4 …, or numbers as in
    /// `0,2,4,7,9,11`. When absent, both runs have the same layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<String>,
    /// Regular expressions: parameters that are newly initialised, even if the other run has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub new: Vec<String>,
    /// Regular expressions: parameters of the other run that are not taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    /// Regular expressions: position tables that are resampled if their lengths differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resample: Vec<String>,
    /// Whether bicubic resampling is antialiased, as transformers resamples DINOv2 with registers.
    #[serde(skip_serializing_if = "is_usual")]
    pub resample_antialias: bool,
    /// Regular expressions: position tables that are repeated to fill a longer table. Source: Beltagy et al. 2020, section 5.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeat: Vec<String>,
    /// Regular expressions: parameters that are frozen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<String>,
    /// Factor from each layer's learning rate to that of the layer below it; heads have the full rate. An encoder and a decoder
    /// each count from their own last layer; in a Swin Transformer the blocks of all stages are counted, with patch merging as
    /// part of the last block before it. Source: Howard and Ruder 2018, section 3.2; Clark et al. 2020, appendix B; Xie et al.
    /// 2022, released code.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer_lr_decay: Option<f64>,
}

impl TransferConfig {
    /// Returns the faults of the keys.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.from.is_none() {
            for (key, given) in [
                ("checkpoint", self.checkpoint.is_some()),
                ("layers", self.layers.is_some()),
                ("new", !self.new.is_empty()),
                ("skip", !self.skip.is_empty()),
                ("resample", !self.resample.is_empty()),
                ("repeat", !self.repeat.is_empty()),
            ] {
                if given {
                    faults.push(format!(
                        "{key} has no effect without from, the run to begin from"
                    ));
                }
            }
        }
        for (key, patterns) in [
            ("new", &self.new),
            ("skip", &self.skip),
            ("resample", &self.resample),
            ("repeat", &self.repeat),
            ("freeze", &self.freeze),
        ] {
            if let Err(error) = Patterns::new(key, patterns) {
                let message = error.to_string();
                faults.push(message.strip_prefix("[init] ").unwrap_or(&message).into());
            }
        }
        faults.extend(self.part_faults());
        let layers = self.layers.as_deref().map(str::parse::<LayerSelection>);
        if let Some(Err(rule)) = layers {
            faults.push(rule);
        }
        if self.resample_antialias && self.resample.is_empty() {
            faults.push("resample_antialias = true has no effect without resample".into());
        }
        if let Some(decay) = self.layer_lr_decay.filter(|d| !(*d > 0.0 && *d <= 1.0)) {
            faults.push(format!(
                "layer_lr_decay = {decay:?} must be above 0 and at most 1"
            ));
        }
        faults
    }

    /// Loads the weights of `file`, a checkpoint's, into the module as the rules say: all of them, or only those of one `way`.
    /// `lora` describes the other run's adapters, which are merged into its weights. Adapters of the module are initialised.
    ///
    /// # Errors
    /// If parameters are missing, unused or of another shape without a rule that allows it (the message lists them), or the file
    /// cannot be read.
    pub fn transfer<M: Module>(
        &self,
        model: M,
        file: &Path,
        lengths: Lengths,
        lora: Option<&LoraConfig>,
        way: Option<&PathMapping>,
    ) -> Result<(M, Transferred)> {
        let (resample, moved) = (lengths.resample, lengths.positions_differ);
        let mut stored = weights::read(file, &model)?;
        if let Some(lora) = lora {
            lora.merge(&mut stored)?;
        }
        let mut wanted = parameters::list_with_state(&model);
        wanted.retain(|p| !lora::is_adapter(&p.path));
        let (mut stored, behind) = parts::restrict_to_part(way, stored, &mut wanted);
        let mut done = Transferred {
            skipped: behind,
            merged: lora.is_some(),
            ..Transferred::default()
        };
        if let Some(layers) = &self.layers {
            let layers: LayerSelection = layers.parse().map_err(Error::usage)?;
            done.skipped
                .extend(layers.select_and_renumber(&mut stored, &wanted)?);
        }
        let (new, skip) = (
            Patterns::new("new", &self.new)?,
            Patterns::new("skip", &self.skip)?,
        );
        let paths: Vec<&str> = wanted.iter().map(|p| p.path.as_str()).collect();
        heads::rename_head_layer(&mut stored, &paths, &new);
        let resampled = Patterns::new("resample", &self.resample)?;
        let repeated = Patterns::new("repeat", &self.repeat)?;
        new.require_all_matched(wanted.iter().map(|p| p.path.as_str()))?;
        resampled.require_all_matched(wanted.iter().map(|p| p.path.as_str()))?;
        repeated.require_all_matched(wanted.iter().map(|p| p.path.as_str()))?;
        skip.require_all_matched(stored.keys().map(String::as_str))?;
        let stays = |path: &str| !new.match_path(path) && !skip.match_path(path);
        let kept = wanted.iter().filter(|p| stays(&p.path));
        done.grown = token_tables::extend_token_tables(
            &model,
            kept.clone(),
            &mut stored,
            lengths.token_tables,
        );
        if moved && self.resample.is_empty() {
            position_tables::require_no_position_tables(kept, &stored, resample)?;
        }
        let (mut faults, mut taken) = (Vec::new(), BTreeMap::new());
        let mut lengthened = [false; 2];
        for Parameter {
            path, shape, role, ..
        } in wanted
        {
            let mut found = stored.remove(&path);
            if skip.match_path(&path) && found.take().is_some() {
                // A parameter that is skipped although it exists is newly initialised, as requested.
                done.skipped.push(path.clone());
                done.new.push(path);
                continue;
            }
            if new.match_path(&path) {
                done.new.push(path);
                continue;
            }
            match found {
                Some(data)
                    if data.shape().to_vec() == shape
                        && !(moved && resampled.match_path(&path)) =>
                {
                    done.loaded.push(path.clone());
                    taken.insert(path, data);
                }
                Some(data) if resampled.match_path(&path) || repeated.match_path(&path) => {
                    let (how, word) = match repeated.match_path(&path) {
                        true => (LengthChange::Repeat, "repeated"),
                        false => (LengthChange::Resample, "resampled"),
                    };
                    let from = data.shape().to_vec();
                    match resample((path.as_str(), &data), &shape, how) {
                        _ if repeated.match_path(&path) && resampled.match_path(&path) => {
                            faults.push(format!("`{path}` matches both resample and repeat; remove it from one of them"));
                        }
                        // This table is the same in both runs.
                        Some(other) if other == data => {
                            done.loaded.push(path.clone());
                            taken.insert(path, other);
                        }
                        Some(other) => {
                            lengthened[usize::from(repeated.match_path(&path))] = true;
                            done.resampled.push(format!("{path} {from:?} → {shape:?}"));
                            taken.insert(path, other);
                        }
                        None => faults.push(format!(
                            "`{path}` with the shape {from:?} cannot be {word} to {shape:?} (list it in `new` to initialise it)"
                        )),
                    }
                }
                Some(data) => {
                    let fits = is_position_table(role)
                        && resample((path.as_str(), &data), &shape, LengthChange::Resample)
                            .is_some();
                    faults.push(shape_fault(
                        &path,
                        [&data.shape().to_vec(), &shape],
                        fits,
                        moved,
                    ));
                }
                None if local_projection(&path)
                    .is_some_and(|other| fits(taken.get(&other), &shape)) =>
                {
                    let other =
                        local_projection(&path).and_then(|other| taken.get(&other).cloned());
                    done.copied.push(path.clone());
                    taken.extend(other.map(|data| (path, data)));
                }
                // Runs with other losses do not have it.
                None if is_training_only(&path) => done.new.push(path),
                None => faults.push(format!(
                    "`{path}` is not in the file (list it in `new` to initialise it)"
                )),
            }
        }
        let unused: Vec<String> = stored.into_keys().collect();
        for path in unused {
            match skip.match_path(&path) || is_training_only(&path) {
                true => done.skipped.push(path),
                false => faults.push(format!(
                    "`{path}` is in the file but not in the model (list it in `skip` to ignore it)"
                )),
            }
        }
        let keys = [("resample", &self.resample), ("repeat", &self.repeat)];
        for ((key, given), lengthened) in keys.into_iter().zip(lengthened) {
            if !given.is_empty() && !lengthened && faults.is_empty() {
                return Err(Error::usage(format!(
                    "[init] {key} has no effect: the parameters that it names have the same length in both runs; remove it"
                )));
            }
        }
        if !faults.is_empty() {
            return Err(mismatch(file, &faults));
        }
        Ok((weights::fill(model, taken)?, done))
    }

    /// Returns the paths that would be taken from the other run.
    ///
    /// # Errors
    /// If a pattern is not a regular expression.
    pub fn taken_paths<'p>(&self, paths: impl Iterator<Item = &'p str>) -> Result<Vec<&'p str>> {
        let (new, skip) = (
            Patterns::new("new", &self.new)?,
            Patterns::new("skip", &self.skip)?,
        );
        Ok(paths
            .filter(|path| !new.match_path(path) && !skip.match_path(path))
            .collect())
    }

    /// Freezes the parameters of `freeze`.
    ///
    /// # Errors
    /// If a pattern is not a regular expression or matches no parameter.
    pub fn freeze_matching<M: Module>(&self, model: M) -> Result<M> {
        if self.freeze.is_empty() {
            return Ok(model);
        }
        let patterns = Patterns::new("freeze", &self.freeze)?;
        let all = parameters::list(&model);
        let found = patterns.matching(&all)?;
        let held = all.iter().zip(found).filter(|(_, found)| *found);
        let held: Vec<_> = held.map(|(p, _)| p.id).collect();
        if held.len() == all.len() {
            return Err(Error::usage(
                "[init] freeze matches every parameter, so none is left to train",
            ));
        }
        Ok(model.freeze_group(ParamGroup::from_ids(held)))
    }

    /// Returns the learning rate of each parameter, relative to the schedule's.
    pub fn lr_scale(&self, depths: StackDepths) -> Option<FactorsByRole<'static>> {
        let decay = self.layer_lr_decay?;
        Some(Box::new(move |role: Role| {
            Factors::lr_only(decay.powi(depth_from_end(role, &depths)))
        }))
    }
}
