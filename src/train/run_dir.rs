//! A run folder: the files of a run, held by one process at a time.
//!
//! ```text
//! experiment.toml resolved.toml tokenizer.json data.json files.json
//! init.json teacher.json reward.json machine.json              written before the first step
//! manifest.json                                                their sizes and checksums
//! metrics.jsonl samples.jsonl diagnostics.jsonl                appended
//! metrics.csv events.out.tfevents.*                            copies, recreated when a run is resumed
//! steps/NNNNNNNN/ best latest                                  checkpoints
//! scores.json report/                                          written afterwards
//! run.lock scores.lock                                         held while a process trains here, or changes the scores
//! ```

mod required;
mod scores;

use super::checkpoint::{self, BEST, LATEST};
use super::run_manifest;
use super::symlinks::{self, FolderGuard};
use crate::error::{Error, Result, shell_word};
use crate::files;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use required::{DEFAULT_FOLDER, locate, require_run};
pub use scores::lock_scores;

/// The experiment as its author wrote it.
pub const EXPERIMENT: &str = "experiment.toml";
/// The experiment with every value spelled out; written last, its presence makes a folder a run folder.
pub const RESOLVED: &str = "resolved.toml";
/// The tokenizer.
pub const TOKENIZER: &str = "tokenizer.json";
/// Tokenizer of the targets, if they have a separate one.
pub const TARGET_TOKENIZER: &str = "target_tokenizer.json";
/// Chat template, if the run has one.
pub const CHAT: &str = "chat_template.json";
/// The properties of the data that the model is built for: sizes, names of classes.
pub const DATA: &str = "data.json";
/// Fingerprints of the data files.
pub const FILES: &str = "files.json";
/// Step and SHA-256 of the teacher's weights, in a distillation.
pub const TEACHER: &str = "teacher.json";
/// Step and SHA-256 of the reward model's weights, in a run that is trained on a model's rewards.
pub const REWARD: &str = "reward.json";
/// The config.json of the Hugging Face folder that the run was imported from.
pub const HF_CONFIG: &str = "hf_config.json";
/// Generation settings kept from the Hugging Face folder that the run was imported from.
pub const HF_GENERATION: &str = "hf_generation_config.json";
/// Tokenizer settings besides the ids, from the Hugging Face folder that the run was imported from.
pub const HF_TOKENIZER: &str = "hf_tokenizer_config.json";
/// The machine that the run was computed on.
pub const MACHINE: &str = "machine.json";
/// The journal.
pub const METRICS: &str = "metrics.jsonl";
/// Generated texts.
pub const SAMPLES: &str = "samples.jsonl";
/// Norms of the model's parts, attention entropies.
pub const DIAGNOSTICS: &str = "diagnostics.jsonl";
/// The journals as a table.
pub const CSV: &str = "metrics.csv";
/// Prefix of the names of TensorBoard files.
pub const EVENTS: &str = "events.out.tfevents.";
/// Metrics of splits, written after the last step and by `eval`.
pub const SCORES: &str = "scores.json";
/// Locked while a process trains in the folder.
pub const LOCK: &str = "run.lock";
/// Locked while a process changes the scores.
const SCORES_LOCK: &str = "scores.lock";
const STEPS: &str = "steps";
const REPORT: &str = "report";
/// How long to wait for a process that is about to exit.
const EXIT_GRACE: Duration = Duration::from_millis(300);
/// An open run folder; no other process can train in it until the value is dropped.
#[derive(Debug)]
pub struct RunDir {
    root: PathBuf,
    _lock: Option<File>,
    home: FolderGuard,
}

/// What to do with an existing run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave it and return an error.
    Refuse,
    /// Delete it and start over (`--fresh`).
    Replace,
}

impl RunDir {
    /// Creates the folder for a new run and locks it.
    ///
    /// # Errors
    /// If the folder holds a run (unless it is to be replaced) or anything else, or another process trains in it.
    pub fn create(root: impl AsRef<Path>, existing: Existing) -> Result<Self> {
        let root = root.as_ref();
        symlinks::require_target(root)?;
        if !is_run(root) && !is_vacant(root)? {
            return Err(Error::usage(format!(
                "{} exists and is not a run folder; name another with --run DIR",
                root.display()
            )));
        }
        if is_run(root) && existing == Existing::Refuse {
            // Advice about a run that another process trains would be wrong a moment later.
            let why = if is_busy(root) { locked_error } else { refusal };
            return Err(why(root));
        }
        std::fs::create_dir_all(root).map_err(Error::io("create", root))?;
        let run = Self::locked(root)?;
        files::delete_leftovers(root, is_replaced_atomically)?;
        if is_run(root) {
            // Another process may have created a run since the first check.
            if existing == Existing::Refuse {
                return Err(refusal(root));
            }
            run.clear()?;
        }
        std::fs::create_dir_all(run.steps()).map_err(Error::io("create", run.steps()))?;
        Ok(run)
    }

    /// Opens and locks the folder of an existing run.
    ///
    /// # Errors
    /// If it holds no run, or another process trains in it.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref();
        require_run(root)?;
        let run = Self::locked(root)?;
        std::fs::create_dir_all(run.steps()).map_err(Error::io("create", run.steps()))?;
        Ok(run)
    }

    /// Returns the folder of a run that another rank has locked and writes.
    pub fn of_other_rank(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref();
        Self {
            root: root.to_path_buf(),
            home: FolderGuard::of_other_process(root, &root.join(LOCK)),
            _lock: None,
        }
    }

    /// Returns the folder's path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file of the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the folder of the checkpoints.
    pub fn steps(&self) -> PathBuf {
        checkpoints_folder(&self.root)
    }

    /// Writes a file of the run atomically.
    ///
    /// # Errors
    /// If the disk cannot be written; the file is then unchanged.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        files::write(&self.path(name), bytes)
    }

    /// Returns the folder with the check that it is still there.
    pub fn guard(&self) -> &FolderGuard {
        &self.home
    }

    fn locked(root: &Path) -> Result<Self> {
        symlinks::refuse_symlinks(root)?;
        let path = root.join(LOCK);
        let mut file = symlinks::open_refusing_symlink(&path)?;
        match files::lock_within(&file, EXIT_GRACE) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked_error(root)),
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path)(e)),
        }
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(format!("{}\n", std::process::id()).as_bytes()))
            .map_err(Error::io("write", &path))?;
        Ok(Self {
            root: root.to_path_buf(),
            home: FolderGuard::new(root, &path, &file),
            _lock: Some(file),
        })
    }

    /// Deletes the files that a run writes and nothing else. The file that marks the folder as a run's is deleted last.
    ///
    /// # Errors
    /// If a folder in place of a link equals none of the checkpoints; nothing is deleted then.
    fn clear(&self) -> Result<()> {
        // Links are folders if the run was copied with links followed.
        checkpoint::restore_links(&self.root)?;
        for folder in [STEPS, REPORT] {
            files::delete_folder(&self.path(folder))?;
        }
        for file in event_files(&self.root)? {
            files::delete(&file)?;
        }
        for file in [LATEST, BEST, SCORES]
            .into_iter()
            .chain(GROWING)
            .chain(SETUP_FILES)
        {
            files::delete(&self.path(file))?;
        }
        Ok(())
    }
}

/// The files that a run writes before its first step; the one that marks the folder as a run's comes last.
pub(super) const SETUP_FILES: [&str; 15] = [
    TOKENIZER,
    TARGET_TOKENIZER,
    CHAT,
    DATA,
    FILES,
    TEACHER,
    REWARD,
    super::transfer::INIT,
    HF_CONFIG,
    HF_GENERATION,
    HF_TOKENIZER,
    MACHINE,
    EXPERIMENT,
    run_manifest::NAME,
    RESOLVED,
];

/// The files that a run appends to.
const GROWING: [&str; 4] = [METRICS, SAMPLES, DIAGNOSTICS, CSV];

/// Returns whether a name in a run's folder belongs to a file or folder that the run writes.
pub(super) fn is_run_file(name: &str) -> bool {
    [LOCK, SCORES_LOCK, STEPS, REPORT, SCORES].contains(&name)
        || SETUP_FILES.contains(&name)
        || GROWING.contains(&name)
        || name.starts_with(EVENTS)
}

/// Returns whether a file is written under a temporary name and then renamed, and only by the process that holds the run.
pub(super) fn is_replaced_atomically(name: &str) -> bool {
    SETUP_FILES.contains(&name) || [LATEST, BEST].contains(&name)
}

/// Lists the TensorBoard files of a run.
///
/// # Errors
/// If the folder cannot be read.
pub fn event_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).map_err(Error::io("read", root))? {
        let path = entry.map_err(Error::io("read", root))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(EVENTS) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Returns the folder of a run's checkpoints.
pub fn checkpoints_folder(root: &Path) -> PathBuf {
    root.join(STEPS)
}

/// Returns whether a folder holds a run.
pub fn is_run(root: &Path) -> bool {
    root.join(RESOLVED).is_file()
}

/// Returns the beginning of the error for a folder that another process trains in; no other error begins like this.
pub fn in_use_message(root: &Path) -> String {
    format!("{} is in use: ", root.display())
}

/// Returns whether a process trains in a folder.
pub fn is_busy(root: &Path) -> bool {
    let path = root.join(LOCK);
    // Opened for writing: over NFS the lock is a byte range, which a reader cannot test. Another user's run may only be
    // readable.
    let file = OpenOptions::new().read(true).write(true).open(&path);
    let file = file.or_else(|_| File::open(&path));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Builds the error for a lock that another process holds.
fn locked_error(root: &Path) -> Error {
    // The process id is a courtesy; without it the message still says what is wrong.
    let holder = std::fs::read_to_string(root.join(LOCK)).unwrap_or_default();
    let holder = match holder.trim() {
        "" => "another process".to_string(),
        pid => format!("process {pid}"),
    };
    Error::run(format!("{}{holder} trains in it", in_use_message(root)))
}

fn refusal(root: &Path) -> Error {
    let (shown, word) = (root.display(), shell_word(root));
    let checkpoints = super::checkpoint::steps(root);
    Error::usage(match checkpoints.last() {
        Some(step) => format!(
            "{shown} contains a run at step {step}; continue it with `formwork resume {word}`, \
             start over with --fresh, or name another folder with --run DIR"
        ),
        None => format!(
            "{shown} contains a run without a checkpoint; start it again with `formwork resume {word}`, \
             start over with --fresh, or name another folder with --run DIR"
        ),
    })
}

/// Whether the folder is missing, empty, or holds only files written before the first step by a run that was killed then.
fn is_vacant(root: &Path) -> Result<bool> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(true),
        Err(e) if e.kind() == ErrorKind::NotADirectory => return Ok(false),
        Err(e) => return Err(Error::io("read", root)(e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io("read", root))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    let begun = names.iter().any(|name| name == LOCK);
    let is_ours = |name: &String| {
        let name = files::target_of(name).unwrap_or(name);
        [LOCK, SCORES_LOCK, STEPS].contains(&name) || SETUP_FILES.contains(&name)
    };
    Ok(names.is_empty() || begun && names.iter().all(is_ours))
}
