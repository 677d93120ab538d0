//! Detects held-out texts that are also trained on: scores on them say nothing about new data.

use super::tables::Row;
use crate::data::PerSplit;
use std::collections::HashSet;
use std::path::PathBuf;

/// Returns the message about such texts, with the place of the first one:
/// `3 of 80 texts to validate on, 1 of 40 to test on are trained on as well, the first at a.tsv:7: …`.
pub(super) fn train_overlap_note(rows: &PerSplit<Vec<(PathBuf, Row)>>) -> Option<String> {
    let trained: HashSet<_> = rows.train.iter().map(|(_, row)| texts(row)).collect();
    let (mut parts, mut first) = (Vec::new(), None);
    for (held_out, used) in [(&rows.valid, "validate"), (&rows.test, "test")] {
        let mut shared = held_out
            .iter()
            .filter(|(_, row)| !row.text.trim().is_empty() && trained.contains(&texts(row)))
            .peekable();
        let Some((path, row)) = shared.peek() else {
            continue;
        };
        first.get_or_insert(format!("{}:{}", path.display(), row.line));
        let unit = if parts.is_empty() { " texts" } else { "" };
        let all = held_out.len();
        parts.push(format!("{} of {all}{unit} to {used} on", shared.count()));
    }
    Some(format!(
        "{} are also in the training split, the first at {}: scores on them say nothing about new data",
        parts.join(", "),
        first?
    ))
}

/// Returns the texts of a row that the model reads.
fn texts(row: &Row) -> (&str, Option<&str>) {
    (row.text.trim(), row.pair.as_deref().map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_several_splits_are_counted_whatever_their_labels() {
        let rows = |all: &[(&str, &str)]| {
            let row = |(line, (text, label)): (u64, &(&str, &str))| {
                let row = Row {
                    text: (*text).into(),
                    pair: None,
                    label: (*label).into(),
                    line,
                };
                (PathBuf::from("a.tsv"), row)
            };
            (1..).zip(all).map(row).collect()
        };
        let mut all = PerSplit {
            train: rows(&[("one", "x"), ("two", "y"), ("", "x")]),
            valid: rows(&[("three", "x"), ("two ", "x"), ("", "x")]),
            test: rows(&[("one", "x")]),
        };
        assert_eq!(
            train_overlap_note(&all).unwrap(),
            "1 of 3 texts to validate on, 1 of 1 to test on are also in the training split, the first at a.tsv:2: scores on them say \
             nothing about new data"
        );
        all.train.clear();
        assert_eq!(train_overlap_note(&all), None);
    }
}
