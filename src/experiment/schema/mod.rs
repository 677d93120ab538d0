//! The JSON Schema of experiment files, derived from the types that read them: editors use it for completion and validation.
//!
//! `schemars` describes the types. A file may omit keys that a type requires, since it may extend another file or name a
//! preset, and it may give a kind as a string in place of a table. [`schema`] allows both.

mod keys;

use super::Experiment;
use crate::model::preset;
pub use keys::{Key, Section, sections};
use schemars::schema_for;
use serde_json::{Map, Value, json};

/// Returns the schema of an experiment file, JSON Schema 2020-12.
pub fn schema() -> Value {
    let mut schema = schema_for!(Experiment).to_value();
    visit(&mut schema, &mut |table| {
        plain_types(table);
        strip_doc_links(table);
        table.remove("format");
        if table
            .get("required")
            .is_some_and(|keys| *keys != json!(["kind"]))
        {
            table.remove("required");
        }
    });
    let presets: Vec<&str> = preset::names().collect();
    let preset = json!({
        "description": "A named model, whose keys are the defaults of this table.",
        "type": "string",
        "enum": presets,
    });
    for variant in variants_mut(&mut schema["$defs"]["ModelConfig"]) {
        variant["properties"]["preset"] = preset.clone();
    }
    visit(&mut schema, &mut allow_kind_shorthand);
    add_file_keys(&mut schema);
    schema["title"] = "An experiment of Formwork".into();
    schema
}

/// Adds the keys that are processed before a file is read as an experiment.
fn add_file_keys(schema: &mut Value) {
    for (key, other) in [("extends", "base"), ("base", "extends")] {
        schema["properties"][key] = json!({
            "description": format!("The file that this file extends, relative to this one; the same as `{other}`."),
            "type": "string",
        });
    }
    schema["properties"]["unset"] = json!({
        "description": "Keys of the extended files and of the preset that this file removes, by their dotted names.",
        "type": "array",
        "items": { "type": "string" },
    });
}

/// Visits every schema in a schema, innermost first. Defaults are values, not schemas, and the keys of `properties` and `$defs`
/// are names.
fn visit(schema: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(table) => {
            for (key, value) in table.iter_mut() {
                match (key.as_str(), value) {
                    ("default" | "const" | "enum", _) => {}
                    ("properties" | "$defs", Value::Object(named)) => {
                        named.values_mut().for_each(|value| visit(value, change));
                    }
                    (_, value) => visit(value, change),
                }
            }
            change(table);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, change)),
        _ => {}
    }
}

/// Removes null types and defaults, since TOML has no null.
fn plain_types(table: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = table.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            table["type"] = only.clone();
        }
    }
    if table.get("default") == Some(&Value::Null) {
        table.remove("default");
    }
    let Some(Value::Array(any)) = table.get_mut("anyOf") else {
        return;
    };
    any.retain(|one| one["type"] != "null");
    if let [Value::Object(only)] = any.as_slice() {
        let only = only.clone();
        table.remove("anyOf");
        for (key, value) in only {
            table.entry(key).or_insert(value);
        }
    }
}

/// Converts documentation links to plain code words.
fn strip_doc_links(table: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = table.get_mut("description") {
        let joined = text.replace('\n', " ");
        *text = joined.replace("[`", "`").replace("`]", "`");
    }
}

/// The alternatives of a table with kinds; none for another schema.
fn variants_mut(schema: &mut Value) -> impl Iterator<Item = &mut Value> {
    let tagged = is_tagged(&schema["oneOf"]);
    let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    variants.filter(|_| tagged).into_iter().flatten()
}

/// Whether alternatives are distinguished by their `kind`.
fn is_tagged(alternatives: &Value) -> bool {
    let all = alternatives.as_array();
    all.is_some_and(|all| {
        let mut kinds = all.iter().map(|one| &one["properties"]["kind"]["const"]);
        !all.is_empty() && kinds.all(Value::is_string)
    })
}

/// Allows a table with kinds to be given as the kind's name, or without a kind if it is merged over a table that has one.
fn allow_kind_shorthand(table: &mut Map<String, Value>) {
    if !table.get("oneOf").is_some_and(is_tagged) {
        return;
    }
    let Some(Value::Array(mut all)) = table.remove("oneOf") else {
        return;
    };
    let mut names = Vec::new();
    let mut union = Map::new();
    for one in &mut all {
        one["additionalProperties"] = false.into();
        names.push(one["properties"]["kind"]["const"].clone());
        for (key, schema) in one["properties"].as_object().into_iter().flatten() {
            if key != "kind" {
                let alternatives = union
                    .entry(key.clone())
                    .or_insert_with(|| json!({ "anyOf": [] }));
                if let Some(Value::Array(any)) = alternatives.get_mut("anyOf")
                    && !any.contains(schema)
                {
                    any.push(schema.clone());
                }
            }
        }
    }
    all.push(json!({ "description": "Only the kind.", "type": "string", "enum": names }));
    all.push(json!({
        "description": "Keys that override those of another file or of a preset.",
        "type": "object",
        "properties": union,
        "additionalProperties": false,
    }));
    table.insert("anyOf".into(), all.into());
}
