//! A column or field in an experiment file: a name, or a number from 1.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A column or field of a table.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Field {
    /// Column number, counted from 1.
    Column(usize),
    /// Field of JSONL, or column named in the first line of a TSV file.
    Name(String),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Column(number) => number.serialize(serializer),
            Self::Name(name) => name.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrNumber;
        impl Visitor<'_> for NameOrNumber {
            type Value = Field;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a field or the number of a column, counted from 1")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Field, E> {
                Ok(Field::Name(name.to_owned()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Field, E> {
                let place = usize::try_from(number).ok().filter(|n| *n > 0);
                place
                    .map(Field::Column)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Field, E> {
                self.visit_i64(i64::try_from(number).unwrap_or(0))
            }
        }
        deserializer.deserialize_any(NameOrNumber)
    }
}
