//! `manifest.json` of a run folder: the size and SHA-256 of every file that describes the run.
//!
//! Such a file is replaced when a run is resumed with a changed key, and the manifest with it. Two files cannot be
//! replaced atomically, so the manifest first allows both contents, then the file is replaced, then the manifest keeps
//! only the new content: the folder can be opened no matter when the process is killed. The manifest of a new run is
//! written before `resolved.toml`, which makes the folder a run's. Runs of earlier versions have none until they are resumed.

use super::checkpoint::State;
use super::manifest::{Entry, write_json};
use super::run_dir::{MACHINE, RESOLVED, RunDir, SETUP_FILES};
use crate::digest;
use crate::error::{Error, Result, shell_word};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

/// File name of the manifest in a run folder.
pub const NAME: &str = "manifest.json";

/// Format name of this program.
const FORMAT: &str = "formwork-run-1";

/// Number of attempts to read a manifest that another process may be replacing.
const TRIES: usize = 5;

/// The files of a run with their allowed contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunManifest {
    format: String,
    /// Version of the program that wrote it.
    version: String,
    /// Contents that each file may have: one, or two while it is being replaced.
    files: BTreeMap<String, Vec<Entry>>,
}

impl RunManifest {
    fn new(files: BTreeMap<String, Vec<Entry>>) -> Self {
        Self {
            format: FORMAT.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            files,
        }
    }

    fn read(root: &Path) -> Result<Option<Self>> {
        let path = root.join(NAME);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("read", &path)(e)),
        };
        let damaged = |why: String| Error::run(format!("{} {why}", path.display()));
        let found: Self = serde_json::from_slice(&text)
            .map_err(|e| damaged(format!("is damaged: it cannot be read: {e}")))?;
        match found.format == FORMAT {
            true => Ok(Some(found)),
            false => Err(damaged(format!(
                "has the format `{}`, but this program reads `{FORMAT}`",
                found.format
            ))),
        }
    }

    fn write(&self, root: &Path) -> Result<()> {
        write_json(&root.join(NAME), self)
    }
}

/// Writes the files of a new run: `resolved.toml` last, and the manifest just before it.
///
/// # Errors
/// If the disk cannot be written.
pub fn write_new(run: &RunDir, files: &[(&str, Vec<u8>)]) -> Result<()> {
    let sealed = files
        .iter()
        .map(|(name, bytes)| Ok(((*name).to_string(), vec![entry_of(bytes)?])));
    let manifest = RunManifest::new(sealed.collect::<Result<_>>()?);
    let (last, first): (Vec<_>, Vec<_>) = files.iter().partition(|(name, _)| *name == RESOLVED);
    for (name, bytes) in first {
        run.write(name, bytes)?;
    }
    manifest.write(run.root())?;
    for (name, bytes) in last {
        run.write(name, bytes)?;
    }
    Ok(())
}

/// Replaces files of a run together with its manifest. A file that an interrupted process left between two contents is
/// settled, and a run without a manifest gets one. The files must have been verified before.
///
/// # Errors
/// If the disk cannot be written; the folder can still be opened.
pub fn replace(run: &RunDir, files: &[(&str, Vec<u8>)]) -> Result<()> {
    let root = run.root();
    let now = current_entries(root)?;
    let mut after = now.clone();
    let mut either = now.clone();
    for (name, bytes) in files {
        let fresh = entry_of(bytes)?;
        let allowed = either.entry((*name).to_string()).or_default();
        if !allowed.contains(&fresh) {
            allowed.push(fresh.clone());
        }
        after.insert((*name).to_string(), vec![fresh]);
    }
    let (either, after) = (RunManifest::new(either), RunManifest::new(after));
    if either != after {
        either.write(root)?;
        for (name, bytes) in files {
            run.write(name, bytes)?;
        }
    }
    match RunManifest::read(root)? == Some(after.clone()) {
        true => Ok(()),
        false => after.write(root),
    }
}

/// Writes the manifest of a run's files as they are, for anyone who edits a run's folder by hand.
///
/// # Errors
/// If files cannot be read or the disk cannot be written.
pub fn seal(root: &Path) -> Result<()> {
    RunManifest::new(current_entries(root)?).write(root)
}

/// Checks every file that describes a run against the run's manifest. A run of an earlier version has no manifest, so
/// nothing is checked. `machine.json` may be missing.
///
/// # Errors
/// If a file is missing, unknown, or of another length or content; the message names it and what is wrong.
pub fn verify(root: &Path) -> Result<()> {
    let mut before = None;
    for _ in 0..TRIES {
        let manifest = RunManifest::read(root)?;
        match check(root, manifest.as_ref()) {
            // Another process may have replaced a file and the manifest between the two readings.
            Err(_) if RunManifest::read(root)? != manifest => before = manifest,
            checked => return checked,
        }
    }
    check(root, before.as_ref())
}

/// Returns whether a file of a run differs from its manifest; `false` if there is no manifest.
pub fn is_changed(root: &Path, name: &str) -> bool {
    let Ok(Some(manifest)) = RunManifest::read(root) else {
        return false;
    };
    let found = File::open(root.join(name)).and_then(digest::sha256).ok();
    let found = found.map(|(sum, size)| Entry {
        size,
        sha256: digest::hex(&sum),
    });
    let both = manifest.files.get(name).zip(found);
    both.is_some_and(|(allowed, found)| !allowed.contains(&found))
}

/// Fails if the manifest is missing although the checkpoint was written by a version that seals its runs.
///
/// # Errors
/// If the manifest is missing; the message names it.
pub fn require_sealed(root: &Path, state: &State) -> Result<()> {
    let path = root.join(NAME);
    match state.settings.is_empty() || path.exists() {
        true => Ok(()),
        false => Err(Error::run(format!(
            "{} is missing, so the files of the run cannot be verified; restore it from a copy of the run",
            path.display()
        ))),
    }
}

fn check(root: &Path, manifest: Option<&RunManifest>) -> Result<()> {
    let Some(manifest) = manifest else {
        return Ok(());
    };
    let present = current_entries(root)?;
    let wrong = |name: &str, what: String| {
        Error::run(format!(
            "{} {what}; restore the original file (to change keys: formwork resume {} --set KEY=VALUE)",
            root.join(name).display(),
            shell_word(root)
        ))
    };
    for (name, allowed) in &manifest.files {
        let Some(found) = present.get(name) else {
            // It says where times were measured, and does not affect any result.
            if name == MACHINE {
                continue;
            }
            return Err(wrong(name, format!("is missing, but {NAME} lists it")));
        };
        if !found.iter().all(|entry| allowed.contains(entry)) {
            let [found, allowed] = [found, allowed].map(|list| {
                let sums = list.iter().map(|entry| entry.sha256.as_str());
                sums.collect::<Vec<_>>().join(" or ")
            });
            let what = format!("was changed: its sha256 is {found}, but {NAME} says {allowed}");
            return Err(wrong(name, what));
        }
    }
    match present
        .keys()
        .find(|name| !manifest.files.contains_key(*name))
    {
        Some(name) => Err(wrong(
            name,
            format!("is not part of the run: {NAME} does not list it"),
        )),
        None => Ok(()),
    }
}

/// Lists the files that describe a run, with their present contents.
fn current_entries(root: &Path) -> Result<BTreeMap<String, Vec<Entry>>> {
    let mut found = BTreeMap::new();
    for name in SETUP_FILES.into_iter().filter(|name| *name != NAME) {
        let path = root.join(name);
        match File::open(&path) {
            Ok(file) => {
                let (sum, size) = digest::sha256(file).map_err(Error::io("read", &path))?;
                let sha256 = digest::hex(&sum);
                found.insert(name.to_string(), vec![Entry { size, sha256 }]);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("read", &path)(e)),
        }
    }
    Ok(found)
}

fn entry_of(bytes: &[u8]) -> Result<Entry> {
    let (sum, size) =
        digest::sha256(bytes).map_err(|e| Error::run(format!("cannot compute a checksum: {e}")))?;
    Ok(Entry {
        size,
        sha256: digest::hex(&sum),
    })
}
