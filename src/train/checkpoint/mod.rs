//! Checkpoints: folders that are there whole or not at all.
//!
//! ```text
//! steps/NNNNNNNN/  model.safetensors  optimizer.bpk  [ema.safetensors]  [state.safetensors]  state.json  manifest.json
//! ```
//!
//! One is written under a name that ends in `.tmp`, brought to the disk with its manifest last, and
//! renamed. Only then do `latest` and `best` move, and only then are older ones deleted. Whatever
//! interrupts that, a whole checkpoint remains.

mod carried;
mod format;
mod imported;
mod legacy;
pub mod mean;
pub mod moments;
mod place;
mod search;
mod state;
pub mod weights;

use super::ema::{Ema, Rule};
use super::manifest::{self, Manifest, damaged, write_json};
use super::run_dir::{self, RunDir, steps_of};
use crate::error::{Error, Result};
use crate::files;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::optim::ModuleOptimizer;
pub use carried::gathered;
pub use format::VERSION;
pub use imported::import;
pub use place::{astray, is_interim, put_right, restore_links};
pub use search::{Search, newest_to_resume, newest_whole};
pub use state::{Best, KeyChange, State, Window};
use std::path::{Path, PathBuf};
pub use weights::{load as load_weights, save as save_weights, weights_hash};

const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.bpk";
const EMA: &str = "ema.safetensors";
const STATE: &str = "state.json";
/// The link to the newest checkpoint.
pub const LATEST: &str = "latest";
/// The link to the checkpoint of the best evaluation.
pub const BEST: &str = "best";

/// Everything that a checkpoint holds.
pub struct Parts<'a, M> {
    /// The weights.
    pub model: &'a M,
    /// Its moments.
    pub optimizer: &'a ModuleOptimizer,
    /// Averaged weights.
    pub ema: Option<&'a Ema<M>>,
    /// The state that the model passes on to the next step.
    pub carried: Option<&'a ModelState>,
    /// Step and bookkeeping.
    pub state: &'a State,
}

/// Writes the checkpoint of `state.step`, moves the links, and deletes all but the newest `keep_last` that were due, this one and
/// the best. A checkpoint of that step that is there already is replaced; those of later steps, which a run
/// resumed at an earlier step has left behind, are deleted.
///
/// # Errors
/// When the disk refuses, and when the run's folder is not where it was. What was there before is then untouched.
pub fn save<M: Module>(run: &RunDir, parts: &Parts<M>, keep_last: usize) -> Result<PathBuf> {
    save_all(run, parts, Vec::new(), keep_last)
}

/// [`save`] with the moments that other ranks keep of parameters of theirs.
///
/// # Errors
/// Those of [`save`].
pub fn save_all<M: Module>(
    run: &RunDir,
    parts: &Parts<M>,
    moments: Vec<Vec<u8>>,
    keep_last: usize,
) -> Result<PathBuf> {
    run.home().require()?;
    let steps = run.steps();
    let step = parts.state.step;
    let partial = steps.join(format!("{}.tmp", name(step)));
    let target = steps.join(name(step));
    files::delete_folder(&partial)?;
    let written = write(&partial, parts, moments).and_then(|()| {
        run.home().require()?;
        place::put(&partial, &target)
    });
    if let Err(error) = written {
        // Gives the space back; the error that is returned is the one that matters.
        let _ = std::fs::remove_dir_all(&partial);
        // A folder that was moved meanwhile is why the disk refused.
        run.home().require()?;
        return Err(error);
    }
    files::sync_folder(&steps)?;
    place::link(run.root(), LATEST, Some(step))?;
    let best = parts.state.best.map(|b| b.step);
    let best = best.filter(|s| steps.join(name(*s)).is_dir());
    place::link(run.root(), BEST, best)?;
    place::prune(run.root(), step, best, keep_last)?;
    Ok(target)
}

fn write<M: Module>(folder: &Path, parts: &Parts<M>, others: Vec<Vec<u8>>) -> Result<()> {
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
        carried::save(state, &folder.join(carried::FILE))?;
        names.push(carried::FILE);
    }
    manifest::seal(folder, &names)?;
    Ok(())
}

/// Steps that have a checkpoint folder, rising; whole or not.
pub fn steps(root: &Path) -> Vec<u64> {
    let mut found: Vec<u64> = entries(&steps_of(root))
        .iter()
        .filter_map(|entry| step_of(entry))
        .collect();
    found.sort_unstable();
    found
}

/// Removes what an interrupted save left behind, and puts links in the place of folders that a copy of the run has there.
///
/// # Errors
/// When something cannot be deleted; a folder in the place of a link that equals none of the checkpoints.
pub fn clean(run: &RunDir) -> Result<()> {
    for entry in entries(&run.steps()) {
        let path = run.steps().join(&entry);
        let old = entry.strip_suffix(".old").and_then(step_of);
        let partial = entry.strip_suffix(".tmp").and_then(step_of);
        if let Some(step) = old {
            let place = run.steps().join(name(step));
            if !place.exists() {
                std::fs::rename(&path, &place).map_err(Error::io("rename", &path))?;
            }
        }
        if old.or(partial).is_some() {
            files::delete_folder(&path)?;
        }
    }
    files::delete_leftovers(run.root(), run_dir::is_written_aside)?;
    restore_links(run.root())
}

/// A checkpoint whose files are as its manifest says.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    manifest: Manifest,
    state: State,
    version: u32,
}

impl Checkpoint {
    /// Opens a checkpoint's folder (or a link to one) and verifies every file of it.
    ///
    /// # Errors
    /// With the file and what is wrong with it; a version that is newer than this program.
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
            1 => legacy::state(&text),
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

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Step and bookkeeping.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The version of the format that it was written in; [`VERSION`] is today's.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// A note for the journal of a run that is resumed from here: the differences of its steps from the steps before.
    pub fn note(&self) -> Option<&'static str> {
        (self.version == 1).then_some(legacy::NOTE)
    }

    /// Whether it has averaged weights.
    pub fn has_ema(&self) -> bool {
        self.manifest.files.contains_key(EMA)
    }

    /// The model with the saved weights.
    ///
    /// # Errors
    /// When the weights are another model's.
    pub fn load_model<M: Module>(&self, model: M) -> Result<M> {
        weights::load(model, &self.folder.join(MODEL))
    }

    /// The model with the weights that evaluations use: averaged ones where there are any. It may be without the parts
    /// that training alone uses.
    ///
    /// # Errors
    /// When the weights are another model's.
    pub fn load_evaluated<M: Module>(&self, model: M) -> Result<M> {
        weights::load_to_use(model, &self.evaluated_weights())
    }

    /// [`Self::load_evaluated`] for a model that computes in another number format than the run: its weights are converted.
    ///
    /// # Errors
    /// When the weights are another model's.
    pub fn load_converted<M: Module>(&self, model: M) -> Result<M> {
        weights::load_converted(model, &self.evaluated_weights())
    }

    /// The file of the weights that evaluations use.
    pub fn evaluated_weights(&self) -> PathBuf {
        self.folder.join(if self.has_ema() { EMA } else { MODEL })
    }

    /// SHA-256 of that file in hexadecimal, as the manifest has it, which the file was held against.
    ///
    /// # Errors
    /// A manifest that does not name the file.
    pub fn evaluated_sum(&self) -> Result<&str> {
        let name = if self.has_ema() { EMA } else { MODEL };
        let entry = self.manifest.files.get(name);
        entry
            .map(|entry| entry.sha256.as_str())
            .ok_or_else(|| damaged(&self.folder, &format!("manifest.json does not name {name}")))
    }

    /// The averaged weights, which go on by this rule; `model` gives the structure.
    ///
    /// # Errors
    /// When there are none, or they are another model's.
    pub fn load_ema<M: Module>(&self, rule: impl Into<Rule>, model: &M) -> Result<Ema<M>> {
        if !self.has_ema() {
            let what = "it has no averaged weights; the run kept none when it was written";
            return Err(damaged(&self.folder, what));
        }
        let average = weights::load(model.valid(), &self.folder.join(EMA))?;
        let taken = self.state.step.saturating_sub(self.state.skipped_steps);
        Ok(Ema::from_average(rule, taken, average))
    }

    /// The optimizer, built for `model`, with the saved moments. Load the model first.
    ///
    /// # Errors
    /// When the state is another model's or another kind of optimizer's.
    pub fn load_optimizer<M: Module>(
        &self,
        optimizer: ModuleOptimizer,
        model: &M,
    ) -> Result<ModuleOptimizer> {
        if !self.manifest.files.contains_key(OPTIMIZER) {
            let reason = "it has no optimizer's state, as the run was imported; begin a run from it with [init] from";
            return Err(damaged(&self.folder, reason));
        }
        moments::load(optimizer, model, &self.folder.join(OPTIMIZER), self.version)
    }
}

/// An error when the state is that of another step than the folder's name says, whichever links lead to the folder.
fn require_step(folder: &Path, state: &State) -> Result<()> {
    let found = folder.canonicalize().map_err(Error::io("read", folder))?;
    let named = found.file_name().and_then(|name| step_of(name.to_str()?));
    match named.filter(|step| *step != state.step) {
        None => Ok(()),
        Some(step) => Err(damaged(
            folder,
            &format!(
                "state.json is that of step {}, and the folder that of step {step}",
                state.step
            ),
        )),
    }
}

/// A checkpoint's name.
pub fn name(step: u64) -> String {
    format!("{step:08}")
}

/// The step of a checkpoint's name; none for any other name.
fn step_of(entry: &str) -> Option<u64> {
    entry.parse().ok().filter(|step| name(*step) == entry)
}

/// The names in a folder; none when it cannot be read.
fn entries(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}
