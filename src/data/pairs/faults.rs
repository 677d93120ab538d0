//! Faults of the keys of `kind = "pairs"`.

use super::{Field, PairsConfig, Texts};
use crate::data::Split;
use crate::data::files::{packed, records};
use crate::data::labelled::header::Header;
use crate::data::parts::path_key;
use crate::error::{Error, Result};
use crate::tokenizer::MarkNames;
use std::path::Path;

impl PairsConfig {
    pub(super) fn file_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (key, paths) in self.lists() {
            if paths.0.iter().any(|p| p.as_os_str().is_empty()) {
                faults.push(format!("[data] `{key}` is empty; remove it or name a file"));
            }
        }
        let files = self.files();
        if files.train.is_empty() {
            faults.push(
                "[data] kind = \"pairs\" needs `source` and `target` (two files with corresponding lines) or `path` (TSV, CSV or JSONL)"
                    .into(),
            );
        }
        for (split, prefix) in [
            (Split::Train, ""),
            (Split::Valid, "valid_"),
            (Split::Test, "test_"),
        ] {
            let f = files.get(split);
            let (sources, targets) = (f.source.0.len(), f.target.0.len());
            if sources != targets {
                faults.push(format!(
                    "[data] {prefix}source names {sources} file(s), but {prefix}target names {targets}; each source file needs its own target file"
                ));
            }
            if sources + targets > 0 && !f.both.0.is_empty() {
                faults.push(format!(
                    "[data] {prefix}path and {prefix}source/{prefix}target both name files; remove one of them"
                ));
            }
        }
        let tables = [&self.path, &self.valid_path, &self.test_path];
        let fields = self.source_field.is_some() || self.target_field.is_some();
        if fields && tables.iter().all(|p| p.0.is_empty()) {
            faults.push(
                "[data] source_field and target_field have no effect without `path`: source and target are lines of two files; remove them"
                    .into(),
            );
        }
        if fields && let Some(column) = self.shared_column() {
            faults.push(format!(
                "[data] source_field and target_field are both {column}: every text would be its own target; name a different column in one of them"
            ));
        }
        faults
    }

    /// Faults of `header`: there is no table that could have one.
    pub(super) fn header_faults(&self) -> Vec<String> {
        let files = self.files();
        let tables = |split: Split| &files.get(split).both.0;
        if self.header.is_nowhere() {
            return Vec::new();
        }
        if Split::ALL.into_iter().all(|split| tables(split).is_empty()) {
            return vec![
                "[data] header has no effect without `path`: source and target are lines of two files; remove it".into(),
            ];
        }
        let mut faults = Vec::new();
        if let Header::Of(splits) = &self.header {
            let missing = splits.iter().filter(|split| tables(**split).is_empty());
            faults.extend(missing.map(|split| {
                let key = path_key(*split);
                format!(
                    "[data] header names the {} split, but {key} is not set, so there is no table with a header",
                    split.name()
                )
            }));
        }
        let mut all = Split::ALL.into_iter().flat_map(tables);
        if all.all(|path| records::has_names(path)) {
            faults.push(
                "[data] header has no effect on JSON lines, Parquet and Arrow; remove it".into(),
            );
        }
        faults
    }

    /// Returns the column that source and target share, if they do. Without keys, the source of delimited
    /// text is in its first column and the target in its second.
    fn shared_column(&self) -> Option<String> {
        match (&self.source_field, &self.target_field) {
            (Some(source), Some(target)) if source == target => Some(source.to_string()),
            (None, Some(Field::Column(1))) => Some("1".into()),
            (Some(Field::Column(2)), None) => Some("2".into()),
            (None, Some(Field::Name(name))) if name == "source" => Some(name.clone()),
            (Some(Field::Name(name)), None) if name == "target" => Some(name.clone()),
            _ => None,
        }
    }

    pub(super) fn idle_faults(&self) -> Vec<String> {
        let idle = self.all_references && self.path.0.iter().all(|path| has_one_target(path));
        let fault = "[data] all_references = true has no effect: a line of two files, or of a TSV or CSV, has one target; remove it, or use JSONL \
                     (`path`) with lists of targets";
        idle.then(|| fault.to_owned()).into_iter().collect()
    }

    /// Refuses training files in which one side is always empty.
    ///
    /// # Errors
    /// If every source or every target is empty.
    pub(super) fn require_texts(&self, all: &Texts) -> Result<()> {
        let side = if all.sources.iter().all(String::is_empty) {
            "source"
        } else if all.references.iter().flatten().all(String::is_empty) {
            "target"
        } else {
            return Ok(());
        };
        let key = if self.path.0.is_empty() { side } else { "path" };
        Err(Error::usage(format!(
            "[data] {key}: every {side} of the training files is empty"
        )))
    }

    /// Faults of keys that have no effect when one network encodes both texts.
    pub(super) fn alone_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.separate_vocabularies {
            faults.push(
                "[data] separate_vocabularies = true, but one network reads both texts; remove it"
                    .into(),
            );
        }
        if self.marks != MarkNames::default() {
            faults.push("[data] marks has no effect here: texts that are encoded separately get the special tokens of the vocabulary; remove \
                         it".into());
        }
        faults
    }

    pub(super) fn fraction_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let files = self.files();
        for (key, fraction, files) in [
            ("valid", self.valid_fraction, files.valid),
            ("test", self.test_fraction, files.test),
        ] {
            let Some(fraction) = fraction else { continue };
            if !(0.0..1.0).contains(&fraction) {
                faults.push(format!(
                    "[data] {key}_fraction = {fraction} must be at least 0 and below 1"
                ));
            }
            if fraction > 0.0 && !files.is_empty() {
                faults.push(format!(
                    "[data] {key}_fraction and files for the {key} split both define the split; remove one of them"
                ));
            }
        }
        let (valid, test) = self.fractions();
        if valid + test >= 1.0 {
            faults.push(format!(
                "[data] valid_fraction + test_fraction = {} leaves no pair to train on",
                valid + test
            ));
        }
        faults
    }
}

/// Whether each source of a table has exactly one target, judged by the file's name.
fn has_one_target(path: &Path) -> bool {
    let name = packed::plain_name(path);
    [".tsv", ".txt", ".csv"]
        .iter()
        .any(|end| name.ends_with(end))
}
