//! Detects folders with the files of several splits, as in data sets of Hugging Face's Hub:
//! `data/train-00000-of-00004.parquet` beside `data/test-00000-of-00001.parquet`, or `train/0000.parquet`
//! beside `test/0000.parquet`. If they were read as one split, test examples would be trained on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{columnar, packed};
use crate::error::{Error, Result};

/// The keys of `[data]` for the files of each split.
const KEYS: [&str; 3] = ["path", "valid_path", "test_path"];
/// Usual names of splits, each with the index of its key in [`KEYS`].
const NAMES: [(&str, usize); 6] = [
    ("train", 0),
    ("validation", 1),
    ("valid", 1),
    ("val", 1),
    ("dev", 1),
    ("test", 2),
];
/// File name extensions of tables of examples, apart from columnar ones.
const ENDINGS: [&str; 6] = ["jsonl", "ndjson", "json", "csv", "tsv", "txt"];

/// The patterns of each split's files, by the index of its key.
type Patterns = BTreeMap<usize, String>;

/// Returns an error if files in one folder under a key of `[data]` belong to several splits. Files that a
/// pattern or a list names are accepted as they are.
///
/// # Errors
/// If there are such files; the message has the keys for each split, and the pattern that takes all files.
pub(in crate::data) fn require_single_split(
    key: &str,
    folder: &Path,
    files: &[PathBuf],
) -> Result<()> {
    let all = splits_by_folder(files);
    let several = all.iter().find(|(_, patterns)| patterns.len() > 1);
    let Some((place, patterns)) = several.filter(|_| folder.is_dir()) else {
        return Ok(());
    };
    let remedy = match KEYS.contains(&key) {
        true => format!("set one key for each split, {}", keyed(place, patterns)),
        false => {
            let one = patterns.values().next().map(|pattern| place.join(pattern));
            format!(
                "name the files of one split, {key} = {:?}",
                one.unwrap_or_default()
            )
        }
    };
    Err(Error::usage(format!(
        "[data] {key} = {folder:?} contains the files of several splits, which would be read as one: {remedy}; {} all of them",
        patterns_of_all(folder, files)
    )))
}

/// Returns the patterns for all files below a folder: one per extension, or a single one if a file has no
/// extension.
fn patterns_of_all(folder: &Path, files: &[PathBuf]) -> String {
    let endings: BTreeSet<Option<&OsStr>> = files.iter().map(|file| file.extension()).collect();
    let endings: Option<Vec<&str>> = endings.into_iter().map(|e| e?.to_str()).collect();
    let pattern = |ending: &&str| folder.join(format!("**/*.{ending}"));
    match endings.as_deref() {
        Some([one]) => format!("the pattern {:?} matches", pattern(one)),
        Some(several) => {
            let all: Vec<PathBuf> = several.iter().map(pattern).collect();
            format!("the patterns {all:?} match")
        }
        None => format!("the pattern {:?} matches", folder.join("**/*")),
    }
}

/// Returns the keys for some files according to their splits: `path = "data/train-*.parquet"`; `None` if
/// their names tell no split.
pub(in crate::data) fn suggested_keys(files: &[PathBuf]) -> Option<String> {
    let all = splits_by_folder(files);
    let (place, patterns) = all.first_key_value()?;
    Some(keyed(place, patterns))
}

fn keyed(place: &Path, patterns: &Patterns) -> String {
    let each = patterns.iter().map(|(key, pattern)| {
        let path = place.join(pattern);
        format!("{} = {path:?}", KEYS[*key])
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Returns the splits found in each folder.
fn splits_by_folder(files: &[PathBuf]) -> BTreeMap<PathBuf, Patterns> {
    let mut all: BTreeMap<PathBuf, Patterns> = BTreeMap::new();
    for (place, key, pattern) in files.iter().filter_map(|file| split_of(file)) {
        let patterns = all.entry(place).or_default();
        patterns.entry(key).or_insert(pattern);
    }
    all
}

/// Returns the folder of a file, the index of its split's key, and a pattern for all files of that split. A
/// table's split is told by its folder, otherwise by the name of the file.
fn split_of(file: &Path) -> Option<(PathBuf, usize, String)> {
    let (folder, name) = (file.parent()?, file.file_name()?.to_str()?);
    let is_table = columnar::is_columnar(file);
    // Folders of images and recordings have such a table in the folder of each split.
    let in_folder = is_table || name.starts_with("metadata.");
    let within = folder.file_name().and_then(|name| name.to_str());
    let within = within.filter(|_| in_folder).and_then(|within| {
        let lower = within.to_lowercase();
        let key = NAMES.iter().find(|(word, _)| *word == lower)?.1;
        let ending = file.extension()?.to_str()?;
        Some((
            folder.parent()?.to_path_buf(),
            key,
            format!("{within}/*.{ending}"),
        ))
    });
    if within.is_some() {
        return within;
    }
    let plain = packed::plain_name(file);
    let (stem, ending) = plain.rsplit_once('.')?;
    if !is_table && !ENDINGS.contains(&ending) {
        return None;
    }
    NAMES.iter().find_map(|(word, key)| {
        let rest = stem.strip_prefix(word)?;
        let mut following = rest.chars();
        let pattern = match (following.next(), following.next()) {
            (None, _) => name.to_owned(),
            // Text files may have any name, such as `train-to-busan.txt`; parts of a split are numbered.
            (Some('-' | '_' | '.'), Some(next)) if is_table || next.is_ascii_digit() => {
                let (begins, ends) = (name.get(..=word.len())?, name.get(stem.len()..)?);
                format!("{begins}*{ends}")
            }
            _ => return None,
        };
        Some((folder.to_path_buf(), *key, pattern))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the message about files in a folder, without the path of the temporary folder.
    fn told_of(key: &str, files: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = files.iter().map(|file| folder.path().join(file)).collect();
        let place = folder.path().join("ds");
        std::fs::create_dir(&place).unwrap();
        let refused = require_single_split(key, &place, &files).err();
        let said = refused.map_or_else(String::new, |error| error.to_string());
        said.replace(&format!("{}/", folder.path().display()), "")
    }

    fn told(files: &[&str]) -> String {
        told_of("path", files)
    }

    #[test]
    fn several_splits_are_told_apart() {
        assert_eq!(
            told(&[
                "ds/data/test-00000-of-00001.parquet",
                "ds/data/train-00000-of-00002.parquet",
                "ds/data/train-00001-of-00002.parquet",
            ]),
            "[data] path = \"ds\" contains the files of several splits, which would be read as one: set one key for each split, \
             path = \"ds/data/train-*.parquet\", test_path = \"ds/data/test-*.parquet\"; the pattern \"ds/**/*.parquet\" matches \
             all of them"
        );
        assert_eq!(
            told_of(
                "retrieval.path",
                &["ds/test.txt", "ds/train.txt", "ds/card"]
            ),
            "[data] retrieval.path = \"ds\" contains the files of several splits, which would be read as one: name the files of one \
             split, retrieval.path = \"ds/train.txt\"; the pattern \"ds/**/*\" matches all of them"
        );
        let lines = told(&[
            "ds/train.jsonl.gz",
            "ds/validation-0.jsonl.gz",
            "ds/README.md",
        ]);
        assert!(
            lines.contains(
                "path = \"ds/train.jsonl.gz\", valid_path = \"ds/validation-*.jsonl.gz\""
            ),
            "{lines}"
        );
        let folders = told(&["ds/train/0000.parquet", "ds/test/0000.parquet"]);
        assert!(
            folders.contains("path = \"ds/train/*.parquet\", test_path = \"ds/test/*.parquet\""),
            "{folders}"
        );
        let recordings = told(&["ds/train/metadata.csv", "ds/test/metadata.csv"]);
        assert!(
            recordings.contains("path = \"ds/train/*.csv\", test_path = \"ds/test/*.csv\""),
            "{recordings}"
        );
    }

    #[test]
    fn one_split_and_other_names_are_read() {
        for files in [
            &["ds/train-0.parquet", "ds/train-1.parquet"][..],
            &["ds/train-to-busan.txt", "ds/test-drive.txt"],
            &["ds/train.py", "ds/test.py"],
            &["ds/a/train.txt", "ds/b/test.txt"],
            &["ds/trains.csv", "ds/tests.csv"],
        ] {
            assert_eq!(told(files), "", "{files:?}");
        }
        let one = suggested_keys(&["ds/data/train-0.parquet".into()]);
        assert_eq!(one.unwrap(), "path = \"ds/data/train-*.parquet\"");
        assert_eq!(suggested_keys(&["ds/data/0.parquet".into()]), None);
    }
}
