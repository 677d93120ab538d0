//! The JSON Schema of experiment files, from the types that read them: what editors complete and check by.
//!
//! `schemars` describes the types. A file may say less than a type needs, since it may extend another one or name a preset;
//! and it may say a kind as a word in place of a table. [`schema`] allows both.

mod keys;

use super::Experiment;
use crate::model::preset;
pub use keys::{Key, Section, sections};
use schemars::schema_for;
use serde_json::{Map, Value, json};

/// The schema of an experiment file, JSON Schema 2020-12.
pub fn schema() -> Value {
    let mut schema = schema_for!(Experiment).to_value();
    visit(&mut schema, &mut |table| {
        plain_types(table);
        words(table);
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
        "description": "A named model; its keys stand below those of this table.",
        "type": "string",
        "enum": presets,
    });
    for variant in variants_mut(&mut schema["$defs"]["ModelConfig"]) {
        variant["properties"]["preset"] = preset.clone();
    }
    visit(&mut schema, &mut tagged);
    extending(&mut schema);
    schema["title"] = "An experiment of Formwork".into();
    schema
}

/// Adds the keys that a file is read by before it is an experiment.
fn extending(schema: &mut Value) {
    for (key, other) in [("extends", "base"), ("base", "extends")] {
        schema["properties"][key] = json!({
            "description": format!("The file that this one is laid over, beside it; the same as `{other}`."),
            "type": "string",
        });
    }
    schema["properties"]["unset"] = json!({
        "description": "Keys of the files and the preset below that this file takes out, by their dotted names.",
        "type": "array",
        "items": { "type": "string" },
    });
}

/// Every schema in a schema, from within outwards. Defaults are values, and the tables of properties and definitions have
/// names for keys.
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

/// TOML has no null: a value that may be absent has its type alone.
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

/// Links of the program's own documentation are words here.
fn words(table: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = table.get_mut("description") {
        let joined = text.replace('\n', " ");
        *text = joined.replace("[`", "`").replace("`]", "`");
    }
}

/// The alternatives of a table with a kind; none for another schema.
fn variants_mut(schema: &mut Value) -> impl Iterator<Item = &mut Value> {
    let tagged = is_tagged(&schema["oneOf"]);
    let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    variants.filter(|_| tagged).into_iter().flatten()
}

/// Whether alternatives are told apart by their `kind`.
fn is_tagged(alternatives: &Value) -> bool {
    let all = alternatives.as_array();
    all.is_some_and(|all| {
        let mut kinds = all.iter().map(|one| &one["properties"]["kind"]["const"]);
        !all.is_empty() && kinds.all(Value::is_string)
    })
}

/// A table with a kind may be the kind's name alone; without one, it is laid over a table that has one.
fn tagged(table: &mut Map<String, Value>) {
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
    all.push(json!({ "description": "The kind alone.", "type": "string", "enum": names }));
    all.push(json!({
        "description": "Keys that are laid over those of another file, or of a preset.",
        "type": "object",
        "properties": union,
        "additionalProperties": false,
    }));
    table.insert("anyOf".into(), all.into());
}
