//! Moves of a checkpoint's folder: into place, under the links, and away once enough newer ones exist.

use super::{BEST, LATEST, STATE, State, folder_name, steps};
use crate::error::{Error, Result};
use crate::files;
use crate::train::manifest;
use crate::train::run_dir::checkpoints_folder;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Renames the finished folder into place. An existing folder is first moved aside as `NNNNNNNN.old`, from where
/// [`clean`](super::clean) restores it if the process dies between the two renames.
pub(super) fn install(partial: &Path, place: &Path) -> Result<()> {
    let aside = place.with_extension("old");
    files::delete_folder(&aside)?;
    if place.exists() {
        std::fs::rename(place, &aside).map_err(Error::io("rename", place))?;
    }
    std::fs::rename(partial, place).map_err(Error::io("rename", partial))?;
    files::delete_folder(&aside)
}

/// Points a link of the run folder at a step's checkpoint, or removes it, atomically.
pub(super) fn set_link(root: &Path, link: &str, step: Option<u64>) -> Result<()> {
    let path = root.join(link);
    let Some(step) = step else {
        return files::delete(&path);
    };
    let fresh = temporary_link(root, link);
    create_link(&fresh, step)
        .and_then(|()| std::fs::rename(&fresh, &path))
        .map_err(|error| {
            // The error that is returned matters more.
            let _ = std::fs::remove_file(&fresh);
            Error::io("write", &path)(error)
        })?;
    files::sync_folder(root)
}

/// Returns the links that do not lead where the newest checkpoint says, each with the step that it should lead to: a
/// process that died between saving and moving the links left them at earlier steps.
pub fn stale_links(root: &Path, newest: &State) -> Vec<(&'static str, u64)> {
    let is_there = |step: &u64| checkpoints_folder(root).join(folder_name(*step)).is_dir();
    let best = newest.best.map(|best| best.step).filter(is_there);
    let wanted = [(LATEST, Some(newest.step)), (BEST, best)];
    let wanted = wanted
        .into_iter()
        .filter_map(|(link, step)| Some((link, step?)));
    let leads = |link: &str| root.join(link).read_link().ok();
    wanted
        .filter(|(link, step)| {
            leads(link).is_some_and(|to| to.file_name() != Some(folder_name(*step).as_ref()))
        })
        .collect()
}

/// Moves those links to where they should lead.
///
/// # Errors
/// If the disk cannot be written.
pub fn fix_links(root: &Path, newest: &State) -> Result<()> {
    let mut stale = stale_links(root, newest).into_iter();
    stale.try_for_each(|(entry, step)| set_link(root, entry, Some(step)))
}

/// Temporary name of a link before it is renamed into place.
fn temporary_link(root: &Path, link: &str) -> PathBuf {
    root.join(format!("{link}.tmp"))
}

/// Makes a link to a step's checkpoint under its temporary name.
fn create_link(fresh: &Path, step: u64) -> std::io::Result<()> {
    // A leftover of a process that died; if it cannot be removed, creating the link reports why.
    let _ = std::fs::remove_file(fresh);
    symlink(&Path::new("steps").join(folder_name(step)), fresh)
}

/// Replaces folders by the links of a run: a copy that follows links has created such folders, each with the files of
/// one checkpoint. If it is killed on the way, the next call restores the folder or finishes its deletion.
///
/// # Errors
/// If a folder's files are not those of one of the run's complete checkpoints, since it may hold weights that exist
/// nowhere else. If the disk does not support symbolic links; the folder is then where it was.
pub fn restore_links(root: &Path) -> Result<()> {
    for entry in [LATEST, BEST] {
        finish_replacement(root, entry)?;
        let path = root.join(entry);
        if is_folder(&path) {
            let step = copied_step(root, &path).ok_or_else(|| undeletable_copy(root, &path))?;
            replace(root, entry, step)?;
        }
    }
    Ok(())
}

/// Path of a folder while a link takes its place. No leftover of a file or a link has such a name.
fn backup_path(root: &Path, link: &str) -> PathBuf {
    root.join(format!("{link}.replaced"))
}

/// Finishes what a killed [`replace`] began: the folder is restored if there is no link yet, and deleted if there is.
fn finish_replacement(root: &Path, link: &str) -> Result<()> {
    let (path, aside) = (root.join(link), backup_path(root, link));
    if !is_folder(&aside) {
        return Ok(());
    }
    match path.symlink_metadata() {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            std::fs::rename(&aside, &path).map_err(Error::io("rename", &aside))
        }
        Err(e) => Err(Error::io("read", &path)(e)),
        // The folder was compared before it was moved aside; a part of it may already be deleted.
        Ok(found) if found.is_symlink() => files::delete_folder(&aside),
        // A copy that followed the link has turned it into a folder.
        Ok(_) if copied_step(root, &aside).is_some() => files::delete_folder(&aside),
        Ok(_) => Err(undeletable_copy(root, &aside)),
    }
}

/// Replaces a folder by a link to the step's checkpoint that it equals, and deletes the folder last.
fn replace(root: &Path, link: &str, step: u64) -> Result<()> {
    let (path, fresh, aside) = (
        root.join(link),
        temporary_link(root, link),
        backup_path(root, link),
    );
    let put = || {
        std::fs::rename(&fresh, &path).inspect_err(|_| {
            // If it cannot be moved back, the message names where it is.
            let _ = std::fs::rename(&aside, &path);
        })
    };
    create_link(&fresh, step)
        .and_then(|()| std::fs::rename(&path, &aside))
        .and_then(|()| put())
        .map_err(|error| {
            // The error that is returned matters more.
            let _ = std::fs::remove_file(&fresh);
            let lies = if is_folder(&path) { &path } else { &aside };
            Error::run(format!(
                "cannot put a link to steps/{} where the folder {} is: {error}; the folder is kept at {}; copy the run to \
                 a disk that supports symbolic links",
                folder_name(step),
                path.display(),
                lies.display()
            ))
        })?;
    files::sync_folder(root)?;
    files::delete_folder(&aside)
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// Builds the error about a folder in place of a link that cannot be deleted.
fn undeletable_copy(root: &Path, folder: &Path) -> Error {
    Error::run(format!(
        "{} is a folder, but a run has a link to one of its checkpoints there; its files differ from those of every \
         complete checkpoint in {}; move it out of the run, or copy the run again and keep its links (cp -a, tar)",
        folder.display(),
        checkpoints_folder(root).display()
    ))
}

/// Returns the newest step whose checkpoint is complete and has the files of this folder: the manifests are equal, and
/// the folder has exactly the files that the manifest names, with their content.
fn copied_step(root: &Path, folder: &Path) -> Option<u64> {
    let sealed = std::fs::read(folder.join(manifest::NAME)).ok()?;
    let held = manifest::verify(folder).ok()?;
    let named = held.files.keys().map(String::as_str);
    let named: BTreeSet<OsString> = named.chain([manifest::NAME]).map(OsString::from).collect();
    let found = std::fs::read_dir(folder).ok()?;
    let found = found.map(|entry| entry.map(|entry| entry.file_name()));
    let found: BTreeSet<OsString> = found.collect::<std::io::Result<_>>().ok()?;
    let equals = |step: &u64| {
        let place = checkpoints_folder(root).join(folder_name(*step));
        let same = std::fs::read(place.join(manifest::NAME)).is_ok_and(|own| own == sealed);
        same && manifest::verify(&place).is_ok()
    };
    if found != named {
        return None;
    }
    steps(root).into_iter().rev().find(equals)
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_dir(target, link)
}

/// Returns whether the checkpoint of a step exists only for resuming ([`State::interim`]); `false` if it cannot be read.
pub fn is_interim(root: &Path, step: u64) -> bool {
    let text = std::fs::read(checkpoints_folder(root).join(folder_name(step)).join(STATE));
    let state = text
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok());
    state.is_some_and(|state: State| state.interim)
}

/// Deletes all checkpoints except the one of this step, the best one, and the newest `keep_last` of those that were due.
pub(super) fn prune(root: &Path, step: u64, best: Option<u64>, keep_last: usize) -> Result<()> {
    let all = steps(root);
    let past = all.iter().copied().filter(|s| *s <= step);
    let due: Vec<u64> = past.filter(|s| !is_interim(root, *s)).collect();
    let kept = &due[due.len().saturating_sub(keep_last.max(1))..];
    let stays = |s: u64| s == step || Some(s) == best || kept.contains(&s);
    for old in all.iter().filter(|s| !stays(**s)) {
        // A half-deleted folder must not look like a damaged checkpoint.
        let place = checkpoints_folder(root).join(folder_name(*old));
        let doomed = place.with_extension("tmp");
        files::delete_folder(&doomed)?;
        std::fs::rename(&place, &doomed).map_err(Error::io("rename", &place))?;
        files::delete_folder(&doomed)?;
    }
    Ok(())
}
