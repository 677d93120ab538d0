//! `[data.retrieval] compare`: how the similarity of two chunks is measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Maximum length of a term in tokens.
const LONGEST_TERM: usize = 8;

/// How chunks are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CompareConfig {
    /// By the tokens that they share, rare ones most of all: the cosine of tf-idf vectors.
    TfIdf(TermsConfig),
    /// By the embeddings that a run computes: the cosine of the means of its last hidden states.
    Encoded(EncodedConfig),
}

impl Default for CompareConfig {
    fn default() -> Self {
        Self::TfIdf(TermsConfig::default())
    }
}

/// `kind = "tf_idf"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TermsConfig {
    /// Maximum length of a term in consecutive tokens; shorter runs are terms too.
    #[schemars(range(min = 1, max = LONGEST_TERM))]
    pub ngram: usize,
}

impl Default for TermsConfig {
    fn default() -> Self {
        Self { ngram: 1 }
    }
}

/// `kind = "encoded"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EncodedConfig {
    /// Folder of the run: a frozen encoder or text embedding model.
    /// Source: Borgeaud et al. 2022, section 2.3.
    pub run: PathBuf,
}

impl CompareConfig {
    /// Returns the folder of the run that computes embeddings, if chunks are compared by them.
    pub fn run(&self) -> Option<&Path> {
        match self {
            Self::TfIdf(_) => None,
            Self::Encoded(c) => Some(&c.run),
        }
    }

    /// Returns the same configuration with every path replaced by `place(path)`.
    pub(super) fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        match self {
            Self::TfIdf(_) => self.clone(),
            Self::Encoded(c) => Self::Encoded(EncodedConfig { run: place(&c.run) }),
        }
    }

    pub(super) fn faults(&self) -> Vec<String> {
        match self {
            Self::TfIdf(c) if !(1..=LONGEST_TERM).contains(&c.ngram) => {
                let ngram = c.ngram;
                vec![format!(
                    "[data.retrieval.compare] ngram = {ngram} is not between 1 and {LONGEST_TERM}"
                )]
            }
            Self::Encoded(c) if c.run.as_os_str().is_empty() => {
                vec!["[data.retrieval.compare] `run` is missing; name the folder of a run that embeds texts".into()]
            }
            Self::TfIdf(_) | Self::Encoded(_) => Vec::new(),
        }
    }
}
