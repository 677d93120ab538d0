//! Manifests: what a public data set is, where its files lie, and their checksums.
//!
//! `datasets/NAME.toml`, built into the binary; a file of that name in the working folder's
//! `datasets/` wins, and others there are added. No data is shipped.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::data::files::packed;
use crate::data::files::packed::either;
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

/// A data set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The folder it lies in, and its name on the command line.
    pub name: String,
    /// Its usual name.
    pub title: String,
    /// How its files are written.
    pub format: String,
    /// How much there is of it.
    pub rows: String,
    /// As stated at the source.
    pub licence: String,
    /// The tasks it is used for.
    pub r#use: String,
    /// Who made it.
    #[serde(default)]
    pub citation: String,
    /// Known pitfalls.
    #[serde(default)]
    pub note: String,
    /// Tables for an experiment file.
    #[serde(default)]
    pub example: String,
    /// Its files.
    pub files: Vec<FileEntry>,
}

/// A file of a data set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Relative to the data set's folder.
    pub path: PathBuf,
    /// The original address; absent when the file was made from others.
    pub url: Option<String>,
    /// How it was made, when no address has it.
    pub made: Option<String>,
    /// Only so many bytes of what lies at the address are the file.
    pub first_bytes: Option<u64>,
    /// Size, and SHA-256 in hexadecimal.
    pub bytes: Option<u64>,
    /// See `bytes`.
    pub sha256: Option<String>,
    /// Size and SHA-256 after unpacking, where gzip containers of the same content differ.
    pub unpacked_bytes: Option<u64>,
    /// See `unpacked_bytes`.
    pub unpacked_sha256: Option<String>,
}

impl FileEntry {
    /// The bytes to keep, when `path` holds this file: as it is, or unpacked where it is a gzipped
    /// copy of a file that is plain at its address.
    ///
    /// # Errors
    /// The checksum that was found and the one that was wanted.
    pub fn verified(&self, path: &Path) -> Result<Vec<u8>> {
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
            "{} is not the file that the manifest names: SHA-256 {found}, wanted {}{}",
            path.display(),
            wanted.map_or("(none)", String::as_str),
            if self.sha256.is_none() {
                " after unpacking"
            } else {
                ""
            }
        )))
    }

    /// Its size, as far as the manifest knows.
    pub fn size(&self) -> u64 {
        self.bytes.or(self.unpacked_bytes).unwrap_or(0)
    }
}

impl Manifest {
    /// Reads a manifest; `place` is for messages.
    ///
    /// # Errors
    /// Not TOML of this form, or a file that leaves its folder or has no checksum or origin.
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
                    "{}: the file `{}` needs a path inside the data set's folder, one of sha256 and unpacked_sha256, \
                     and one of url and made",
                    place.display(),
                    file.path.display()
                )));
            }
        }
        Ok(manifest)
    }

    /// Every data set, by name.
    ///
    /// # Errors
    /// A manifest in `datasets/` that cannot be read.
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

    /// The data set of this name.
    ///
    /// # Errors
    /// There is none; the message has the nearest name.
    pub fn find(name: &str) -> Result<Self> {
        let all = Self::all()?;
        if let Some(found) = all.iter().find(|m| m.name == name) {
            return Ok(found.clone());
        }
        let hint = suggestion(name, all.iter().map(|m| m.name.as_str()));
        Err(Error::usage(format!("there is no data set `{name}`{hint}")))
    }

    /// The place of a file under one of the folders, plain or gzipped, when it is there.
    pub fn located(&self, file: &FileEntry, roots: &[PathBuf]) -> Option<PathBuf> {
        let folders = roots.iter().map(|root| root.join(&self.name));
        folders
            .into_iter()
            .find_map(|folder| either(&folder.join(&file.path)))
    }
}

/// The names of the built-in manifests.
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
