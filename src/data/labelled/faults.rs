//! Faults of the keys of `kind = "labelled_text"`.

use super::LabelledTextConfig;
use super::column::Column;
use super::header::Header;
use crate::data::Split;

impl LabelledTextConfig {
    /// Whether the tables of some split have no header.
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

    pub(super) fn column_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let layout = self.layout(Split::Train);
        let answer = if self.score.is_some() {
            "score"
        } else {
            "label"
        };
        let columns = [
            ("text", Some(&layout.text)),
            ("pair", layout.pair.as_ref()),
            (answer, Some(&layout.label)),
        ];
        for (i, (key, column)) in columns.iter().enumerate() {
            let Some(column) = column else { continue };
            match column {
                Column::Name(_) if !self.is_named() && self.lacks_header() => faults.push(format!(
                    "[data] {key} = {column} is a name, and without a header columns have numbers; set header = true \
                     when the first line names them"
                )),
                Column::Number(_) if self.is_named() => faults.push(format!(
                    "[data] {key} = {column} is a number, and the fields of JSON lines, Parquet and Arrow have names"
                )),
                Column::Number(0) => faults.push(format!("[data] {key} = 0: columns count from 1")),
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
                    "[data] header names {0}, and there is no {0}_path whose tables could have one",
                    split.name()
                ));
            }
        }
        if self.is_named() && (!self.header.is_nowhere() || self.quoting.is_some()) {
            faults.push(
                "[data] header and quoting have no effect on JSON lines, Parquet and Arrow; leave them out"
                    .into(),
            );
        }
        faults
    }

    /// Faults of a number in the place of a class.
    pub(super) fn score_faults(&self) -> Vec<String> {
        if self.score.is_none() {
            return Vec::new();
        }
        let beside = [
            ("label", self.label.is_some()),
            ("classes", !self.classes.is_empty()),
            ("join", self.join),
        ];
        let beside = beside.iter().filter(|(_, given)| *given);
        let fault = |(key, _): &(&str, bool)| {
            format!(
                "[data] {key} has no effect beside score: a text has a number in place of a class; leave one of them out"
            )
        };
        beside.map(fault).collect()
    }
}
