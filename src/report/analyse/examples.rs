//! Checks that runs were evaluated on the same examples. Runs whose settings select different examples, or whose files have
//! different contents, are not comparable on any metric ([`crate::data::evaluation_keys`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::data::evaluation_keys;
use crate::report::read::origins::Origin;
use crate::report::read::run::Run;

/// Maximum number of values that a note lists.
const NAMED: usize = 12;
/// Suffixes of the keys whose values are file paths.
const FILES: [&str; 3] = ["path", "source", "target"];
/// Key that names the label file for image data, but a column for other kinds of data.
const LABELS: &str = "data.labels";

/// The settings a run was made from, and the contents of its files as far as known.
#[derive(Clone, Copy, Debug)]
pub struct RunInputs<'a> {
    /// Settings of the run, by dotted key.
    pub settings: &'a [(String, String)],
    /// Content hashes of the run's files; `None` for a planned run, of which only the paths are known.
    pub origins: Option<&'a [Origin]>,
}

impl<'a> RunInputs<'a> {
    /// Returns the settings and origins of a run that was started.
    pub fn of(run: &'a Run) -> Self {
        Self {
            settings: &run.settings,
            origins: Some(&run.origins),
        }
    }

    /// Returns the value of a key.
    pub fn setting(self, key: &str) -> Option<&'a str> {
        let found = self.settings.iter().find(|(own, _)| own == key);
        found.map(|(_, value)| value.as_str())
    }

    fn checksums(self, key: &str) -> Vec<&'a str> {
        let own = self.origins.into_iter().flatten();
        let own = own.filter(|origin| origin.key == key);
        own.map(|origin| origin.sha256.as_str()).collect()
    }

    /// Returns the settings keys that define the examples of a split. `is_shared` says that the split is a share of common data.
    fn keys(self, split: &str, is_shared: bool) -> impl Iterator<Item = &'a str> {
        let kind = self.setting("data.kind").unwrap_or_default();
        let evaluated = evaluation_keys::of_kind(kind);
        let keys = self.settings.iter().map(|(key, _)| key.as_str());
        keys.filter(move |key| {
            let Some(below) = key.strip_prefix("data.") else {
                return false;
            };
            let is_among = |keys: &[&str]| keys.iter().any(|key| is_within(below, key));
            let own = |e: &evaluation_keys::EvaluationKeys| {
                is_among(e.keys) || is_shared && is_among(e.fraction_keys)
            };
            below == "kind" || below.starts_with(split) || evaluated.is_some_and(own)
        })
    }

    /// Whether the run has separate files for a split.
    fn has_own(self, split: &str) -> bool {
        let files = ["path", "source"].map(|end| format!("data.{split}_{end}"));
        // An empty list of files is written as `[]`.
        let given = |key: &String| self.setting(key).is_some_and(|value| value != "[]");
        files.iter().any(given)
    }
}

/// Whether the dotted key `key` equals `table` or lies inside that table.
pub fn is_within(key: &str, table: &str) -> bool {
    let rest = key.strip_prefix(table);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the differences in the examples of a split, such as `data.valid_fraction: 0.1 | 0.2`; empty if all runs share the same
/// examples.
pub fn differing_examples(made: &[RunInputs], split: &str) -> Vec<String> {
    if split == "train" {
        return Vec::new();
    }
    let is_shared = !made.iter().all(|made| made.has_own(split));
    let keys = made.iter().flat_map(|made| made.keys(split, is_shared));
    let keys: BTreeSet<&str> = keys.collect();
    let kinds = keys.iter().copied().filter(|key| *key == "data.kind");
    // Different kinds have different keys, so listing the other keys adds nothing.
    let kinds: Vec<String> = kinds.filter_map(|key| values(made, key)).collect();
    if !kinds.is_empty() {
        return kinds;
    }
    keys.into_iter()
        .filter_map(|key| values(made, key))
        .collect()
}

/// Returns the values of a key if they differ. Files are compared by their content hashes.
fn values(made: &[RunInputs], key: &str) -> Option<String> {
    let of_images = || {
        made.iter()
            .any(|made| made.setting("data.kind") == Some("images"))
    };
    let names_file = FILES.iter().any(|end| key.ends_with(end)) || key == LABELS && of_images();
    let mut found: BTreeMap<Vec<&str>, Option<&str>> = BTreeMap::new();
    for made in made {
        let (value, sums) = (made.setting(key), made.checksums(key));
        // Without a recorded hash, a path says nothing about the content.
        let untold = names_file && made.origins.is_some() && sums.is_empty() && value.is_some();
        if untold {
            continue;
        }
        let content = match sums.is_empty() {
            true => value.into_iter().collect(),
            false => sums,
        };
        found.insert(content, value);
    }
    let shown = found.values().take(NAMED);
    let shown: Vec<&str> = shown.map(|value| value.unwrap_or("–")).collect();
    (found.len() > 1).then(|| format!("{key}: {}", shown.join(" | ")))
}
