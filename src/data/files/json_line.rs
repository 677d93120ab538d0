//! Parses a line of JSON that holds an object, for tables whose rows are lines.
//!
//! A duplicate key of the object is an error: JSON leaves open which of the two counts (RFC 8259, section 4),
//! and otherwise the last one would silently win. Nested objects are not checked.

use super::packed;
use crate::error::{shell_word, suggestion};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::{Map, Value};
use std::fmt;
use std::path::Path;

/// Returns the object of a line.
///
/// # Errors
/// As a clause that says why the line is not an object.
pub(in crate::data) fn object(line: &str) -> Result<Map<String, Value>, String> {
    let read: Result<Object, serde_json::Error> = serde_json::from_str(line);
    read.map(|object| object.0).map_err(|error| {
        let begun = line.trim_start();
        match error.classify() {
            Category::Data if is_array_of_objects(begun) => {
                "a JSON array, but JSON lines have one object per line; jq -c '.[]' FILE converts an array".into()
            }
            Category::Data if !begun.starts_with('{') => "not a JSON object".into(),
            // The position in serde_json's message counts lines within this line.
            Category::Data => {
                let said = error.to_string();
                said.rsplit_once(" at line ").map_or(said.clone(), |(why, _)| why.to_string())
            }
            Category::Io | Category::Syntax | Category::Eof => format!("not JSON: {error}"),
        }
    })
}

/// Returns the value of a field; `a.b` also means field `b` of the object `a`, as columns of tables are
/// named.
pub(in crate::data) fn nested_field<'a>(
    object: &'a Map<String, Value>,
    name: &str,
) -> Option<&'a Value> {
    object.get(name).or_else(|| {
        name.match_indices('.').find_map(|(point, _)| {
            match object.get(&name[..point])? {
                Value::Object(inner) => nested_field(inner, &name[point + 1..]),
                // Null has no fields, like a row without the struct.
                nothing @ Value::Null => Some(nothing),
                _ => None,
            }
        })
    })
}

/// Returns the clause for a field that an object lacks, with the nearest existing one.
pub(in crate::data) fn missing_field(object: &Map<String, Value>, name: &str) -> String {
    let all = names(object);
    let hint = suggestion(name, all.iter().map(String::as_str));
    format!("no field `{name}`{hint}")
}

/// Returns the names of all fields; fields of nested objects are joined with a point.
fn names(object: &Map<String, Value>) -> Vec<String> {
    let each = object.iter().flat_map(|(key, value)| match value {
        Value::Object(inner) if !inner.is_empty() => {
            let inner = names(inner).into_iter();
            inner.map(|name| format!("{key}.{name}")).collect()
        }
        _ => vec![key.clone()],
    });
    each.collect()
}

/// Returns the fault of a file whose name ends in `.json`, which is usually a single array, if nothing else
/// tells its format.
pub(in crate::data) fn fault(path: &Path) -> Option<String> {
    packed::plain_name(path).ends_with(".json").then(|| {
        format!(
            "[data] {}: JSON is read as lines, one object per line (.jsonl); convert an array with jq -c '.[]' {}, \
             or set format = \"jsonl\" if the file has such lines",
            path.display(),
            shell_word(path)
        )
    })
}

/// Whether a line begins an array of objects, which may continue on the next lines.
fn is_array_of_objects(line: &str) -> bool {
    let inside = line.strip_prefix('[').map(str::trim_start);
    inside.is_some_and(|inside| inside.is_empty() || inside.starts_with('{'))
}

/// An object without duplicate keys.
struct Object(Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Object;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
                let mut object = Map::new();
                while let Some((key, value)) = entries.next_entry::<String, Value>()? {
                    if object.contains_key(&key) {
                        return Err(de::Error::custom(format_args!(
                            "the object has the key `{key}` twice; remove one of them"
                        )));
                    }
                    object.insert(key, value);
                }
                Ok(Object(object))
            }
        }
        deserializer.deserialize_any(Keys)
    }
}

#[cfg(test)]
mod tests {
    use super::{missing_field, nested_field, object};

    #[test]
    fn an_object_is_told_from_what_is_none() {
        let why = |line: &str| object(line).err().unwrap_or_default();
        assert_eq!(why(r#"{"a": 1, "b": {"a": [2]}}"#), "");
        assert_eq!(
            why(r#"{"a": 1, "b": 2, "a": 1}"#),
            "the object has the key `a` twice; remove one of them"
        );
        for line in ["3", "[1]", "\"a\"", "null", "[\"a\"]"] {
            assert_eq!(why(line), "not a JSON object", "{line}");
        }
        for line in ["[", "[ {\"a\": 1},", "[{\"a\": 1}]"] {
            assert!(why(line).starts_with("a JSON array"), "{line}");
        }
        for line in ["{", "{\"a\": }", "words", "{\"a\": 1} 2", ""] {
            assert!(why(line).starts_with("not JSON: "), "{line}");
        }
    }

    #[test]
    fn a_field_is_found_under_its_whole_name_or_inside_of_objects() {
        let line = r#"{"a": {"b": 1, "c.d": {"e": 2}}, "a.b": 3, "n": null, "s": {}}"#;
        let object = object(line).unwrap();
        let found = |name: &str| nested_field(&object, name).map(ToString::to_string);
        for (name, value) in [
            ("a.b", Some("3")),
            ("a.c.d.e", Some("2")),
            ("n.x", Some("null")),
            ("a.x", None),
            ("a.b.c", None),
            ("s.x", None),
            ("x", None),
        ] {
            assert_eq!(found(name).as_deref(), value, "{name}");
        }
        let told = missing_field(&object, "a.c.d.f");
        assert_eq!(told, "no field `a.c.d.f`; did you mean `a.c.d.e`?");
        let told = missing_field(&object, "source");
        assert!(told.contains("allowed: `a.b`"), "{told}");
        assert!(told.contains("`s`"), "{told}");
    }
}
