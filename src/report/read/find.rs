//! Locates run and sweep folders, and suggests the one that was meant if a path is neither.

use std::fs;
use std::path::{Path, PathBuf};

use super::sweep::SweepFolder;
use crate::error::{Fault, nearest};
use crate::train::run_dir::DEFAULT_FOLDER;
pub use crate::train::run_dir::locate;

/// Folder in which sweeps are looked for, besides the run folders' own.
const SWEEPS: &str = "sweeps";

/// Returns the folder of a sweep: the path itself, or a bare name in `checkpoints/` or `sweeps/`; `None` if there is no plan.
pub fn locate_sweep(path: &Path) -> Option<PathBuf> {
    let bare = path.components().count() == 1 && path.is_relative();
    let named = [DEFAULT_FOLDER, SWEEPS].map(|folder| Path::new(folder).join(path));
    let named = named.into_iter().filter(|_| bare);
    std::iter::once(path.to_path_buf())
        .chain(named)
        .find(|folder| SweepFolder::is_sweep(folder))
}

/// Explains why `path` is not a run folder, and suggests the one with the nearest name.
pub fn not_a_run(path: &Path, folder: &Path) -> Fault {
    let inside = runs_in(folder);
    let what = if !folder.exists() {
        "no such run folder"
    } else if !folder.is_dir() {
        "a file, not a run folder"
    } else if inside.is_empty() {
        "not a run folder (it has no resolved.toml)"
    } else {
        let (n, shown) = (inside.len(), path.display());
        return Fault::new(format!(
            "{shown}: not a run folder, but it contains {n}: name them, for example {shown}/*"
        ));
    };
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut names: Vec<PathBuf> = runs_in(parent)
        .into_iter()
        .map(|n| parent.join(n))
        .collect();
    names.extend(
        runs_in(Path::new(DEFAULT_FOLDER))
            .into_iter()
            .map(|n| Path::new(DEFAULT_FOLDER).join(n)),
    );
    let last = |p: &Path| {
        p.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let wanted = last(path);
    let runs = names.len();
    for folder in [parent, Path::new(DEFAULT_FOLDER), Path::new(SWEEPS)] {
        names.extend(sweeps_in(folder).into_iter().map(|n| folder.join(n)));
    }
    let known: Vec<String> = names.iter().map(|n| last(n)).collect();
    let near = nearest(&wanted, known.iter().map(String::as_str));
    let remedy = match near.and_then(|near| names.iter().find(|n| last(n) == near)) {
        Some(near) => format!(
            "; did you mean {}?",
            near.strip_prefix(".").unwrap_or(near).display()
        ),
        None => match names[..runs].first() {
            Some(one) => format!(
                "; there are runs, for example {}",
                one.strip_prefix(".").unwrap_or(one).display()
            ),
            None => "; `formwork train` creates one".into(),
        },
    };
    Fault::new(format!("{}: {what}{remedy}", path.display()))
}

/// Returns the sorted names of the run folders inside a folder; empty if it cannot be read.
fn runs_in(folder: &Path) -> Vec<String> {
    folders_in(folder, |path| path.join("resolved.toml").is_file())
}

/// Returns the sorted names of the sweep folders inside a folder; empty if it cannot be read.
fn sweeps_in(folder: &Path) -> Vec<String> {
    folders_in(folder, SweepFolder::is_sweep)
}

fn folders_in(folder: &Path, wanted: impl Fn(&Path) -> bool) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|e| wanted(&e.path()))
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
