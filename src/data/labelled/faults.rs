//! Faults of the keys of `kind = "labelled_text"`.

use super::LabelledTextConfig;
use super::column::Column;
use super::header::Header;
use super::tables::Format;
use crate::data::Split;
use crate::data::files::{columnar, json_line};
use std::collections::BTreeSet;
use std::path::Path;

impl LabelledTextConfig {
    /// Whether the tables of any split have no header.
    fn lacks_header(&self) -> bool {
        let tables = [
            (Split::Train, true),
            (Split::Valid, self.valid_path.is_some()),
            (Split::Test, self.test_path.is_some()),
        ];
        tables
            .into_iter()
            .any(|(split, read)| read && !self.header.is_in(split))
    }

    /// Returns the first path; an empty one if there is none.
    fn first(&self) -> &Path {
        let first = self.path.0.first();
        first.map_or(Path::new(""), |path| path.as_path())
    }

    /// Whether the format of the tables is given by the first path or by a key; in a folder each file tells
    /// it.
    fn has_format(&self) -> bool {
        let first = self.first();
        self.format.is_some() || columnar::is_columnar(first) || Format::of(first).is_some()
    }

    pub(super) fn column_faults(&self) -> Vec<String> {
        let first = self.path.0.first().filter(|_| self.format.is_none());
        if let Some(fault) = first.and_then(|path| json_line::fault(path)) {
            // Nothing is known about the columns of such a file.
            return vec![fault];
        }
        let mut faults = Vec::new();
        let first = self.first();
        let (layout, answer) = (self.layout(Split::Train, first), self.answer_key());
        let (said, named) = (self.has_format(), self.names_fields(first));
        if columnar::is_columnar(first) && self.format.is_some() {
            faults.push("[data] format has no effect on Parquet and Arrow; remove it".into());
        }
        let columns = [
            ("text", Some(&layout.text)),
            ("pair", layout.pair.as_ref()),
            (answer, self.indicators.is_empty().then_some(&layout.label)),
        ];
        for (i, (key, column)) in columns.iter().enumerate() {
            let Some(column) = column else { continue };
            match column {
                Column::Name(_) if said && !named && self.lacks_header() => faults.push(format!(
                    "[data] {key} = {column} is a name, but without a header columns have numbers; set header = true \
                     if the first line names them"
                )),
                Column::Number(_) if named => faults.push(format!(
                    "[data] {key} = {column} is a number, but the fields of JSON lines, Parquet and Arrow have names; use a name"
                )),
                Column::Number(0) => faults.push(format!("[data] {key} = 0 must be at least 1: columns count from 1")),
                Column::Number(_) | Column::Name(_) => {}
            }
            if let Some((other, _)) = columns[..i].iter().find(|(_, c)| *c == Some(*column)) {
                faults.push(format!(
                    "[data] {other} and {key} are the same column, {column}"
                ));
            }
        }
        for (split, path) in [
            (Split::Valid, &self.valid_path),
            (Split::Test, &self.test_path),
        ] {
            if path.is_none() && matches!(&self.header, Header::Of(all) if all.contains(&split)) {
                faults.push(format!(
                    "[data] header names the {0} split, but {0}_path is not set, so there is no table with a header",
                    split.name()
                ));
            }
        }
        if named && (!self.header.is_nowhere() || self.quoting.is_some()) {
            faults.push(
                "[data] header and quoting have no effect on JSON lines, Parquet and Arrow; remove them"
                    .into(),
            );
        }
        faults
    }

    /// Faults of the keys for a number, or for any number of classes, instead of one class.
    pub(super) fn answer_faults(&self) -> Vec<String> {
        let several = "a text has any number of classes instead of one";
        let found = match (&self.score, &self.labels, self.indicators.is_empty()) {
            (Some(_), ..) => Some(("score", "a text has a number instead of a class")),
            (None, Some(_), _) => Some(("labels", several)),
            (None, None, false) => Some(("indicators", several)),
            (None, None, true) => None,
        };
        let beside = [
            ("label", self.label.is_some(), found.is_some()),
            ("labels", self.labels.is_some(), self.score.is_some()),
            (
                "indicators",
                !self.indicators.is_empty(),
                self.score.is_some() || self.labels.is_some(),
            ),
            (
                "classes",
                !self.classes.is_empty(),
                self.score.is_some() || !self.indicators.is_empty(),
            ),
            ("join", self.join, found.is_some()),
        ];
        let beside = beside.iter().filter(|(_, given, idle)| *given && *idle);
        let fault = |(key, ..): &(&str, bool, bool)| {
            let (answer, why) = found.unwrap_or_default();
            format!("[data] {key} has no effect beside {answer}: {why}; remove one of them")
        };
        let mut faults: Vec<String> = beside.map(fault).collect();
        faults.extend(self.several_faults());
        faults
    }

    fn several_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        match &self.label_separator {
            Some(_) if self.labels.is_none() => {
                faults
                    .push("[data] label_separator has no effect without labels; remove it".into());
            }
            Some(separator) if separator.is_empty() => {
                faults.push(
                    "[data] label_separator = \"\" must not be empty; use for example a comma"
                        .into(),
                );
            }
            Some(_) | None => {}
        }
        let different: BTreeSet<&String> = self.indicators.iter().collect();
        if different.len() < self.indicators.len() || self.indicators.len() == 1 {
            faults
                .push("[data] indicators must contain at least two columns, each only once".into());
        }
        let numbered = self.has_format() && !self.names_fields(self.first());
        if !self.indicators.is_empty() && numbered && self.lacks_header() {
            faults.push(
                "[data] indicators are names of columns; set header = true if the first line names them"
                    .into(),
            );
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Paths;

    fn of(path: &str, format: Option<Format>, text: Option<&str>) -> String {
        let config = LabelledTextConfig {
            path: Paths(vec![path.into()]),
            format,
            text: text.map(|name| Column::Name(name.into())),
            ..LabelledTextConfig::default()
        };
        config.column_faults().join("; ")
    }

    #[test]
    fn the_files_of_a_folder_say_whether_columns_have_names() {
        assert_eq!(of("hub", None, Some("sentence")), "");
        assert_eq!(of("a.jsonl", None, Some("sentence")), "");
        let named = of("a.csv", None, Some("sentence"));
        assert!(named.contains("set header = true"), "{named}");
    }

    #[test]
    fn keys_and_files_of_other_forms_are_told() {
        let idle = of("a.parquet", Some(Format::Csv), None);
        assert!(
            idle.contains("format has no effect on Parquet and Arrow"),
            "{idle}"
        );
        let array = of("my data/a.json", None, None);
        assert!(array.contains("jq -c '.[]' 'my data/a.json'"), "{array}");
    }
}
