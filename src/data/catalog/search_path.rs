//! Where data sets lie: a path is used as given, else relative to the experiment file (of a run: relative to its folder,
//! and only then as given), then to the files that it extends, else in the folders of `FORMWORK_DATA` (separated like
//! `PATH`), in `datasets/data` (what `data pull` fetches) and in `datasets`. A file may lie there plain, with `.gz` or with
//! `.zst`, a path may lead on into an archive, and it may be a pattern of which the first place with a match has all files.

use std::path::{Path, PathBuf};

use super::manifest;
use crate::data::files::{archive, found};
use crate::error::{Error, Result};
use crate::files::user_caches;

/// Folders to look in, and the folder for caches.
#[derive(Clone, Debug)]
pub struct Places {
    /// The folder of the experiment, then those of the files that it extends.
    experiment: Vec<PathBuf>,
    roots: Vec<PathBuf>,
    cache: PathBuf,
    /// Whether the experiment's folder comes before the working folder.
    of_run: bool,
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
        let cache = cache.map_or_else(usual_cache, PathBuf::from);
        Self::at(experiment, roots, cache)
    }

    /// These places exactly.
    pub fn at(experiment: Option<&Path>, roots: Vec<PathBuf>, cache: PathBuf) -> Self {
        Self {
            experiment: experiment.map(Path::to_path_buf).into_iter().collect(),
            roots,
            cache,
            of_run: false,
        }
    }

    /// The same with the folders of files that the experiment extends, behind its own.
    #[must_use]
    pub fn and_beside(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        for folder in folders {
            if !self.experiment.contains(&folder) {
                self.experiment.push(folder);
            }
        }
        self
    }

    /// The places of a run in this folder, whose relative paths lead from the folder: another working folder must not
    /// give them another meaning.
    pub fn of_run(root: &Path) -> Self {
        Self {
            of_run: true,
            ..Self::new(Some(root))
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
        self.found_near(path).unwrap_or_else(|| path.to_path_buf())
    }

    /// [`Places::anchored`] as a run in the folder `root` writes it down: a path that was relative stays so, and leads
    /// from the run's folder. A run that moves together with its data finds it there.
    pub fn portable(&self, path: &Path, root: &Path) -> PathBuf {
        let Some(found) = self.found_near(path) else {
            return path.to_path_buf();
        };
        let root = root.canonicalize().ok().filter(|_| path.is_relative());
        root.and_then(|root| leading(&root, &found))
            .unwrap_or(found)
    }

    /// The whole path of what was found as given or beside the experiment.
    fn found_near(&self, path: &Path) -> Option<PathBuf> {
        let mut near = self.near(path);
        near.find_map(|candidate| found::at(&candidate))
            .and_then(|found| canonical(&found))
            .filter(|found| found.to_str().is_some())
    }

    /// The path as given and beside the experiment, the one that comes first first.
    fn near<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
        let given = || Some(path.to_path_buf());
        let first = given().filter(|_| !self.of_run);
        let last = given().filter(|_| self.of_run);
        let beside = self.experiment.iter().map(move |folder| folder.join(path));
        first.into_iter().chain(beside).chain(last)
    }

    /// The folder of caches, made where it is not there.
    ///
    /// # Errors
    /// It cannot be made; the message names the variable for another one.
    pub fn made_cache(&self) -> Result<&Path> {
        let cache = self.cache();
        std::fs::create_dir_all(cache).map_err(|e| {
            Error::run(format!(
                "cannot create the folder of caches {}: {e}; FORMWORK_CACHE names another one",
                cache.display()
            ))
        })?;
        Ok(cache)
    }

    /// The file or folder that `path` of an experiment means.
    ///
    /// # Errors
    /// It is in none of the places; the message lists them and names the command that fetches a
    /// known data set.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf> {
        let far = self.roots.iter().map(|root| root.join(path));
        if let Some(found) = self.near(path).chain(far).find_map(|c| found::at(&c)) {
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
        } else if let Some(near) = self.like(path) {
            message.push_str(&format!("; did you mean `{}`?", near.display()));
        } else if let Some(near) = crate::error::nearest(first, manifest::names()) {
            message.push_str(&format!("; did you mean the data set `{near}`?"));
        }
        Err(Error::usage(message))
    }

    /// The path with the name of something that lies in its folder and is called nearly so.
    fn like(&self, path: &Path) -> Option<PathBuf> {
        let name = stem(path)?;
        if found::is_pattern(path) {
            return None;
        }
        let far = self.roots.iter().map(|root| root.join(path));
        self.near(path).chain(far).find_map(|candidate| {
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
            // That with the same ending comes first.
            names.sort_by_key(|name| (name.extension() != path.extension(), name.clone()));
            let stems = names.iter().filter_map(|name| stem(name));
            let near = crate::error::nearest(name, stems)?;
            let near = names.iter().find(|name| stem(name) == Some(near))?;
            Some(path.with_file_name(near))
        })
    }
}

/// A name without its ending: equal endings make no two names alike.
fn stem(path: &Path) -> Option<&str> {
    path.file_stem()?.to_str()
}

/// The folder for caches where the environment names none: that of the working folder's `datasets`, where there is one, else
/// the user's.
fn usual_cache() -> PathBuf {
    match Path::new("datasets").is_dir() {
        true => "datasets/.cache".into(),
        false => user_caches().join("formwork").join("data"),
    }
}

/// The relative path that leads from a folder to a file, both given from the root; none from one disk to another.
fn leading(folder: &Path, file: &Path) -> Option<PathBuf> {
    let shared = folder.components().zip(file.components());
    let shared = shared.take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| Path::new(".."));
    let down = file.components().skip(shared);
    let path: PathBuf = up
        .chain(down.map(|part| Path::new(part.as_os_str())))
        .collect();
    path.is_relative().then_some(path)
}

/// The whole path from the root; that of an archive for what lies inside it, of its folder for a pattern.
fn canonical(path: &Path) -> Option<PathBuf> {
    match archive::split(path) {
        Some((archive, inside)) if !inside.as_os_str().is_empty() => {
            Some(archive.canonicalize().ok()?.join(inside))
        }
        _ => path.canonicalize().ok().or_else(|| {
            let (folder, pattern) = found::base(path);
            let folder = match folder.as_os_str().is_empty() {
                true => Path::new("."),
                false => &folder,
            };
            Some(folder.canonicalize().ok()?.join(pattern))
        }),
    }
}
