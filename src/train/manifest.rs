//! `manifest.json`: the size and SHA-256 of every file of a checkpoint, written last.
//!
//! A checkpoint folder is complete if its manifest exists and every file matches it. Nothing else of a checkpoint is
//! read before that is verified.

use crate::digest::{self, hex};
use crate::error::{Error, Result};
use crate::files;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// File name of the manifest in its folder.
pub const NAME: &str = "manifest.json";

/// Format name of this program; a manifest of another program is refused because of it.
const FORMAT: &str = "formwork-checkpoint-1";

/// The files of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: String,
    /// Version of the program that wrote it.
    pub version: String,
    /// Files by name.
    pub files: BTreeMap<String, Entry>,
}

/// Size and checksum of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Length in bytes.
    pub size: u64,
    /// SHA-256 of the whole content, in hexadecimal.
    pub sha256: String,
}

/// Flushes the named files of a folder to the disk and writes their manifest beside them.
///
/// # Errors
/// If a file cannot be read or the disk is full.
pub fn seal(folder: &Path, names: &[&str]) -> Result<Manifest> {
    let mut files = BTreeMap::new();
    for name in names {
        let path = folder.join(name);
        let file = File::open(&path).map_err(Error::io("read", &path))?;
        file.sync_all().map_err(Error::io("write", &path))?;
        files.insert((*name).to_string(), entry(&path, file)?);
    }
    let manifest = Manifest {
        format: FORMAT.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        files,
    };
    write_json(&folder.join(NAME), &manifest)?;
    Ok(manifest)
}

/// Checks every file of a folder against its manifest.
///
/// # Errors
/// If a file is missing or its length or content differs, or there is no manifest of this program; the message names
/// the file and what is wrong with it.
pub fn verify(folder: &Path) -> Result<Manifest> {
    let path = folder.join(NAME);
    let text = std::fs::read(&path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => damaged(
            folder,
            "it has no manifest.json: it is not a checkpoint, or it was not written completely",
        ),
        _ => Error::io("read", &path)(e),
    })?;
    let manifest: Manifest = serde_json::from_slice(&text)
        .map_err(|e| damaged(folder, &format!("manifest.json cannot be read: {e}")))?;
    if manifest.format != FORMAT {
        return Err(damaged(
            folder,
            &format!(
                "its format is `{}`, but this program reads `{FORMAT}`",
                manifest.format
            ),
        ));
    }
    for (name, expected) in &manifest.files {
        check(folder, name, expected)?;
    }
    Ok(manifest)
}

/// Builds the error about a checkpoint that cannot be used.
pub(crate) fn damaged(folder: &Path, what: &str) -> Error {
    Error::run(format!("checkpoint {}: {what}", folder.display()))
}

fn check(folder: &Path, name: &str, expected: &Entry) -> Result<()> {
    if Path::new(name).components().count() != 1 || name.starts_with('.') {
        return Err(damaged(
            folder,
            &format!("manifest.json names `{name}`, which is not a file in the folder"),
        ));
    }
    let path = folder.join(name);
    let file = File::open(&path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => damaged(folder, &format!("{name} is missing")),
        _ => Error::io("read", &path)(e),
    })?;
    let size = file.metadata().map_err(Error::io("read", &path))?.len();
    if size != expected.size {
        let how = if size < expected.size {
            "truncated"
        } else {
            "too long"
        };
        return Err(damaged(
            folder,
            &format!(
                "{name} is {how}: it has {size} bytes, but manifest.json says {}",
                expected.size
            ),
        ));
    }
    let found = entry(&path, file)?;
    if found.sha256 != expected.sha256 {
        return Err(damaged(
            folder,
            &format!(
                "{name} is damaged: its sha256 is {}, but manifest.json says {}",
                found.sha256, expected.sha256
            ),
        ));
    }
    Ok(())
}

fn entry(path: &Path, file: File) -> Result<Entry> {
    let (sum, size) = digest::sha256(file).map_err(Error::io("read", path))?;
    Ok(Entry {
        size,
        sha256: hex(&sum),
    })
}

/// Writes a value as indented JSON, atomically.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::run(format!("cannot write {}: {e}", path.display())))?;
    text.push(b'\n');
    files::write(path, &text)
}
