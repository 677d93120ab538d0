//! The files of a text: finds them, separates them from files that are not text, and computes their key.
//!
//! A folder from a hub has a card and descriptions (`README.md`, `dataset_infos.json`) beside its tables. If
//! a folder holds files of rows, its other files are left out, and a note names them.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::texts::TextCorpus;
use crate::data::files::documents::{self, DocumentFormat};
use crate::data::files::{discovery, packed, splits};
use crate::data::parts::path_key;
use crate::data::split::Unit;
use crate::data::{Paths, PerSplit, Request, Split, TextConfig};
use crate::digest::hex;
use crate::error::{Error, Result};

/// Maximum number of files that a note names.
const NAMED: usize = 4;

/// The files of the splits, and notes about files that are left out.
pub(super) struct CorpusFiles {
    pub(super) files: PerSplit<Vec<PathBuf>>,
    pub(super) notes: Vec<String>,
}

/// Finds the training files `train`, given under some key, and the files of the keys for held-out text.
///
/// # Errors
/// If there is nothing at a path, or a folder cannot be read, holds no file or holds those of several splits.
pub(super) fn find(
    config: &TextConfig,
    (key, train): (&str, &Paths),
    request: &Request,
) -> Result<CorpusFiles> {
    let mut notes = Vec::new();
    let mut of = |key: &str, paths: Option<&Paths>| -> Result<Vec<PathBuf>> {
        let mut all = Vec::new();
        for path in paths.map(|p| p.0.as_slice()).unwrap_or_default() {
            let place = request.places.resolve(path)?;
            let found = discovery::expand(std::slice::from_ref(&place))?;
            if request.is_from_earlier_version() {
                all.extend(found);
                continue;
            }
            let (files, others) = separate_text_files(&place, found);
            splits::require_single_split(key, &place, &files)?;
            notes.extend(note(&place, &others));
            all.extend(files);
        }
        Ok(all)
    };
    let files = PerSplit {
        train: of(key, Some(train))?,
        valid: of(path_key(Split::Valid), config.valid_path.as_ref())?,
        test: of(path_key(Split::Test), config.test_path.as_ref())?,
    };
    Ok(CorpusFiles { files, notes })
}

/// Separates the files of a path that are its text from other ones.
fn separate_text_files(place: &Path, files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    match place.is_dir() && files.iter().any(|file| documents::has_rows(file)) {
        true => files
            .into_iter()
            .partition(|file| documents::has_rows(file)),
        false => (files, Vec::new()),
    }
}

fn note(folder: &Path, others: &[PathBuf]) -> Option<String> {
    let name = |file: &PathBuf| {
        let below = file.strip_prefix(folder).unwrap_or(file);
        below.display().to_string()
    };
    let names: Vec<String> = others.iter().map(name).collect();
    (!others.is_empty()).then(|| {
        format!(
            "[data] {}: {} left out, because the folder contains Parquet, Arrow or JSON lines; to read such files, name them in a list of paths",
            folder.display(),
            discovery::join_first(&names, NAMED)
        )
    })
}

/// Returns an error if a new run sets keys that divide plain text into documents although no file is plain
/// text.
///
/// # Errors
/// If `document_separator` or `documents` is set and there are only files of rows.
pub(in crate::data) fn require_plain(
    config: &TextConfig,
    request: &Request,
    corpora: &[TextCorpus],
) -> Result<()> {
    let key = match (&config.document_separator, config.documents) {
        (Some(_), _) => "document_separator",
        (None, Some(_)) => "documents",
        (None, None) => return Ok(()),
    };
    let of = |texts: &TextCorpus| Split::ALL.iter().all(|s| are_all_rows(texts.files.get(*s)));
    // An evaluation may read other files than those of the run.
    if request.run_shape.is_some() || !corpora.iter().all(of) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "[data] {key} has no effect: every file is JSON lines, Parquet or Arrow, where each line or row is a document; remove it"
    )))
}

fn are_all_rows(files: &[PathBuf]) -> bool {
    files.iter().all(|file| documents::has_rows(file))
}

/// Returns the hash of the files and of the way they are read.
pub(super) fn key(
    config: &TextConfig,
    files: &PerSplit<Vec<PathBuf>>,
    reading: &DocumentFormat,
    unit: Unit,
) -> Result<String> {
    let mut key = Sha256::new();
    key.update(format!("{reading:?} {unit:?} {:?}", config.fractions()));
    for split in Split::ALL {
        key.update(split.name());
        // Whether a file is read as JSON lines depends on its name.
        let digests = documents::digests(files.get(split))?;
        for (file, digest) in files.get(split).iter().zip(digests) {
            let name = packed::plain_name(file);
            let ending = Path::new(&name).extension().unwrap_or_default();
            key.update(ending.as_encoded_bytes());
            key.update(digest);
        }
    }
    Ok(hex(&key.finalize()))
}
