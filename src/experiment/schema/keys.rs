//! The keys of experiment files in readable form, derived from the schema.

use super::{add_file_keys, is_tagged, plain_types, strip_doc_links, visit};
use crate::experiment::Experiment;
use schemars::schema_for;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::LazyLock;

/// A key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name of the key.
    pub name: String,
    /// Type of the key, in words.
    pub wanted: String,
    /// Default value in TOML syntax, if it has one.
    pub default: Option<String>,
    /// Meaning of the key.
    pub meaning: String,
    /// The paper it comes from, if any.
    pub source: Option<String>,
}

/// The keys of a table, or of one kind of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The table's dotted name, with `[]` after a list of tables: `model.layers[].attention`.
    pub path: String,
    /// Other places where the same table can occur.
    pub other_paths: Vec<String>,
    /// The kind that has these keys, if the table has kinds.
    pub kind: Option<String>,
    /// Meaning of the table or kind.
    pub meaning: String,
    /// Keys of the table, without `kind`.
    pub keys: Vec<Key>,
}

/// Returns all tables of an experiment file, each once, in the order of the file.
pub fn sections() -> &'static [Section] {
    static ALL: LazyLock<Vec<Section>> = LazyLock::new(from_schema);
    &ALL
}

fn from_schema() -> Vec<Section> {
    let mut root = schema_for!(Experiment).to_value();
    visit(&mut root, &mut |table| {
        plain_types(table);
        strip_doc_links(table);
    });
    add_file_keys(&mut root);
    let mut walk = SchemaWalker {
        definitions: root["$defs"].take(),
        seen: Vec::new(),
        sections: Vec::new(),
        waiting: VecDeque::new(),
    };
    walk.table("", &root, &Value::Null);
    // Breadth first, so that a table is listed at its shortest path.
    while let Some((path, schema, default)) = walk.waiting.pop_front() {
        walk.visit_value(&path, &schema, &default);
    }
    let order: Vec<Key> = walk.sections[0].keys.clone();
    let paths: Vec<String> = walk.sections.iter().map(|s| s.path.clone()).collect();
    let place = |section: &Section| {
        let first = section.path.split(['.', '[']).next().unwrap_or_default();
        // All kinds of a table are kept together, whichever types they have.
        let same = paths.iter().position(|path| *path == section.path);
        (order.iter().position(|key| key.name == first), same)
    };
    walk.sections.sort_by_key(place);
    walk.sections
}

struct SchemaWalker {
    definitions: Value,
    /// Definitions that have sections, by name, with the index range of these sections.
    seen: Vec<(String, Range<usize>)>,
    sections: Vec<Section>,
    /// Values that may hold tables and are still to be visited: path, schema and default.
    waiting: VecDeque<(String, Value, Value)>,
}

impl SchemaWalker {
    /// Adds the sections of the table at `path`, and queues the values in it.
    fn table(&mut self, path: &str, schema: &Value, default: &Value) {
        let (definition, schema) = self.resolved(schema);
        let meaning = text(&schema, "description");
        let tables = match is_tagged(&schema["oneOf"]) {
            true => schema["oneOf"].as_array().cloned().unwrap_or_default(),
            false => vec![schema.clone()],
        };
        if let Some(name) = definition {
            if let Some((_, own)) = self.seen.iter().find(|(seen, _)| *seen == name) {
                let same = self.sections[own.clone()].iter_mut();
                same.for_each(|section| section.other_paths.push(path.into()));
                return;
            }
            let from = self.sections.len();
            self.seen.push((name, from..from + tables.len()));
        }
        let mut below = Vec::new();
        for table in &tables {
            let kind = table["properties"]["kind"]["const"].as_str();
            let own = table["properties"].as_object().cloned().unwrap_or_default();
            let defaults = if kind.is_none() || default["kind"].as_str() == kind {
                default.clone()
            } else {
                Value::Null
            };
            self.sections.push(Section {
                path: path.into(),
                other_paths: Vec::new(),
                kind: kind.map(Into::into),
                meaning: match kind {
                    Some(_) => text(table, "description"),
                    None => meaning.clone(),
                },
                keys: self.keys(&own, &defaults),
            });
            for (name, schema) in own {
                let place = if path.is_empty() {
                    name
                } else {
                    format!("{path}.{name}")
                };
                // Two kinds may have tables of different types under the same name.
                let is_known = |(known, other, _): &(String, Value, Value)| {
                    *known == place && other["$ref"] == schema["$ref"]
                };
                if !below.iter().any(is_known) {
                    let value = schema["default"].clone();
                    below.push((place, schema, value));
                }
            }
        }
        self.waiting.extend(below);
    }

    /// Visits the tables in a value.
    fn visit_value(&mut self, path: &str, schema: &Value, default: &Value) {
        let (_, whole) = self.resolved(schema);
        if whole["properties"].is_object() || is_tagged(&whole["oneOf"]) {
            self.table(path, schema, default);
        } else if whole["items"].is_object() {
            self.visit_value(&format!("{path}[]"), &whole["items"], &Value::Null);
        } else if whole["additionalProperties"].is_object() {
            self.visit_value(
                &format!("{path}.NAME"),
                &whole["additionalProperties"],
                &Value::Null,
            );
        }
    }

    fn keys(&self, own: &Map<String, Value>, defaults: &Value) -> Vec<Key> {
        let named = own.iter().filter(|(name, _)| *name != "kind");
        named
            .map(|(name, schema)| {
                let default = defaults.get(name).unwrap_or(&schema["default"]);
                let described = match text(schema, "description") {
                    none if none.is_empty() => text(&self.resolved(schema).1, "description"),
                    own => own,
                };
                let (meaning, source) = match described.split_once(SOURCE) {
                    Some((meaning, source)) => (meaning, Some(source.trim_end_matches('.').into())),
                    None => (described.as_str(), None),
                };
                Key {
                    name: name.clone(),
                    wanted: format!("{}{}", self.type_text(schema), bounds(schema)),
                    default: toml(default),
                    meaning: meaning.into(),
                    source,
                }
            })
            .collect()
    }

    /// A type in words: `whole number`, `"linear" or "constant"`, `list of tables`.
    fn type_text(&self, schema: &Value) -> String {
        let (_, whole) = self.resolved(schema);
        if let Some(values) = whole["enum"].as_array() {
            return join_with_or(values.iter().map(Value::to_string));
        }
        if whole["const"].is_string() {
            return whole["const"].to_string();
        }
        let one = |list: &str| whole[list].as_array().cloned().unwrap_or_default();
        let alternatives = [one("oneOf"), one("anyOf")].concat();
        if is_tagged(&whole["oneOf"]) {
            return "table with a kind, or the kind".into();
        }
        if !alternatives.is_empty() {
            return join_with_or(alternatives.iter().map(|one| self.type_text(one)));
        }
        if let Some(types) = whole["type"].as_array() {
            let each = types.iter().map(|one| json!({ "type": one }));
            return join_with_or(each.map(|one| self.type_text(&one)));
        }
        match whole["type"].as_str() {
            Some("array") => format!("list of {}", several(&self.type_text(&whole["items"]))),
            Some("object") => "table".into(),
            Some("string") => "text".into(),
            Some("boolean") => "true or false".into(),
            Some("integer") => "whole number".into(),
            Some("number") => "number".into(),
            Some(_) | None => "value".into(),
        }
    }

    /// Follows a reference: returns the definition's name and schema, or the schema itself if it is not a reference.
    fn resolved(&self, schema: &Value) -> (Option<String>, Value) {
        let Some(name) = schema["$ref"]
            .as_str()
            .and_then(|path| path.rsplit('/').next())
        else {
            return (None, schema.clone());
        };
        (Some(name.into()), self.definitions[name].clone())
    }
}

/// Separates the meaning from the source in a key's documentation.
const SOURCE: &str = " Source: ";

/// The bounds of a number: `, 1 or more`, `, 1 to 4096`, `, above 0 and below 1`. That a whole number is not negative goes
/// without saying.
fn bounds(schema: &Value) -> String {
    let bound = |key: &str| match &schema[key] {
        Value::Number(n) => n.as_f64().map(plain),
        _ => None,
    };
    let whole = schema["type"] == "integer";
    let least = bound("minimum").filter(|least| !(whole && least == "0"));
    let (most, above, below) = (
        bound("maximum"),
        bound("exclusiveMinimum"),
        bound("exclusiveMaximum"),
    );
    let low = match (&least, &above, &most) {
        (Some(least), _, Some(most)) => return format!(", {least} to {most}"),
        (None, None, Some(most)) => return format!(", at most {most}"),
        (Some(least), _, None) => Some(format!("{least} or more")),
        (None, Some(above), _) => Some(format!("above {above}")),
        (None, None, None) => None,
    };
    let high = most
        .map(|most| format!("at most {most}"))
        .or(below.map(|below| format!("below {below}")));
    let parts: Vec<String> = low.into_iter().chain(high).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(", {}", parts.join(" and ")),
    }
}

/// A number in its shortest notation: `4096`, `1e-37`.
fn plain(x: f64) -> String {
    match x == 0.0 || (1e-4..1e16).contains(&x.abs()) {
        true => x.to_string(),
        false => format!("{x:e}"),
    }
}

fn text(schema: &Value, key: &str) -> String {
    schema[key].as_str().unwrap_or_default().to_string()
}

fn join_with_or(words: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for word in words {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    match all.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => all.concat(),
    }
}

/// A value in TOML syntax on one line; none if it is null.
fn toml(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Object(table) => {
            let entries = table
                .iter()
                .filter_map(|(key, value)| Some(format!("{key} = {}", toml(value)?)));
            match entries.collect::<Vec<_>>() {
                none if none.is_empty() => "{}".into(),
                entries => format!("{{ {} }}", entries.join(", ")),
            }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(toml).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    })
}

/// The plural of a type in words.
fn several(one: &str) -> String {
    match one {
        "table" | "text" | "number" | "whole number" => format!("{one}s"),
        other => other.into(),
    }
}
