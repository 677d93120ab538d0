//! The roles of marks, and their names in experiments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names of marks, if they are not the well-known ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MarkNames {
    /// Token that begins a target.
    pub begin: Option<String>,
    /// Token that ends a source and a target.
    pub end: Option<String>,
    /// Token between a source and its target in one sequence.
    pub separator: Option<String>,
    /// Padding token.
    pub pad: Option<String>,
    /// Language token of sources; it replaces the one that the tokenizer's file puts around them, or is put before them if there
    /// is none (`eng_Latn` of NLLB-200, `__en__` of M2M-100, `en_XX` of mBART).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_language: Option<String>,
    /// Language token of targets, which follows `begin` before every target (NLLB-200, M2M-100, mBART-50).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_language: Option<String>,
}

/// The role of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Begin,
    End,
    Separator,
    Pad,
    TargetLanguage,
}

impl Role {
    pub const ALL: [Self; 5] = [
        Self::Begin,
        Self::End,
        Self::Separator,
        Self::Pad,
        Self::TargetLanguage,
    ];

    /// The key of the role in files.
    pub fn key(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::End => "end",
            Self::Separator => "separator",
            Self::Pad => "pad",
            Self::TargetLanguage => "target_language",
        }
    }

    /// Well-known names of the role's token; new tokenizers use the first one.
    pub fn known(self) -> &'static [&'static str] {
        match self {
            Self::Begin => &["<s>", "<bos>", "[BOS]", "<|startoftext|>", "[CLS]"],
            Self::End => &[
                "</s>",
                "<eos>",
                "[EOS]",
                "<|endoftext|>",
                "<|end_of_text|>",
                "[SEP]",
            ],
            Self::Separator => &["<sep>", "[SEP]"],
            Self::Pad => &["<pad>", "[PAD]", "<|pad|>"],
            Self::TargetLanguage => &[],
        }
    }

    /// The name that `names` gives the role's token.
    pub fn name(self, names: &MarkNames) -> Option<&str> {
        match self {
            Self::Begin => names.begin.as_deref(),
            Self::End => names.end.as_deref(),
            Self::Separator => names.separator.as_deref(),
            Self::Pad => names.pad.as_deref(),
            Self::TargetLanguage => names.target_language.as_deref(),
        }
    }
}
