//! Deserialises trees into configuration types through serde, and locates every error.
//!
//! Serde loses the location of a value as soon as it is inside a tagged enum. The location is recovered from a property of all
//! derived types: keys are read in order, and the first error ends the reading. So the faulty key is the last one of the
//! shortest prefix of the document that fails in the same way, table by table. This takes a few more deserialisations, but only
//! after an error, and requires nothing of the types.

use super::tree::{Node, Value};
use crate::experiment::Origin;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use std::fmt::{self, Display};

/// Why a tree cannot be deserialised.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reason {
    /// The table has no such key.
    UnknownKey { key: String, allowed: Names },
    /// The string is not one of a list.
    UnknownValue { allowed: Names },
    /// The table lacks a required key.
    Missing(&'static str),
    /// Another type or range is expected; both texts are serde's.
    TypeMismatch { found: String, wanted: String },
    /// A list of another length is expected.
    Length { found: usize, wanted: String },
    /// The message of a type with its own deserialiser.
    Other(String),
}

/// Lists of names in serde's form.
pub(super) type Names = &'static [&'static str];

/// Deserialises a tree. An error comes with the path of its key, or of the table if a key is missing.
///
/// A string in place of a tagged table is that table's kind; such strings are replaced in the tree.
pub(super) fn read<T: DeserializeOwned>(root: &mut Node) -> Result<T, (Vec<String>, Reason)> {
    loop {
        let reason = match T::deserialize(&*root) {
            Ok(value) => return Ok(value),
            Err(reason) => reason,
        };
        let path = locate::<T>(root, &reason);
        let tagged = matches!(&reason, Reason::TypeMismatch { wanted, .. } if wanted.starts_with(TAGGED_ENUM));
        match root.at_mut(&path) {
            Some(node) if tagged && matches!(node.value, Value::String(_)) => node.string_to_kind(),
            _ => return Err((path, reason)),
        }
    }
}

/// Serde's name for a tagged enum when it finds another type.
pub(super) const TAGGED_ENUM: &str = "internally tagged enum";

/// Serde's name for a missing or wrong tag.
pub(super) const TAG: &str = "variant identifier";

/// The kinds that the tagged table at `path` can have.
pub(super) fn kinds<T: DeserializeOwned>(root: &Node, path: &[String]) -> Names {
    let mut root = root.clone();
    let Some((last, parents)) = path.split_last() else {
        return &[];
    };
    if let Some(Node {
        value: Value::Table(table),
        ..
    }) = root.at_mut(parents)
    {
        table.remove(last);
        table.entries.insert(0, (last.clone(), probe()));
    }
    let kind = [path, &["kind".into()]].concat();
    if let Some(node) = root.at_mut(path) {
        node.string_to_kind();
    }
    values::<T>(&root, &kind)
}

/// The strings that are allowed at `path`, taken from serde's error about an impossible one. Empty if any string is allowed.
pub(super) fn values<T: DeserializeOwned>(root: &Node, path: &[String]) -> Names {
    let mut root = root.clone();
    if let Some(node) = root.at_mut(path) {
        *node = probe();
    }
    match T::deserialize(&root) {
        Err(Reason::UnknownValue { allowed }) => allowed,
        _ => &[],
    }
}

/// A value that no key accepts.
fn probe() -> Node {
    Node {
        value: Value::String("\0".into()),
        origin: Origin::Default,
    }
}

/// The path of the key that `reason` is about, or of its table if a key is missing.
fn locate<T: DeserializeOwned>(root: &Node, reason: &Reason) -> Vec<String> {
    let fails = |tree: &Node| T::deserialize(tree).is_err_and(|other| other == *reason);
    let mut tree = root.clone();
    let mut path: Vec<String> = Vec::new();
    while let Some(node) = tree.at(&path).cloned() {
        let prefix = |length: usize| {
            let mut tree = tree.clone();
            if let Some(node) = tree.at_mut(&path) {
                shorten(&mut node.value, length, reason);
            }
            tree
        };
        let all = match (&node.value, reason) {
            (Value::Table(_), Reason::Missing(key)) if lacks::<T>(&tree, &path, key) => break,
            (Value::Array(items), Reason::Length { found, .. }) if items.len() == *found => break,
            (Value::Table(table), _) => table.entries.len(),
            (Value::Array(items), _) => items.len(),
            _ => 0,
        };
        // List items are read one after another, so all prefixes that contain the first faulty item fail alike.
        let first = match node.value {
            Value::Array(_) => bisect(all, |length| fails(&prefix(length))),
            _ => (0..=all).find(|length| fails(&prefix(*length))),
        };
        match first {
            None | Some(0) => break,
            Some(length) => {
                tree = prefix(length);
                path.push(match node.value {
                    Value::Table(table) => table.entries[length - 1].0.clone(),
                    _ => (length - 1).to_string(),
                });
            }
        }
    }
    let about_kind = match reason {
        Reason::UnknownValue { .. } => true,
        Reason::TypeMismatch { wanted, .. } => wanted.as_str() == TAG,
        Reason::UnknownKey { .. }
        | Reason::Missing(_)
        | Reason::Length { .. }
        | Reason::Other(_) => false,
    };
    let table = root.at(&path).and_then(Node::table);
    // A table without kinds refuses the key `kind` at once, however short the prefix is.
    let untagged = matches!(reason, Reason::UnknownKey { key, .. } if key == "kind")
        && table.is_some_and(|table| table.get("kind").is_some());
    if about_kind && table.is_some() || untagged {
        path.push("kind".into());
    }
    path
}

/// The smallest number up to `most` for which `holds` is true, assuming it is true for all larger ones.
fn bisect(most: usize, holds: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low) / 2;
        match holds(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    holds(low).then_some(low)
}

/// Whether `key` is missing from this very table: inserted at the front, it is not refused as unknown.
fn lacks<T: DeserializeOwned>(tree: &Node, path: &[String], key: &str) -> bool {
    let mut tree = tree.clone();
    if let Some(Node {
        value: Value::Table(table),
        ..
    }) = tree.at_mut(path)
    {
        if table.get(key).is_some() {
            return false;
        }
        table.entries.insert(0, (key.into(), probe()));
    }
    let refused = |reason: &Reason| matches!(reason, Reason::UnknownKey { key: k, .. } if k == key);
    !T::deserialize(&tree).is_err_and(|reason| refused(&reason))
}

/// Keeps the first `length` entries of a table or list. A table's `kind` is always kept, since it decides what the other keys
/// mean; so is a key whose absence in a nested table would cause the same error.
fn shorten(value: &mut Value, length: usize, reason: &Reason) {
    let stays =
        |key: &str| key == "kind" || matches!(reason, Reason::Missing(lost) if *lost == key);
    match value {
        Value::Table(table) => {
            let mut at = 0;
            table.entries.retain(|(key, _)| {
                at += 1;
                at <= length || stays(key)
            });
        }
        Value::Array(items) => items.truncate(length),
        _ => {}
    }
}

impl de::Error for Reason {
    fn custom<M: Display>(message: M) -> Self {
        Self::Other(message.to_string())
    }

    fn invalid_type(found: Unexpected, wanted: &dyn de::Expected) -> Self {
        Self::TypeMismatch {
            found: found.to_string(),
            wanted: wanted.to_string(),
        }
    }

    fn invalid_value(found: Unexpected, wanted: &dyn de::Expected) -> Self {
        Self::invalid_type(found, wanted)
    }

    fn invalid_length(found: usize, wanted: &dyn de::Expected) -> Self {
        let wanted = wanted.to_string();
        // Serde's wording for too many items differs from that for too few.
        let length = wanted.strip_suffix(" elements in sequence");
        let length = length.map(|length| format!("an array of length {length}"));
        Self::Length {
            found,
            wanted: length.unwrap_or(wanted),
        }
    }

    fn unknown_variant(_: &str, allowed: Names) -> Self {
        Self::UnknownValue { allowed }
    }

    fn unknown_field(key: &str, allowed: Names) -> Self {
        Self::UnknownKey {
            key: key.into(),
            allowed,
        }
    }

    fn missing_field(key: &'static str) -> Self {
        Self::Missing(key)
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Reason {}

impl<'de> IntoDeserializer<'de, Reason> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Reason;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        match &self.value {
            Value::Table(table) => visitor.visit_map(MapDeserializer::new(
                table.entries.iter().map(|(key, node)| (key.as_str(), node)),
            )),
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.iter())),
            Value::String(s) => visitor.visit_str(s),
            Value::Integer(i) => visitor.visit_i64(*i),
            Value::Float(f) => visitor.visit_f64(*f),
            Value::Boolean(b) => visitor.visit_bool(*b),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Reason> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Reason> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: Names,
        visitor: V,
    ) -> Result<V::Value, Reason> {
        match &self.value {
            Value::String(s) => visitor.visit_enum(s.as_str().into_deserializer()),
            _ => Err(de::Error::invalid_type(
                Unexpected::Other("another type"),
                &"a string",
            )),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}
