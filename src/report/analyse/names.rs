//! Names of arms: a letter as identifier, the common part of their runs' names, and the settings that tell them apart.

use super::arms::{Arm, Difference};
use crate::report::read::run::Run;
use std::collections::BTreeSet;

/// `A` … `Z`, `AA`, `AB` …
pub(super) fn letters(mut n: usize) -> String {
    let mut text = Vec::new();
    loop {
        text.push(b'A' + (n % 26) as u8);
        match (n / 26).checked_sub(1) {
            Some(rest) => n = rest,
            None => break,
        }
    }
    text.iter().rev().map(|&b| char::from(b)).collect()
}

/// Returns the runs' common name without seeds, or, if those differ, the common prefix of their names.
pub(super) fn label(members: &[usize], runs: &[Run]) -> String {
    let first = &runs[members[0]];
    if members.len() == 1 {
        return first.name.clone();
    }
    let mut stems = members.iter().map(|&m| stem(&runs[m]));
    let stem = stems.next().unwrap_or_default();
    if stems.all(|s| s == stem) && !stem.is_empty() {
        return stem;
    }
    let shared = members.iter().fold(first.name.as_str(), |shared, &m| {
        let same = shared
            .char_indices()
            .zip(runs[m].name.chars())
            .take_while(|((_, a), b)| a == b);
        let end = same.last().map_or(0, |((i, c), _)| i + c.len_utf8());
        &shared[..end]
    });
    let shared = shared.trim_end_matches(|c: char| c.is_ascii_digit() || "-_. ".contains(c));
    if shared.is_empty() {
        format!("{} …", first.name)
    } else {
        shared.to_string()
    }
}

/// Returns a run's name without its seed: `pre` for `pre-s7` and `pre_seed7` with seed 7.
fn stem(run: &Run) -> String {
    let seed = run.seed.as_deref().unwrap_or_default();
    match run.name.strip_suffix(seed) {
        Some(rest) if !seed.is_empty() => {
            let rest = rest.trim_end_matches(['-', '_', '.', '=', ' ']);
            let bare = rest
                .strip_suffix("seed")
                .or_else(|| rest.strip_suffix("-s"))
                .or_else(|| rest.strip_suffix("_s"));
            bare.unwrap_or(rest)
                .trim_end_matches(['-', '_', '.', ' '])
                .to_string()
        }
        _ => run.name.clone(),
    }
}

/// Maximum number of differing settings in an arm's name.
const MAX_SETTINGS: usize = 4;

/// Gives each arm its short, readable name. A sweep's `norm_placement=pre, position=rotary` becomes `pre, rotary`: the key is
/// left out if the values are words that no other axis has. Arms with the same label are told apart by the settings in
/// which they differ.
pub(super) fn name_arms(arms: &mut [Arm], causes: &[&Difference], planned: bool) {
    let labels: Vec<&str> = arms.iter().map(|arm| arm.label.as_str()).collect();
    let all: BTreeSet<&str> = labels.iter().copied().collect();
    let names = match (planned, all.len() == labels.len()) {
        (true, _) => names_from_axes(&labels),
        (false, true) => None,
        (false, false) => Some(names_from_settings(&labels, causes)),
    };
    let fine = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let names = names
        .filter(fine)
        .unwrap_or_else(|| labels.into_iter().map(str::to_owned).collect());
    for (arm, name) in arms.iter_mut().zip(names) {
        arm.name = name;
    }
}

/// Whether a value is self-explanatory: a word, not a number, boolean or table.
fn is_word(value: &str) -> bool {
    let plain = value.starts_with(char::is_alphabetic);
    plain && value.parse::<f64>().is_err() && !matches!(value, "true" | "false" | "none")
}

/// Shortens the plan's names by leaving out keys; `None` if they are not lists of `key=value` with the same keys in all.
fn names_from_axes(labels: &[&str]) -> Option<Vec<String>> {
    let split: Vec<Vec<(&str, &str)>> = labels.iter().map(|label| parts(label)).collect();
    let keys = |parts: &[(&str, &str)]| {
        parts
            .iter()
            .map(|(key, _)| key.to_string())
            .collect::<Vec<_>>()
    };
    let first = keys(split.first()?);
    if split.iter().any(|parts| keys(parts) != first) {
        return None;
    }
    let values = |axis: usize| {
        split
            .iter()
            .map(move |parts| parts[axis].1)
            .collect::<BTreeSet<_>>()
    };
    let alone = |axis: usize| {
        let others = (0..first.len()).filter(|other| *other != axis);
        let other: BTreeSet<&str> = others.flat_map(values).collect();
        values(axis)
            .iter()
            .all(|value| is_word(value) && !other.contains(value))
    };
    let alone: Vec<bool> = (0..first.len()).map(alone).collect();
    let name =
        |parts: &Vec<(&str, &str)>| {
            let shown = parts.iter().zip(&alone).map(|((key, value), alone)| {
                match *alone || key.is_empty() {
                    true => (*value).to_owned(),
                    false => format!("{key}={value}"),
                }
            });
            shown.collect::<Vec<_>>().join(", ")
        };
    Some(split.iter().map(name).collect())
}

/// Splits a name into its `key=value` parts; the key of a part without one is empty. Commas inside tables and quotes do
/// not separate parts.
fn parts(label: &str) -> Vec<(&str, &str)> {
    let (mut depth, mut quoted, mut from) = (0i32, false, 0);
    let mut found = Vec::new();
    for (at, c) in label.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 && label[at..].starts_with(", ") => {
                found.push(&label[from..at]);
                from = at + 2;
            }
            _ => {}
        }
    }
    found.push(&label[from..]);
    let keyed = |part: &'_ str| -> Option<usize> {
        let key = part.find('=')?;
        let plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
        part[..key].chars().all(plain).then_some(key)
    };
    found
        .into_iter()
        .map(|part| match keyed(part) {
            Some(end) => (&part[..end], &part[end + 1..]),
            None => ("", part),
        })
        .collect()
}

/// Builds names from the labels followed by the values in which the arms differ.
fn names_from_settings(labels: &[&str], causes: &[&Difference]) -> Vec<String> {
    let told: Vec<&&Difference> = causes.iter().take(MAX_SETTINGS).collect();
    let same = labels.iter().all(|label| *label == labels[0]);
    let name = |(arm, label): (usize, &&str)| {
        let values = told.iter().map(|d| match d.values[arm].as_deref() {
            Some(value) if d.values.iter().flatten().all(|v| is_word(v)) => value.to_owned(),
            Some(value) => format!("{}={value}", d.short),
            None => format!("no {}", d.short),
        });
        let values: Vec<String> = (!same)
            .then(|| (*label).to_owned())
            .into_iter()
            .chain(values)
            .collect();
        values.join(", ")
    };
    labels.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_go_on_after_z() {
        assert_eq!(
            [0, 25, 26, 27, 701, 702].map(letters),
            ["A", "Z", "AA", "AB", "ZZ", "AAA"]
        );
    }

    #[test]
    fn values_stand_alone_where_they_are_words_of_one_axis() {
        let names = |labels: &[&str]| names_from_axes(labels).unwrap();
        assert_eq!(
            names(&[
                "norm_placement=pre, position=rotary, n_layers=2",
                "norm_placement=post, position=rotary, n_layers=4",
            ]),
            ["pre, rotary, n_layers=2", "post, rotary, n_layers=4"]
        );
        // A word that occurs on two axes needs its key.
        assert_eq!(
            names(&["encoder=pre, decoder=post", "encoder=post, decoder=post"]),
            ["encoder=pre, decoder=post", "encoder=post, decoder=post"]
        );
        assert_eq!(
            names(&["big, norm={ kind = \"rms\", eps = 1 }", "small, norm=layer"]),
            ["big, norm={ kind = \"rms\", eps = 1 }", "small, norm=layer"]
        );
        assert_eq!(names_from_axes(&["one", "norm=pre, lr=1"]), None);
        assert_eq!(names(&["draw 1", "draw 2"]), ["draw 1", "draw 2"]);
    }
}
