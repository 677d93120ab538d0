//! The moves of a checkpoint's folder: into its place, under the links, and away when newer ones are enough.

use super::{STATE, State, name, steps};
use crate::error::{Error, Result};
use crate::files;
use crate::train::run_dir::steps_of;
use std::path::Path;

/// Renames the finished folder into place. What is there goes aside first, as `NNNNNNNN.old`, from where
/// [`clean`] brings it back if the process dies between the two.
pub(super) fn put(partial: &Path, place: &Path) -> Result<()> {
    let aside = place.with_extension("old");
    files::delete_folder(&aside)?;
    if place.exists() {
        std::fs::rename(place, &aside).map_err(Error::io("rename", place))?;
    }
    std::fs::rename(partial, place).map_err(Error::io("rename", partial))?;
    files::delete_folder(&aside)
}

/// Points a link of the run folder at a step's checkpoint, or removes it, in one move.
pub(super) fn link(root: &Path, link: &str, step: Option<u64>) -> Result<()> {
    let path = root.join(link);
    let Some(step) = step else {
        return files::delete(&path);
    };
    let fresh = root.join(format!("{link}.tmp"));
    // A leftover of a process that died; if it cannot go, making the link says why.
    let _ = std::fs::remove_file(&fresh);
    symlink(&Path::new("steps").join(name(step)), &fresh)
        .and_then(|()| std::fs::rename(&fresh, &path))
        .map_err(Error::io("write", &path))?;
    files::sync_folder(root)
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_dir(target, link)
}

/// Whether the checkpoint of a step is there for a resumed run alone ([`State::interim`]); one that cannot be read is not.
pub fn is_interim(root: &Path, step: u64) -> bool {
    let text = std::fs::read(steps_of(root).join(name(step)).join(STATE));
    let state = text
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok());
    state.is_some_and(|state: State| state.interim)
}

/// Deletes all but that of this step, the best, and the newest `keep_last` of those that were due.
pub(super) fn prune(root: &Path, step: u64, best: Option<u64>, keep_last: usize) -> Result<()> {
    let all = steps(root);
    let past = all.iter().copied().filter(|s| *s <= step);
    let due: Vec<u64> = past.filter(|s| !is_interim(root, *s)).collect();
    let kept = &due[due.len().saturating_sub(keep_last.max(1))..];
    let stays = |s: u64| s == step || Some(s) == best || kept.contains(&s);
    for old in all.iter().filter(|s| !stays(**s)) {
        // Half deleted, it must not look like a damaged checkpoint.
        let place = steps_of(root).join(name(*old));
        let doomed = place.with_extension("tmp");
        files::delete_folder(&doomed)?;
        std::fs::rename(&place, &doomed).map_err(Error::io("rename", &place))?;
        files::delete_folder(&doomed)?;
    }
    Ok(())
}
