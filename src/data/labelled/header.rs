//! Which tables begin with a header line: all, none, or those of some splits.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::data::Split;

/// `true`, `false`, or a list such as `["train"]` for only the tables of `path`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Header {
    /// All tables, or none.
    All(bool),
    /// The tables of these splits.
    Of(Vec<Split>),
}

impl Header {
    /// Whether the tables of a split have a header.
    pub fn is_in(&self, split: Split) -> bool {
        match self {
            Self::All(on) => *on,
            Self::Of(splits) => splits.contains(&split),
        }
    }

    /// Whether no table has a header.
    pub fn is_nowhere(&self) -> bool {
        !Split::ALL.into_iter().any(|split| self.is_in(split))
    }
}

impl Serialize for Header {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All(on) => on.serialize(serializer),
            Self::Of(splits) => splits.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OnOrSplits;
        impl<'de> Visitor<'de> for OnOrSplits {
            type Value = Header;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a list of splits (\"train\", \"valid\", \"test\")")
            }
            fn visit_bool<E: de::Error>(self, on: bool) -> Result<Header, E> {
                Ok(Header::All(on))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Header, A::Error> {
                let mut splits = Vec::new();
                while let Some(split) = list.next_element()? {
                    splits.push(split);
                }
                Ok(Header::Of(splits))
            }
        }
        deserializer.deserialize_any(OnOrSplits)
    }
}
