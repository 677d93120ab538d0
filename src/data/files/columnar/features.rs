//! What Hugging Face's `datasets` says of the columns of a table: JSON under the key `huggingface` of the file's metadata,
//! `{"info": {"features": {"label": {"_type": "ClassLabel", "names": ["cat", "dog"]}}}}`.

use arrow_schema::Schema;
use serde_json::Value;

/// The columns of a file and their features.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// The names of the columns, those inside structs with a point.
    pub columns: Vec<String>,
    /// The names of the columns, structs as one.
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

    /// The names of the classes that the whole numbers of a column stand for.
    pub fn classes(&self, column: &str) -> Option<Vec<String>> {
        names(self.features.get(column)?)
    }

    /// The same of the whole numbers in the lists of a column.
    pub fn classes_of_lists(&self, column: &str) -> Option<Vec<String>> {
        names(self.features.get(column)?.get("feature")?)
    }

    /// The columns with a feature of this type, `Image` or `ClassLabel`.
    pub fn of_type(&self, kind: &str) -> Vec<String> {
        let features = self.features.as_object().into_iter().flatten();
        let found = features.filter(|(_, feature)| feature["_type"] == kind);
        found.map(|(name, _)| name.clone()).collect()
    }

    /// The name of the class that a label stands for.
    ///
    /// # Errors
    /// A label that stands for none; a clause that follows the row.
    pub fn class<'a>(names: &'a [String], label: &str) -> Result<&'a str, String> {
        let at = label.parse::<usize>().ok();
        at.and_then(|at| names.get(at)).map(String::as_str).ok_or_else(|| {
            let hint = match label {
                "-1" => "; Hugging Face writes -1 where a row has none, as in the test splits of benchmarks",
                _ => "",
            };
            format!(
                "has the label {label}, and its column has the classes 0 to {}{hint}",
                names.len() - 1
            )
        })
    }
}

/// The names of the classes of a feature.
fn names(feature: &Value) -> Option<Vec<String>> {
    let names = feature.get("names")?.as_array()?;
    let names = names.iter().map(|name| name.as_str().map(str::to_owned));
    names.collect::<Option<Vec<_>>>().filter(|n| !n.is_empty())
}
