//! A column of a table in an experiment file: a number from 1, or a name.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A column by its number, counted from 1, or its name.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Column {
    /// Column number, counted from 1.
    Number(usize),
    /// Column name as in the header, or a field of a JSON object.
    Name(String),
}

impl Column {
    /// Returns the column as it is written as the value of a key.
    pub(super) fn key_value(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Name(name) => format!("{name:?}"),
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => write!(f, "`{name}`"),
        }
    }
}

impl Serialize for Column {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => number.serialize(serializer),
            Self::Name(name) => name.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Column {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct NumberOrName;
        impl Visitor<'_> for NumberOrName {
            type Value = Column;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a column's number, counted from 1, or its name")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> std::result::Result<Column, E> {
                Ok(Column::Number(number as usize))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> std::result::Result<Column, E> {
                let unexpected = de::Unexpected::Signed(number);
                usize::try_from(number)
                    .map(Column::Number)
                    .map_err(|_| E::invalid_value(unexpected, &self))
            }
            fn visit_str<E: de::Error>(self, name: &str) -> std::result::Result<Column, E> {
                Ok(Column::Name(name.to_owned()))
            }
        }
        deserializer.deserialize_any(NumberOrName)
    }
}
