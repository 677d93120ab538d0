//! Manifests: what a public data set is, where its files are, and their checksums.
//!
//! A manifest is a file `datasets/NAME.toml`, built into the binary. A file of the same name in the working
//! folder's `datasets/` replaces it, and other files there are added. No data is shipped.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::data::files::packed;
use crate::data::files::packed::existing_variant;
use crate::digest::hex;
use crate::error::{Error, Result, suggestion};

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../datasets/", $name, ".toml")))),*]
    };
}

const BUILT_IN: &[(&str, &str)] = built_in![
    "ag_news",
    "cifar10",
    "enwik8_4m",
    "fashion_mnist",
    "listops",
    "mrpc",
    "multi30k",
    "scitldr",
    "squad_part",
    "sst2",
    "stsb",
    "tinyshakespeare",
    "tokenizers",
    "ud_ewt",
    "wikitext2",
    "wnut17",
];

/// The manifest of a data set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name on the command line and of the folder that holds the data set.
    pub name: String,
    /// Usual name of the data set.
    pub title: String,
    /// Format of the files.
    pub format: String,
    /// Size of the data set, in rows.
    pub rows: String,
    /// Licence as stated at the source.
    pub licence: String,
    /// Tasks the data set is used for.
    pub r#use: String,
    /// Publication to cite.
    #[serde(default)]
    pub citation: String,
    /// Known pitfalls.
    #[serde(default)]
    pub note: String,
    /// Sections for an experiment file.
    #[serde(default)]
    pub example: String,
    /// Files of the data set.
    pub files: Vec<FileEntry>,
}

/// A file of a data set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Path relative to the data set's folder.
    pub path: PathBuf,
    /// Original URL; absent if the file was made from other files.
    pub url: Option<String>,
    /// How the file was made, if it has no URL.
    pub made: Option<String>,
    /// Number of bytes at the beginning of the URL's content that make up the file; absent for all.
    pub first_bytes: Option<u64>,
    /// Size of the file in bytes.
    pub bytes: Option<u64>,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: Option<String>,
    /// Size after unpacking, for gzip files whose containers may differ while their content is the same.
    pub unpacked_bytes: Option<u64>,
    /// SHA-256 after unpacking, in hexadecimal.
    pub unpacked_sha256: Option<String>,
}

impl FileEntry {
    /// Returns the bytes to store if `path` holds this file: as they are, or unpacked if `path` is a gzipped
    /// copy of a file that is plain at its URL.
    ///
    /// # Errors
    /// If the checksum is wrong; the message has the one found and the one wanted.
    pub fn verified_bytes(&self, path: &Path) -> Result<Vec<u8>> {
        let raw = std::fs::read(path).map_err(Error::io("read", path))?;
        let sum = |bytes: &[u8]| hex(&Sha256::digest(bytes));
        let packed = raw.starts_with(&[0x1F, 0x8B]);
        let found = sum(&raw);
        if self.sha256.as_ref() == Some(&found) {
            return Ok(raw);
        }
        if packed {
            let content = packed::content(path)?;
            let unpacked = sum(&content);
            if self.unpacked_sha256.as_ref() == Some(&unpacked) {
                return Ok(raw);
            }
            if self.sha256.as_ref() == Some(&unpacked) {
                return Ok(content);
            }
        }
        let wanted = self.sha256.as_ref().or(self.unpacked_sha256.as_ref());
        Err(Error::run(format!(
            "{} is not the file that the manifest names: its SHA-256 is {found}, expected {}{}",
            path.display(),
            wanted.map_or("(none)", String::as_str),
            if self.sha256.is_none() {
                " after unpacking"
            } else {
                ""
            }
        )))
    }

    /// Returns the file's size, or 0 if the manifest does not know it.
    pub fn size(&self) -> u64 {
        self.bytes.or(self.unpacked_bytes).unwrap_or(0)
    }
}

impl Manifest {
    /// Reads a manifest; `place` is for messages.
    ///
    /// # Errors
    /// If the text is not TOML of this form, or a file leaves the data set's folder or lacks a checksum or an
    /// origin.
    pub fn parse(text: &str, place: &Path) -> Result<Self> {
        let manifest: Self = toml::from_str(text).map_err(|e| {
            Error::run(format!("{}: {}", place.display(), e.to_string().trim_end()))
        })?;
        for file in &manifest.files {
            let inside = file
                .path
                .components()
                .all(|c| matches!(c, std::path::Component::Normal(_)));
            let summed = file.sha256.is_some() != file.unpacked_sha256.is_some();
            let origin = file.url.is_some() != file.made.is_some();
            if !inside || !summed || !origin {
                return Err(Error::run(format!(
                    "{}: the file `{}` needs a path inside the data set's folder, exactly one of sha256 and unpacked_sha256, \
                     and exactly one of url and made",
                    place.display(),
                    file.path.display()
                )));
            }
        }
        Ok(manifest)
    }

    /// Returns the manifests of all data sets, sorted by name.
    ///
    /// # Errors
    /// If a manifest in `datasets/` cannot be read.
    pub fn all() -> Result<Vec<Self>> {
        Self::all_in(Path::new("datasets"))
    }

    fn all_in(folder: &Path) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for (name, text) in BUILT_IN {
            found.push(Self::parse(text, Path::new(name))?);
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for path in entries
            .map(|e| e.path())
            .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        {
            let text = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
            let manifest = Self::parse(&text, &path)?;
            found.retain(|m| m.name != manifest.name);
            found.push(manifest);
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Returns the manifest of this name.
    ///
    /// # Errors
    /// If there is none; the message suggests the nearest name.
    pub fn find(name: &str) -> Result<Self> {
        let all = Self::all()?;
        if let Some(found) = all.iter().find(|m| m.name == name) {
            return Ok(found.clone());
        }
        let hint = suggestion(name, all.iter().map(|m| m.name.as_str()));
        Err(Error::usage(format!("there is no data set `{name}`{hint}")))
    }

    /// Returns the path of a file under one of the folders, plain or gzipped, if it exists.
    pub fn locate(&self, file: &FileEntry, roots: &[PathBuf]) -> Option<PathBuf> {
        let folders = roots.iter().map(|root| root.join(&self.name));
        folders
            .into_iter()
            .find_map(|folder| existing_variant(&folder.join(&file.path)))
    }
}

/// Returns the names of the built-in manifests.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    BUILT_IN.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manifest_reads_and_is_named_after_its_file() {
        let all = Manifest::all_in(Path::new("no such folder")).unwrap();
        assert_eq!(
            all.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(),
            names().collect::<Vec<_>>()
        );
        for manifest in &all {
            assert!(
                !manifest.licence.is_empty() && !manifest.files.is_empty(),
                "{}",
                manifest.name
            );
            for file in &manifest.files {
                assert!(file.size() > 0);
                assert!(file.url.as_ref().is_none_or(|u| u.starts_with("https://")));
            }
        }
    }

    #[test]
    fn paths_stay_inside_the_folder() {
        let own = BUILT_IN.iter().find(|(name, _)| *name == "tinyshakespeare");
        let text = own.unwrap().1.replace("\"input.txt\"", "\"../input.txt\"");
        assert!(text.contains("../") && Manifest::parse(&text, Path::new("x.toml")).is_err());
    }
}
