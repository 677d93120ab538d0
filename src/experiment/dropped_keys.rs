//! Notes on keys that are dropped when a table's kind changes: a table of another kind replaces the whole table of the file
//! (`file/tree`), and the keys that the file set in it return to their defaults.

use super::{LoadedExperiment, Origin, file, preset_widths};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Returns the notes about keys before an experiment is used: [`dropped_by_sets`], and preset widths that are kept although `d_model`
/// was changed.
pub fn notes(loaded: &LoadedExperiment, sets: &[String]) -> Vec<String> {
    let mut notes = dropped_by_sets(loaded, sets);
    notes.extend(preset_widths::kept_widths(loaded));
    notes
}

/// A sentence for each table of the file that `--set` replaces by one of another kind.
fn dropped_by_sets(loaded: &LoadedExperiment, sets: &[String]) -> Vec<String> {
    if sets.is_empty() {
        return Vec::new();
    }
    // The file may be incomplete without the values that --set gives; there is nothing to compare then.
    let file = file::load_text(&loaded.path, loaded.source.clone(), &[]);
    file.map_or_else(|_| Vec::new(), |base| replaced_tables(&base, loaded))
}

/// Describes the tables of `base` that have another kind in `now`, with the dropped keys: `optimizer.kind = "lion" replaces the
/// table of "adamw": lr = 0.01 (base.toml:12) is gone, 0.0001 now`.
pub fn replaced_tables(base: &LoadedExperiment, now: &LoadedExperiment) -> Vec<String> {
    let resolved = Table::try_from(&now.experiment).unwrap_or_default();
    let mut tables: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, value) in &base.written_values {
        if now.written_values.contains_key(key) {
            continue;
        }
        let (Some(table), Some(place)) = (other_kind(key, base, now), place(base.origin(key)))
        else {
            continue;
        };
        let gone = value_at(&resolved, key);
        if gone == Some(value) {
            continue;
        }
        let name = key[table.len()..].trim_start_matches('.');
        let gone = gone.map_or("none".into(), file::inline);
        let shown = file::inline(value);
        let all = tables.entry(table).or_default();
        all.push(format!("{name} = {shown} ({place}) is dropped, {gone} now"));
    }
    let sentence = |(table, gone): (&str, Vec<String>)| {
        let kind = |loaded: &LoadedExperiment| {
            let kind = loaded.written_values.get(&format!("{table}.kind"));
            kind.map_or_else(String::new, file::inline)
        };
        format!(
            "{table}.kind = {} replaces the table of {}: {}; to keep a value, set it together with the kind",
            kind(now),
            kind(base),
            gone.join("; ")
        )
    };
    tables.into_iter().map(sentence).collect()
}

/// The outermost table around a key that has another kind now.
fn other_kind<'k>(
    key: &'k str,
    base: &LoadedExperiment,
    now: &LoadedExperiment,
) -> Option<&'k str> {
    let mut tables = key.match_indices('.').map(|(point, _)| &key[..point]);
    tables.find(|table| {
        let kind = |loaded: &LoadedExperiment| {
            loaded.written_values.get(&format!("{table}.kind")).cloned()
        };
        let (was, is) = (kind(base), kind(now));
        was.is_some() && is.is_some() && was != is
    })
}

/// The file and line, or the preset, that sets a key.
fn place(origin: &Origin) -> Option<String> {
    match origin {
        Origin::File { path, line } => Some(format!("{}:{line}", path.display())),
        Origin::Preset { name, .. } => Some(format!("preset {name}")),
        Origin::Set(_) | Origin::Default => None,
    }
}

/// Returns the value at a dotted key; numbers in the key are places in a list.
pub(super) fn value_at<'t>(table: &'t Table, key: &str) -> Option<&'t Value> {
    let mut parts = key.split('.');
    let first = table.get(parts.next()?)?;
    parts.try_fold(first, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    })
}

#[cfg(test)]
mod tests {
    use super::dropped_by_sets;
    use crate::experiment::load_text;
    use std::path::Path;

    const BASE: &str = include_str!("../../experiments/quickstart.toml");

    #[test]
    fn keys_that_go_with_their_kind_are_named() {
        let told = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            let file = Path::new("quickstart.toml");
            let loaded = load_text(file, BASE.into(), &sets).unwrap();
            dropped_by_sets(&loaded, &sets)
        };
        let gone = told(&["optimizer.kind=lion"]);
        assert_eq!(gone.len(), 1, "{gone:?}");
        let line = 1 + BASE.lines().take_while(|l| *l != "lr = 2e-3").count();
        let begun = "optimizer.kind = \"lion\" replaces the table of \"adamw\": ";
        let lr = format!("lr = 0.002 (quickstart.toml:{line}) is dropped, 0.0001 now");
        assert!(
            gone[0].starts_with(begun) && gone[0].contains(&lr),
            "{gone:?}"
        );
        let kept = told(&["optimizer.kind=lion", "optimizer.lr=0.001"]);
        assert!(!kept.concat().contains("lr = "), "{kept:?}");
        assert!(told(&["optimizer.lr=0.001"]).is_empty());
    }
}
