//! Folders in which the files of several splits lie side by side, as data sets of Hugging Face's Hub have them:
//! `data/train-00000-of-00004.parquet` beside `data/test-00000-of-00001.parquet`, or `train/0000.parquet` beside `test/0000.parquet`.
//! Read as one they would put what is tested on into training.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{columnar, packed};
use crate::error::{Error, Result};

/// The keys of `[data]` that take the files of each split.
const KEYS: [&str; 3] = ["path", "valid_path", "test_path"];
/// The names that splits have, with the number of their key.
const NAMES: [(&str, usize); 6] = [
    ("train", 0),
    ("validation", 1),
    ("valid", 1),
    ("val", 1),
    ("dev", 1),
    ("test", 2),
];
/// How files end that hold examples, beside tables of columns.
const ENDINGS: [&str; 6] = ["jsonl", "ndjson", "json", "csv", "tsv", "txt"];

/// The patterns of each split's files, by the number of its key.
type Patterns = BTreeMap<usize, String>;

/// An error where files that lie at one place are of several splits.
pub(super) fn require_one(folder: &Path, files: &[PathBuf]) -> Result<()> {
    let all = places(files);
    let Some((place, patterns)) = all.iter().find(|(_, patterns)| patterns.len() > 1) else {
        return Ok(());
    };
    Err(Error::usage(format!(
        "[data] path = {folder:?} holds the files of several splits, which would be read as one: name them by their keys, {}; \
         the pattern {:?} takes all of them",
        keyed(place, patterns),
        place.join("*")
    )))
}

/// The keys that take some files by their splits: `path = "data/train-*.parquet"`; `None` where their names say none.
pub(in crate::data) fn named(files: &[PathBuf]) -> Option<String> {
    let all = places(files);
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

/// The splits that lie at each place.
fn places(files: &[PathBuf]) -> BTreeMap<PathBuf, Patterns> {
    let mut all: BTreeMap<PathBuf, Patterns> = BTreeMap::new();
    for (place, key, pattern) in files.iter().filter_map(|file| split_of(file)) {
        let patterns = all.entry(place).or_default();
        patterns.entry(key).or_insert(pattern);
    }
    all
}

/// The place of a file, the number of its split's key, and a pattern of all files of that split: by the folder of a table, else by
/// the name of the file.
fn split_of(file: &Path) -> Option<(PathBuf, usize, String)> {
    let (folder, name) = (file.parent()?, file.file_name()?.to_str()?);
    let is_table = columnar::is_columnar(file);
    let within = folder.file_name().and_then(|name| name.to_str());
    let within = within.filter(|_| is_table).and_then(|within| {
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
            // Texts may have any name, `train-to-busan.txt`; parts of a split are numbered.
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

    fn told(files: &[&str]) -> String {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let refused = require_one(Path::new("ds"), &files).err();
        refused.map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn several_splits_are_told_apart() {
        assert_eq!(
            told(&[
                "ds/data/test-00000-of-00001.parquet",
                "ds/data/train-00000-of-00002.parquet",
                "ds/data/train-00001-of-00002.parquet",
            ]),
            "[data] path = \"ds\" holds the files of several splits, which would be read as one: name them by their keys, \
             path = \"ds/data/train-*.parquet\", test_path = \"ds/data/test-*.parquet\"; the pattern \"ds/data/*\" takes all \
             of them"
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
        let one = named(&["ds/data/train-0.parquet".into()]);
        assert_eq!(one.unwrap(), "path = \"ds/data/train-*.parquet\"");
        assert_eq!(named(&["ds/data/0.parquet".into()]), None);
    }
}
