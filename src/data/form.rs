//! The form of the examples that a kind of data gives and that a task reads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The form of the examples of a data set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExampleForm {
    /// Texts, for language models.
    #[default]
    Text,
    /// Texts with a class.
    Labelled,
    /// Texts with any number of classes.
    ManyLabelled,
    /// Texts with a number.
    Numbered,
    /// Texts with a tag for each word.
    Tagged,
    /// Questions with a context.
    Questions,
    /// Pairs of texts.
    Pairs,
    /// Images with a class.
    Images,
    /// Images with a caption.
    Captioned,
    /// Recordings with a transcript.
    Spoken,
    /// Texts with a better and a worse continuation.
    Preferences,
}

impl ExampleForm {
    /// Whether examples differ in length.
    pub fn has_lengths(self) -> bool {
        match self {
            Self::Pairs
            | Self::Labelled
            | Self::ManyLabelled
            | Self::Numbered
            | Self::Tagged
            | Self::Questions
            | Self::Captioned
            | Self::Spoken
            | Self::Preferences => true,
            Self::Text | Self::Images => false,
        }
    }
}

impl ExampleForm {
    /// Whether there are images among the inputs.
    pub fn has_images(self) -> bool {
        matches!(self, Self::Images | Self::Captioned)
    }

    /// Whether there are recordings among the inputs.
    pub fn has_speech(self) -> bool {
        self == Self::Spoken
    }

    /// Whether there are texts, or tokens, among the inputs.
    pub fn has_tokens(self) -> bool {
        self != Self::Images
    }
}

impl std::fmt::Display for ExampleForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text => "texts",
            Self::Labelled => "texts with a class",
            Self::ManyLabelled => "texts with any number of classes",
            Self::Numbered => "texts with a number",
            Self::Tagged => "texts with a tag for each word",
            Self::Questions => "questions with a context",
            Self::Pairs => "pairs of texts",
            Self::Images => "images",
            Self::Captioned => "images with a caption",
            Self::Spoken => "recordings with a transcript",
            Self::Preferences => "a better and a worse text",
        })
    }
}
