//! How tables write the classes of a text that may have any number of them.

use crate::data::files::columnar::Cell;
use crate::error::Result;
use serde_json::Value;

/// Separator of the classes of a row in memory, instead of the file's separator.
const CLASS_SEPARATOR: char = '\u{1f}';

/// Where the classes of a row are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::data) enum MultiLabelColumns {
    /// In one cell: a list, or words with this separator.
    Listed(String),
    /// In the columns of these names, each with 1 if the row has the class.
    Indicators(Vec<String>),
}

impl MultiLabelColumns {
    /// Converts the classes of a cell to their form in memory.
    pub(super) fn of_cell(&self, cell: &str) -> String {
        match self {
            Self::Listed(separator) => joined(cell.split(separator.as_str())),
            Self::Indicators(_) => cell.into(),
        }
    }

    /// Converts the classes of a cell of a columnar table.
    pub(super) fn of_cells(&self, cell: Cell) -> String {
        match cell {
            Cell::Missing => String::new(),
            Cell::Text(text) => self.of_cell(&text),
            Cell::Texts(all) => joined(all.iter().map(String::as_str)),
        }
    }

    /// Converts the classes of a JSON value; `None` if it does not hold classes.
    pub(super) fn of_json(&self, value: &Value) -> Option<String> {
        let one = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        match value {
            Value::Null => Some(String::new()),
            Value::Array(all) => {
                let all: Vec<String> = all.iter().map(one).collect::<Option<_>>()?;
                Some(joined(all.iter().map(String::as_str)))
            }
            value => one(value).map(|text| self.of_cell(&text)),
        }
    }

    /// Returns, in their form in memory, the names of the indicators whose cells are true.
    ///
    /// # Errors
    /// As a clause: if a cell is neither true nor false.
    pub(super) fn of_indicators<'a>(
        cells: impl Iterator<Item = (&'a str, String)>,
    ) -> std::result::Result<String, String> {
        let mut names = Vec::new();
        for (name, cell) in cells {
            match cell.trim().to_ascii_lowercase().as_str() {
                "1" | "1.0" | "true" => names.push(name),
                "0" | "0.0" | "false" => {}
                _ => {
                    return Err(format!(
                        "column `{name}` contains `{}`; an indicator must be 1 if the text has the class, and 0 if not",
                        cell.trim()
                    ));
                }
            }
        }
        Ok(joined(names.into_iter()))
    }
}

fn joined<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let parts: Vec<&str> = parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(&CLASS_SEPARATOR.to_string())
}

/// Returns the classes of a row in memory.
pub(in crate::data) fn parts(row: &str) -> impl Iterator<Item = &str> {
    row.split(CLASS_SEPARATOR).filter(|part| !part.is_empty())
}

/// Returns a row with each of its classes replaced by `of`.
///
/// # Errors
/// As for `of`.
pub(super) fn each(row: &str, of: impl Fn(&str) -> Result<String>) -> Result<String> {
    let all = parts(row).map(of).collect::<Result<Vec<String>>>()?;
    Ok(joined(all.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(row: Option<String>) -> Vec<String> {
        let row = row.unwrap();
        parts(&row).map(str::to_owned).collect()
    }

    #[test]
    fn cells_and_lists_hold_any_number_of_classes() {
        let listed = MultiLabelColumns::Listed(";".into());
        assert_eq!(
            read(Some(listed.of_cell("joy; old love;"))),
            ["joy", "old love"]
        );
        assert!(read(Some(listed.of_cell(" "))).is_empty());
        assert_eq!(read(listed.of_json(&json!(["a, b", 3]))), ["a, b", "3"]);
        assert_eq!(read(listed.of_json(&json!("x;y"))), ["x", "y"]);
        assert!(read(listed.of_json(&Value::Null)).is_empty());
        assert_eq!(listed.of_json(&json!([["a"]])), None);
    }

    #[test]
    fn indicators_are_one_or_zero() {
        let cells = |values: [&str; 2]| {
            let cells = ["a", "b"].into_iter().zip(values.map(String::from));
            MultiLabelColumns::of_indicators(cells)
        };
        assert_eq!(read(cells(["1", " True"]).ok()), ["a", "b"]);
        assert!(read(cells(["0", "0.0"]).ok()).is_empty());
        assert!(
            cells(["0", "-1"])
                .unwrap_err()
                .contains("`b` contains `-1`")
        );
    }
}
