//! The roles of marks, and the names that an experiment gives them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names of marks, where the well-known ones are not meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MarkNames {
    /// Begins a target.
    pub begin: Option<String>,
    /// Ends a source and a target.
    pub end: Option<String>,
    /// Between a source and its target in one sequence.
    pub separator: Option<String>,
    /// Fills up a row.
    pub pad: Option<String>,
    /// The language of sources, in the place of the one that the tokenizer's file puts around them, or before them where it puts none
    /// (`eng_Latn` of NLLB-200, `__en__` of M2M-100, `en_XX` of mBART).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_language: Option<String>,
    /// The language of targets, which stands behind `begin` before every target (NLLB-200, M2M-100, mBART-50).
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

    /// Its key.
    pub fn key(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::End => "end",
            Self::Separator => "separator",
            Self::Pad => "pad",
            Self::TargetLanguage => "target_language",
        }
    }

    /// Names under which tokenizers have it; the first is the one that new tokenizers get.
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

    /// The name that was given for it.
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
