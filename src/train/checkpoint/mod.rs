//! Checkpoints: folders that are written atomically.
//!
//! ```text
//! steps/NNNNNNNN/  model.safetensors  optimizer.bpk  [ema.safetensors]  [state.safetensors]  state.json  manifest.json
//! ```
//!
//! A checkpoint is written under a name that ends in `.tmp`, flushed to the disk with its manifest last, and renamed.
//! Only then are `latest` and `best` moved, and only then are older checkpoints deleted. If this is interrupted at any
//! point, a complete checkpoint remains.

mod carried_state;
mod folders;
mod format;
mod imported;
mod legacy;
pub mod mean;
pub mod moments;
mod search;
mod state;
pub mod weights;

use super::ema::{DecayRule, Ema};
use super::manifest::{self, Manifest, damaged, write_json};
use super::run_dir::{self, RunDir, checkpoints_folder};
use crate::error::{Error, Result};
use crate::files;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::optim::ModuleOptimizer;
pub use carried_state::gather;
pub use folders::{fix_links, is_interim, restore_links, stale_links};
pub use format::VERSION;
pub use imported::import;
pub use search::{Search, newest_complete, newest_to_resume};
pub use state::{Best, KeyChange, State, Window};
use std::path::{Path, PathBuf};
pub use weights::{load as load_weights, save as save_weights, weights_hash};

const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.bpk";
const EMA: &str = "ema.safetensors";
const STATE: &str = "state.json";
/// Link to the newest checkpoint.
pub const LATEST: &str = "latest";
/// Link to the checkpoint of the best evaluation.
pub const BEST: &str = "best";

/// Everything that a checkpoint holds.
pub struct CheckpointContents<'a, M> {
    /// The weights.
    pub model: &'a M,
    /// The optimizer with its moments.
    pub optimizer: &'a ModuleOptimizer,
    /// Averaged weights, if any.
    pub ema: Option<&'a Ema<M>>,
    /// State that the model carries into the next step, if any.
    pub carried: Option<&'a ModelState>,
    /// Step and bookkeeping.
    pub state: &'a State,
}

/// Writes the checkpoint of `state.step`, moves the links, and deletes all other checkpoints except the best one and
/// the newest `keep_last` that were due. An existing checkpoint of that step is replaced; those of later steps, left
/// behind by a run that was resumed at an earlier step, are deleted.
///
/// # Errors
/// If the disk cannot be written, or the run's folder is not where it was. The earlier contents are then untouched.
pub fn save<M: Module>(run: &RunDir, of: &CheckpointContents<M>, keep: usize) -> Result<PathBuf> {
    save_all(run, of, Vec::new(), keep)
}

/// [`save`] with the moments that other ranks keep for their parameters.
///
/// # Errors
/// As [`save`].
pub fn save_all<M: Module>(
    run: &RunDir,
    parts: &CheckpointContents<M>,
    moments: Vec<Vec<u8>>,
    keep_last: usize,
) -> Result<PathBuf> {
    run.guard().require_in_place()?;
    let steps = run.steps();
    let step = parts.state.step;
    let partial = steps.join(format!("{}.tmp", folder_name(step)));
    let target = steps.join(folder_name(step));
    files::delete_folder(&partial)?;
    let written = write(&partial, parts, moments).and_then(|()| {
        run.guard().require_in_place()?;
        folders::install(&partial, &target)
    });
    if let Err(error) = written {
        // Frees the space; the error that is returned matters more.
        let _ = std::fs::remove_dir_all(&partial);
        // If the folder was moved meanwhile, report that as the cause.
        run.guard().require_in_place()?;
        return Err(error);
    }
    files::sync_folder(&steps)?;
    folders::set_link(run.root(), LATEST, Some(step))?;
    let best = parts.state.best.map(|b| b.step);
    let best = best.filter(|s| steps.join(folder_name(*s)).is_dir());
    folders::set_link(run.root(), BEST, best)?;
    folders::prune(run.root(), step, best, keep_last)?;
    Ok(target)
}

fn write<M: Module>(
    folder: &Path,
    parts: &CheckpointContents<M>,
    others: Vec<Vec<u8>>,
) -> Result<()> {
    std::fs::create_dir(folder).map_err(Error::io("create", folder))?;
    weights::save(parts.model, &folder.join(MODEL))?;
    moments::save(
        parts.optimizer,
        others,
        parts.model,
        &folder.join(OPTIMIZER),
    )?;
    write_json(&folder.join(STATE), parts.state)?;
    let mut names = vec![MODEL, OPTIMIZER, STATE];
    if let Some(ema) = parts.ema {
        weights::save(ema.model(), &folder.join(EMA))?;
        names.push(EMA);
    }
    if let Some(state) = parts.carried {
        carried_state::save(state, &folder.join(carried_state::FILE))?;
        names.push(carried_state::FILE);
    }
    manifest::seal(folder, &names)?;
    Ok(())
}

/// Lists the steps that have a checkpoint folder, ascending; the folders may be damaged.
pub fn steps(root: &Path) -> Vec<u64> {
    let mut found: Vec<u64> = entries(&checkpoints_folder(root))
        .iter()
        .filter_map(|entry| step_of(entry))
        .collect();
    found.sort_unstable();
    found
}

/// Removes what an interrupted save left behind, and replaces folders by links where copying the run turned links into folders.
///
/// # Errors
/// If something cannot be deleted, or a folder in place of a link equals none of the checkpoints.
pub fn clean(run: &RunDir) -> Result<()> {
    for entry in entries(&run.steps()) {
        let path = run.steps().join(&entry);
        let old = entry.strip_suffix(".old").and_then(step_of);
        let partial = entry.strip_suffix(".tmp").and_then(step_of);
        if let Some(step) = old {
            let place = run.steps().join(folder_name(step));
            if !place.exists() {
                std::fs::rename(&path, &place).map_err(Error::io("rename", &path))?;
            }
        }
        if old.or(partial).is_some() {
            files::delete_folder(&path)?;
        }
    }
    files::delete_leftovers(run.root(), run_dir::is_replaced_atomically)?;
    restore_links(run.root())
}

/// A checkpoint whose files match its manifest.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    manifest: Manifest,
    state: State,
    version: u32,
}

impl Checkpoint {
    /// Opens a checkpoint's folder (or a link to one) and verifies all its files.
    ///
    /// # Errors
    /// If a file is missing or damaged, which the message names, or the version is newer than this program.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        if !folder.is_dir() {
            return Err(Error::run(format!(
                "there is no checkpoint {}",
                folder.display()
            )));
        }
        let manifest = manifest::verify(&folder)?;
        for file in [MODEL, STATE] {
            if !manifest.files.contains_key(file) {
                let what = format!("manifest.json does not name {file}");
                return Err(damaged(&folder, &what));
            }
        }
        let path = folder.join(STATE);
        let text = std::fs::read(&path).map_err(Error::io("read", &path))?;
        let version = format::version(&folder.join(MODEL))?;
        let state = match version {
            1 => legacy::read_state(&text),
            _ => serde_json::from_slice(&text),
        };
        let state =
            state.map_err(|e| damaged(&folder, &format!("state.json cannot be read: {e}")))?;
        require_step(&folder, &state)?;
        Ok(Self {
            folder,
            manifest,
            state,
            version,
        })
    }

    /// Returns its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the step and bookkeeping.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the version of the format that it was written in; [`VERSION`] is the current one.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns a note for the journal of a run that is resumed from here, if its next steps differ from the earlier ones.
    pub fn note(&self) -> Option<&'static str> {
        (self.version == 1).then_some(legacy::NOTE)
    }

    /// Returns whether it has averaged weights.
    pub fn has_ema(&self) -> bool {
        self.manifest.files.contains_key(EMA)
    }

    /// Loads the saved weights into the model.
    ///
    /// # Errors
    /// If the weights are another model's.
    pub fn load_model<M: Module>(&self, model: M) -> Result<M> {
        weights::load(model, &self.folder.join(MODEL))
    }

    /// Loads the weights that evaluations use into the model: the averaged ones if there are any. The model may lack
    /// the parts that only training uses.
    ///
    /// # Errors
    /// If the weights are another model's.
    pub fn load_evaluated<M: Module>(&self, model: M) -> Result<M> {
        weights::load_for_inference(model, &self.evaluated_weights())
    }

    /// [`Self::load_evaluated`] for a model with another number format than the run: the weights are converted.
    ///
    /// # Errors
    /// If the weights are another model's.
    pub fn load_converted<M: Module>(&self, model: M) -> Result<M> {
        weights::load_converted(model, &self.evaluated_weights())
    }

    /// Returns the file of the weights that evaluations use.
    pub fn evaluated_weights(&self) -> PathBuf {
        self.folder.join(if self.has_ema() { EMA } else { MODEL })
    }

    /// Returns the SHA-256 of that file in hexadecimal, from the manifest that the file was verified against.
    ///
    /// # Errors
    /// If the manifest does not name the file.
    pub fn evaluated_weights_sha256(&self) -> Result<&str> {
        let name = if self.has_ema() { EMA } else { MODEL };
        let entry = self.manifest.files.get(name);
        entry
            .map(|entry| entry.sha256.as_str())
            .ok_or_else(|| damaged(&self.folder, &format!("manifest.json does not name {name}")))
    }

    /// Loads the averaged weights, which continue with `rule`; `model` gives the structure.
    ///
    /// # Errors
    /// If there are none, or they are another model's.
    pub fn load_ema<M: Module>(&self, rule: impl Into<DecayRule>, model: &M) -> Result<Ema<M>> {
        if !self.has_ema() {
            let what = "it has no averaged weights; the run kept none when it was written";
            return Err(damaged(&self.folder, what));
        }
        let average = weights::load(model.valid(), &self.folder.join(EMA))?;
        let taken = self.state.step.saturating_sub(self.state.skipped_steps);
        Ok(Ema::from_average(rule, taken, average))
    }

    /// Loads the saved moments into the optimizer, which was built for `model`. Load the model first.
    ///
    /// # Errors
    /// If the state is another model's or another kind of optimizer's.
    pub fn load_optimizer<M: Module>(
        &self,
        optimizer: ModuleOptimizer,
        model: &M,
    ) -> Result<ModuleOptimizer> {
        if !self.manifest.files.contains_key(OPTIMIZER) {
            let reason = "it has no optimizer state because the run was imported; start a new run from it with [init] from";
            return Err(damaged(&self.folder, reason));
        }
        moments::load(optimizer, model, &self.folder.join(OPTIMIZER), self.version)
    }
}

/// Fails if the state's step differs from the step in the folder's name, after resolving links.
fn require_step(folder: &Path, state: &State) -> Result<()> {
    let found = folder.canonicalize().map_err(Error::io("read", folder))?;
    let named = found.file_name().and_then(|name| step_of(name.to_str()?));
    match named.filter(|step| *step != state.step) {
        None => Ok(()),
        Some(step) => Err(damaged(
            folder,
            &format!(
                "state.json is of step {}, but the folder is of step {step}",
                state.step
            ),
        )),
    }
}

/// Returns the name of the checkpoint of a step.
pub fn folder_name(step: u64) -> String {
    format!("{step:08}")
}

/// Returns the step of a checkpoint's name; `None` for any other name.
fn step_of(entry: &str) -> Option<u64> {
    let step = entry.parse().ok();
    step.filter(|step| folder_name(*step) == entry)
}

/// Lists the names in a folder; empty if it cannot be read.
fn entries(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}
