//! Where data sets are looked up.
//!
//! A path is used as given; otherwise relative to the experiment file (for a run: relative to the run's
//! folder, and only then as given), then to the files that it extends, then in the folders of `FORMWORK_DATA`
//! (separated as in `PATH`), in `datasets/data` (where `data pull` puts files) and in `datasets`. A file may
//! be plain or end in `.gz` or `.zst`, and a path may continue inside an archive. For a pattern, the first
//! location with a match supplies all files.

use std::path::{Path, PathBuf};

use super::manifest;
use crate::data::files::{archive, discovery};
use crate::error::{Error, Result};
use crate::files::user_caches;

/// The folders to search, and the folder for caches.
#[derive(Clone, Debug)]
pub struct SearchPath {
    /// Folder of the experiment, followed by those of the files that it extends.
    experiment: Vec<PathBuf>,
    roots: Vec<PathBuf>,
    cache: PathBuf,
    /// Whether the experiment's folder comes before the working folder.
    of_run: bool,
}

/// The folder into which `data pull` fetches data sets.
pub const DOWNLOAD_FOLDER: &str = "datasets/data";

impl SearchPath {
    /// Returns the places for an experiment file in this folder, as the environment variables set them.
    pub fn new(experiment: Option<&Path>) -> Self {
        let mut roots: Vec<PathBuf> = std::env::var_os("FORMWORK_DATA")
            .map(|folders| std::env::split_paths(&folders).collect())
            .unwrap_or_default();
        roots.retain(|root| !root.as_os_str().is_empty());
        roots.extend([DOWNLOAD_FOLDER.into(), "datasets".into()]);
        let cache = std::env::var_os("FORMWORK_CACHE").filter(|c| !c.is_empty());
        let cache = cache.map_or_else(default_cache, PathBuf::from);
        Self::with_folders(experiment, roots, cache)
    }

    /// Returns exactly these places.
    pub fn with_folders(experiment: Option<&Path>, roots: Vec<PathBuf>, cache: PathBuf) -> Self {
        Self {
            experiment: experiment.map(Path::to_path_buf).into_iter().collect(),
            roots,
            cache,
            of_run: false,
        }
    }

    /// Returns the same places with the folders of the files that the experiment extends, after its own.
    #[must_use]
    pub fn with_extended_folders(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        for folder in folders {
            if !self.experiment.contains(&folder) {
                self.experiment.push(folder);
            }
        }
        self
    }

    /// Returns the places for a run in this folder. Relative paths start at the run's folder, so that they
    /// mean the same from any working folder.
    pub fn of_run(root: &Path) -> Self {
        Self {
            of_run: true,
            ..Self::new(Some(root))
        }
    }

    /// Returns the folder for token caches.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// Returns the folders in which data sets are looked up, in order.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns `path` as a process in another working folder can use it: absolute if it was found as given or
    /// beside the experiment; unchanged if a root holds it or if its absolute path cannot be written in a
    /// TOML file.
    pub fn anchored(&self, path: &Path) -> PathBuf {
        self.find_near(path).unwrap_or_else(|| path.to_path_buf())
    }

    /// Returns [`SearchPath::anchored`] as a run in the folder `root` records it: a relative path stays relative,
    /// starting at the run's folder. A run that is moved together with its data still finds the data.
    pub fn portable(&self, path: &Path, root: &Path) -> PathBuf {
        let Some(found) = self.find_near(path) else {
            return path.to_path_buf();
        };
        let root = root.canonicalize().ok().filter(|_| path.is_relative());
        root.and_then(|root| relative_path(&root, &found))
            .unwrap_or(found)
    }

    /// Returns the absolute path of a file that is found as given or beside the experiment.
    fn find_near(&self, path: &Path) -> Option<PathBuf> {
        let mut near = self.candidates(path);
        near.find_map(|candidate| discovery::find(&candidate))
            .and_then(|found| canonical(&found))
            .filter(|found| found.to_str().is_some())
    }

    /// Returns the path as given and beside the experiment, in the order of lookup.
    fn candidates<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
        let given = || Some(path.to_path_buf());
        let first = given().filter(|_| !self.of_run);
        let last = given().filter(|_| self.of_run);
        let beside = self.experiment.iter().map(move |folder| folder.join(path));
        first.into_iter().chain(beside).chain(last)
    }

    /// Returns the folder for caches, creating it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created; the message names the variable that sets another one.
    pub fn create_cache(&self) -> Result<&Path> {
        let cache = self.cache();
        std::fs::create_dir_all(cache).map_err(|e| {
            Error::run(format!(
                "cannot create the folder of caches {}: {e}; set FORMWORK_CACHE to another folder for caches",
                cache.display()
            ))
        })?;
        Ok(cache)
    }

    /// Returns the file or folder that `path` of an experiment means.
    ///
    /// # Errors
    /// If it is in none of the places; the message lists them and names the command that fetches a known data
    /// set.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf> {
        let far = self.roots.iter().map(|root| root.join(path));
        if let Some(found) = self
            .candidates(path)
            .chain(far)
            .find_map(|c| discovery::find(&c))
        {
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
        } else if let Some(near) = self.similar_path(path) {
            message.push_str(&format!("; did you mean `{}`?", near.display()));
        } else if let Some(near) = crate::error::nearest(first, manifest::names()) {
            message.push_str(&format!("; did you mean the data set `{near}`?"));
        }
        Err(Error::usage(message))
    }

    /// Returns the path with its name replaced by that of an existing file or folder with a similar name.
    fn similar_path(&self, path: &Path) -> Option<PathBuf> {
        let name = stem(path)?;
        if discovery::is_pattern(path) {
            return None;
        }
        let far = self.roots.iter().map(|root| root.join(path));
        self.candidates(path).chain(far).find_map(|candidate| {
            let folder = candidate.parent()?;
            let folder = match folder.as_os_str().is_empty() {
                true => Path::new("."),
                false => folder,
            };
            let entries = std::fs::read_dir(folder).ok()?.flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            let mut names: Vec<PathBuf> = names
                .filter(|name| !name.starts_with('.'))
                .map(PathBuf::from)
                .collect();
            // Names with the same extension come first.
            names.sort_by_key(|name| (name.extension() != path.extension(), name.clone()));
            let stems = names.iter().filter_map(|name| stem(name));
            let near = crate::error::nearest(name, stems)?;
            let near = names.iter().find(|name| stem(name) == Some(near))?;
            Some(path.with_file_name(near))
        })
    }
}

/// Returns a name without its extension, since equal extensions do not make names similar.
fn stem(path: &Path) -> Option<&str> {
    path.file_stem()?.to_str()
}

/// Returns the folder for caches if the environment sets none: below the working folder's `datasets` if that
/// exists, otherwise the user's.
fn default_cache() -> PathBuf {
    match Path::new("datasets").is_dir() {
        true => "datasets/.cache".into(),
        false => user_caches().join("formwork").join("data"),
    }
}

/// Returns the relative path from a folder to a file, both absolute; `None` between different disks.
fn relative_path(folder: &Path, file: &Path) -> Option<PathBuf> {
    let shared = folder.components().zip(file.components());
    let shared = shared.take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| Path::new(".."));
    let down = file.components().skip(shared);
    let path: PathBuf = up
        .chain(down.map(|part| Path::new(part.as_os_str())))
        .collect();
    path.is_relative().then_some(path)
}

/// Returns the absolute path; for a path inside an archive, that of the archive joined with the rest; for a
/// pattern, that of its folder.
fn canonical(path: &Path) -> Option<PathBuf> {
    match archive::split(path) {
        Some((archive, inside)) if !inside.as_os_str().is_empty() => {
            Some(archive.canonicalize().ok()?.join(inside))
        }
        _ => path.canonicalize().ok().or_else(|| {
            let (folder, pattern) = discovery::split_pattern(path);
            let folder = match folder.as_os_str().is_empty() {
                true => Path::new("."),
                false => &folder,
            };
            Some(folder.canonicalize().ok()?.join(pattern))
        }),
    }
}
