//! One path or several: a string or a list in an experiment file.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One or several paths as written in an experiment file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths(pub Vec<PathBuf>);

impl Paths {
    /// Returns each path with the key that names them all.
    pub(in crate::data) fn keyed<'a>(
        &'a self,
        key: &'static str,
    ) -> impl Iterator<Item = (&'static str, &'a Path)> {
        self.0.iter().map(move |path| (key, path.as_path()))
    }

    /// Returns the same paths, each replaced by `place(path)`.
    pub(in crate::data) fn placed(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        Self(self.0.iter().map(|path| place(path)).collect())
    }
}

/// Schema of one path or a list of paths.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
enum Form {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

impl JsonSchema for Paths {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Paths".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Form::json_schema(generator)
    }
}

impl Serialize for Paths {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Paths;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path or a list of paths")
            }
            fn visit_str<E: de::Error>(self, path: &str) -> std::result::Result<Paths, E> {
                Ok(Paths(vec![path.into()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Paths, A::Error> {
                let mut paths = Vec::new();
                while let Some(path) = list.next_element()? {
                    paths.push(path);
                }
                Ok(Paths(paths))
            }
        }
        deserializer.deserialize_any(OneOrMore)
    }
}
