//! What Hugging Face's `datasets` stores about the columns of a table: JSON under the key `huggingface` of
//! the file's metadata, `{"info": {"features": {"label": {"_type": "ClassLabel", "names": ["cat",
//! "dog"]}}}}`.

use arrow_schema::Schema;
use serde_json::Value;

/// The columns of a file and their features.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// Names of the columns; fields of structs are joined with a point.
    pub columns: Vec<String>,
    /// Names of the top-level columns.
    pub roots: Vec<String>,
    features: Value,
}

impl Features {
    pub(super) fn of(schema: &Schema) -> Self {
        let said = schema.metadata().get("huggingface");
        let said: Value = said
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        Self {
            columns: super::names(schema.fields()),
            roots: schema.fields().iter().map(|f| f.name().clone()).collect(),
            features: said["info"]["features"].clone(),
        }
    }

    /// Returns the class names that the integers of a column stand for.
    pub fn classes(&self, column: &str) -> Option<Vec<String>> {
        names(self.features.get(column)?)
    }

    /// Returns the class names for a column of lists of integers.
    pub fn classes_of_lists(&self, column: &str) -> Option<Vec<String>> {
        names(self.features.get(column)?.get("feature")?)
    }

    /// Returns the columns with a feature of this type, such as `Image` or `ClassLabel`.
    pub fn of_type(&self, kind: &str) -> Vec<String> {
        let features = self.features.as_object().into_iter().flatten();
        let found = features.filter(|(_, feature)| feature["_type"] == kind);
        found.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the name of the class that a label stands for.
    ///
    /// # Errors
    /// If the label is no class number; the message is a clause that follows the row.
    pub fn class<'a>(names: &'a [String], label: &str) -> Result<&'a str, String> {
        let at = label.parse::<usize>().ok();
        at.and_then(|at| names.get(at)).map(String::as_str).ok_or_else(|| {
            let hint = match label {
                "-1" => "; Hugging Face writes -1 for rows without a label, as in the test splits of benchmarks",
                _ => "",
            };
            format!(
                "has the label {label}, but the classes of its column are 0 to {}{hint}",
                names.len() - 1
            )
        })
    }
}

/// Returns the class names of a feature.
fn names(feature: &Value) -> Option<Vec<String>> {
    let names = feature.get("names")?.as_array()?;
    let names = names.iter().map(|name| name.as_str().map(str::to_owned));
    names.collect::<Option<Vec<_>>>().filter(|n| !n.is_empty())
}
