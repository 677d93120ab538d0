//! Finding the run folder that a command names, and the error if it is not one.

use super::{RESOLVED, is_run};
use crate::error::{Error, Result, nearest, shell_word};
use crate::files;
use std::path::{Path, PathBuf};

/// Folder of the runs, unless a command says otherwise.
pub const DEFAULT_FOLDER: &str = "checkpoints";

/// The plan in the folder of a sweep, which has its runs in subfolders.
const PLAN: &str = "sweep.json";

/// Returns the path itself, or `checkpoints/NAME` for a bare name that exists only there.
pub fn locate(path: &Path) -> PathBuf {
    let named = Path::new(DEFAULT_FOLDER).join(path);
    let bare = path.components().count() == 1 && path.is_relative();
    match bare && !path.exists() && named.is_dir() {
        true => named,
        false => path.to_path_buf(),
    }
}

/// Returns `; did you mean …?` if a run next to the path, or one in `checkpoints`, has a similar name.
fn suggest_run(path: &Path) -> String {
    let beside = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let entries = [beside, Path::new(DEFAULT_FOLDER)].map(|folder| std::fs::read_dir(folder).ok());
    let entries = entries.into_iter().flatten().flatten().flatten();
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    runs.retain(|run| is_run(run));
    runs.sort();
    let name = |run: &Path| {
        run.file_name()
            .and_then(|name| name.to_str())
            .map(str::to_owned)
    };
    let names: Vec<String> = runs.iter().filter_map(|run| name(run)).collect();
    let wanted = name(path).unwrap_or_default();
    let near = nearest(&wanted, names.iter().map(String::as_str));
    let near = near.and_then(|near| runs.iter().find(|run| name(run).as_deref() == Some(near)));
    near.map_or_else(String::new, |run| {
        let run = run.strip_prefix(".").unwrap_or(run);
        format!("; did you mean {}?", run.display())
    })
}

/// Fails if a folder holds no run, for commands that read one.
///
/// # Errors
/// If it holds none; the message says what is there instead.
pub fn require_run(root: &Path) -> Result<()> {
    if is_run(root) {
        return files::require_regular_in(root);
    }
    let shown = root.display();
    Err(Error::usage(if root.join(PLAN).is_file() {
        format!(
            "{shown} is a sweep, not a run: name one of its runs, {shown}/cells/ARM/seed-SEED; to continue the whole \
             sweep: formwork sweep {}",
            shell_word(root)
        )
    } else if root.join("config.json").is_file() {
        format!(
            "{shown} is not a run folder: it has no {RESOLVED}; to convert a Hugging Face folder: formwork import {} RUN",
            shell_word(root)
        )
    } else if root.is_dir() {
        format!("{shown} is not a run folder: it has no {RESOLVED}")
    } else if root.is_file() {
        format!("{shown} is a file, not a run folder")
    } else {
        format!("there is no run folder {shown}{}", suggest_run(root))
    }))
}
