//! The form of the examples that a kind of data gives, and a task reads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The form of the examples of a data set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gives {
    /// Texts, for language models.
    #[default]
    Text,
    /// Texts with a class.
    Labelled,
    /// Pairs of texts.
    Pairs,
    /// Images with a class.
    Images,
}

impl Gives {
    /// Whether examples differ in length.
    pub fn has_lengths(self) -> bool {
        match self {
            Self::Pairs | Self::Labelled => true,
            Self::Text | Self::Images => false,
        }
    }
}

impl std::fmt::Display for Gives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text => "texts",
            Self::Labelled => "texts with a class",
            Self::Pairs => "pairs of texts",
            Self::Images => "images",
        })
    }
}
