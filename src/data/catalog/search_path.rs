//! Where data sets lie: a path is used as given, else relative to the experiment file, else in the
//! folders of `FORMWORK_DATA` (separated like `PATH`), in `datasets/data` (what `data pull`
//! fetches) and in `datasets`. A file may lie there plain or with `.gz`, and a path may lead on into an archive.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::manifest;
use crate::data::files::archive;
use crate::error::{Error, Result};

/// Folders to look in, and the folder for caches.
#[derive(Clone, Debug)]
pub struct Places {
    experiment: Option<PathBuf>,
    roots: Vec<PathBuf>,
    cache: PathBuf,
}

/// The folder of data sets that `data pull` fetches.
pub const PULLED: &str = "datasets/data";

impl Places {
    /// The places of an experiment file in this folder, as the environment says.
    pub fn new(experiment: Option<&Path>) -> Self {
        let mut roots: Vec<PathBuf> = std::env::var_os("FORMWORK_DATA")
            .map(|folders| std::env::split_paths(&folders).collect())
            .unwrap_or_default();
        roots.retain(|root| !root.as_os_str().is_empty());
        roots.extend([PULLED.into(), "datasets".into()]);
        let cache = std::env::var_os("FORMWORK_CACHE").filter(|c| !c.is_empty());
        let cache = cache.map_or_else(|| "datasets/.cache".into(), PathBuf::from);
        Self::at(experiment, roots, cache)
    }

    /// These places exactly.
    pub fn at(experiment: Option<&Path>, roots: Vec<PathBuf>, cache: PathBuf) -> Self {
        Self {
            experiment: experiment.map(Path::to_path_buf),
            roots,
            cache,
        }
    }

    /// The folder for token caches.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// The folders that data sets are looked for in, first to last.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// `path` as another process may use it that starts elsewhere: absolute when it was found as given or
    /// beside the experiment, unchanged when a root holds it or when the folder above it has a name that no
    /// TOML file can hold.
    pub fn anchored(&self, path: &Path) -> PathBuf {
        let beside = self.experiment.iter().map(|folder| folder.join(path));
        std::iter::once(path.to_path_buf())
            .chain(beside)
            .find_map(|candidate| either(&candidate))
            .and_then(|found| canonical(&found))
            .filter(|found| found.to_str().is_some())
            .unwrap_or_else(|| path.to_path_buf())
    }

    /// The file or folder that `path` of an experiment means.
    ///
    /// # Errors
    /// It is in none of the places; the message lists them and names the command that fetches a
    /// known data set.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf> {
        let candidates = || {
            let bases = self.experiment.iter().chain(&self.roots);
            std::iter::once(path.to_path_buf()).chain(bases.map(move |base| base.join(path)))
        };
        if let Some(found) = candidates().find_map(|candidate| either(&candidate)) {
            return Ok(found);
        }
        let mut message = format!("[data] no file or folder `{}`; looked in", path.display());
        let last = self.roots.last();
        for base in self.experiment.iter().chain(&self.roots) {
            let name = if base.as_os_str().is_empty() {
                Path::new(".")
            } else {
                base
            };
            let comma = if Some(base) == last { "" } else { "," };
            message.push_str(&format!(" {}{comma}", name.display()));
        }
        let first = path
            .iter()
            .next()
            .and_then(|p| p.to_str())
            .unwrap_or_default();
        if manifest::names().any(|name| name == first) {
            message.push_str(&format!("; fetch it with: formwork data pull {first}"));
        } else if let Some(near) = crate::error::nearest(first, manifest::names()) {
            message.push_str(&format!("; did you mean the data set `{near}`?"));
        }
        Err(Error::usage(message))
    }
}

/// The whole path from the root; that of an archive for what lies inside it.
fn canonical(path: &Path) -> Option<PathBuf> {
    match archive::split(path) {
        Some((archive, inside)) if !inside.as_os_str().is_empty() => {
            Some(archive.canonicalize().ok()?.join(inside))
        }
        _ => path.canonicalize().ok(),
    }
}

/// The path, or the same with `.gz` added or taken away; or a path that leads into an archive which is there.
pub fn either(path: &Path) -> Option<PathBuf> {
    if path.exists() || archive::split(path).is_some() {
        return Some(path.to_path_buf());
    }
    let mut zipped: OsString = path.as_os_str().to_owned();
    zipped.push(".gz");
    let zipped = PathBuf::from(zipped);
    if zipped.is_file() {
        return Some(zipped);
    }
    let plain = path.with_extension("");
    (path.extension().is_some_and(|e| e == "gz") && plain.is_file()).then_some(plain)
}
