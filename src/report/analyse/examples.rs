//! The examples that values are of. Runs whose settings give them others, and runs of files with another content, do not compare,
//! whatever the metric ([`crate::data::evaluated`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::data::evaluated;
use crate::report::read::origins::Origin;
use crate::report::read::run::Run;

/// Values that a note names, at most.
const NAMED: usize = 12;
/// The ends of keys that name files.
const FILES: [&str; 3] = ["path", "source", "target"];
/// A key that names a file of images' labels, and a column of other tables.
const LABELS: &str = "data.labels";

/// The settings that a run was made from, and what is known of its files.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// Its settings by dotted key.
    pub settings: &'a [(String, String)],
    /// The contents of its files; `None` of one that is only planned, whose paths are all there is.
    pub origins: Option<&'a [Origin]>,
}

impl<'a> Made<'a> {
    /// A run that was begun.
    pub fn of(run: &'a Run) -> Self {
        Self {
            settings: &run.settings,
            origins: Some(&run.origins),
        }
    }

    /// The value of a key.
    pub fn setting(self, key: &str) -> Option<&'a str> {
        let found = self.settings.iter().find(|(own, _)| own == key);
        found.map(|(_, value)| value.as_str())
    }

    fn sums(self, key: &str) -> Vec<&'a str> {
        let own = self.origins.into_iter().flatten();
        let own = own.filter(|origin| origin.key == key);
        own.map(|origin| origin.sha256.as_str()).collect()
    }

    /// The keys of its settings that define the examples of a split; `is_shared` says that these are a share of others.
    fn keys(self, split: &str, is_shared: bool) -> impl Iterator<Item = &'a str> {
        let kind = self.setting("data.kind").unwrap_or_default();
        let evaluated = evaluated::of_kind(kind);
        let keys = self.settings.iter().map(|(key, _)| key.as_str());
        keys.filter(move |key| {
            let Some(below) = key.strip_prefix("data.") else {
                return false;
            };
            let is_among = |keys: &[&str]| keys.iter().any(|key| is_within(below, key));
            let own =
                |e: &evaluated::Evaluated| is_among(e.keys) || is_shared && is_among(e.shared);
            below == "kind" || below.starts_with(split) || evaluated.is_some_and(own)
        })
    }

    /// Whether it has files of its own for a split.
    fn has_own(self, split: &str) -> bool {
        let files = ["path", "source"].map(|end| format!("data.{split}_{end}"));
        // A list without a file is written as such.
        let given = |key: &String| self.setting(key).is_some_and(|value| value != "[]");
        files.iter().any(given)
    }
}

/// Whether a dotted key is another one, or stands in its table.
pub fn is_within(key: &str, table: &str) -> bool {
    let rest = key.strip_prefix(table);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What differs in the examples of a split: `data.valid_fraction: 0.1 | 0.2`; nothing where values are of one set.
pub fn differing(made: &[Made], split: &str) -> Vec<String> {
    if split == "train" {
        return Vec::new();
    }
    let is_shared = !made.iter().all(|made| made.has_own(split));
    let keys = made.iter().flat_map(|made| made.keys(split, is_shared));
    let keys: BTreeSet<&str> = keys.collect();
    let kinds = keys.iter().copied().filter(|key| *key == "data.kind");
    // Other kinds have other keys, which then say nothing more.
    let kinds: Vec<String> = kinds.filter_map(|key| values(made, key)).collect();
    if !kinds.is_empty() {
        return kinds;
    }
    keys.into_iter()
        .filter_map(|key| values(made, key))
        .collect()
}

/// The values of a key, where there are several: contents of files by their sums.
fn values(made: &[Made], key: &str) -> Option<String> {
    let of_images = || {
        made.iter()
            .any(|made| made.setting("data.kind") == Some("images"))
    };
    let names_file = FILES.iter().any(|end| key.ends_with(end)) || key == LABELS && of_images();
    let mut found: BTreeMap<Vec<&str>, Option<&str>> = BTreeMap::new();
    for made in made {
        let (value, sums) = (made.setting(key), made.sums(key));
        // The path of a run that keeps no sums says nothing about the content.
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
