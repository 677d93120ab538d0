//! `kind = "text"`: the configuration of text from files. `corpus` carries it out.

pub mod cache;
pub(super) mod corpus;
pub(in crate::data) mod corpus_files;
mod corpus_notes;
pub(super) mod encoding;
pub mod encoding_errors;
mod faults;
pub mod ids;
mod mixture;
pub mod sentences;
pub(in crate::data) mod texts;
pub mod windows;
pub(in crate::data) mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::files::documents::{Beginnings, DocumentFormat};
use super::files::paths::Paths;
use super::{Data, DataSet, Request, Split, View, corrupted, masked};
use crate::data::data_set::{pairs_unsupported, speech_unsupported};
use crate::data::retrieval::DatabaseConfig;
use crate::error::Result;
use std::path::{Path, PathBuf};

/// `kind = "text"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TextConfig {
    /// A file, a folder or a pattern (`corpus/*.parquet`), or a list of them: text, JSONL, Parquet or Arrow; text and
    /// JSONL plain or packed with gzip or Zstandard.
    pub path: Paths,
    /// Relative frequency with which windows are drawn from each entry of `path` (`windows = "random"`). Default: in proportion
    /// to their lengths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
    /// Validation text, instead of a fraction of `path`.
    pub valid_path: Option<Paths>,
    /// Test text.
    pub test_path: Option<Paths>,
    /// Share of the text, at its end, to validate on: of its characters, of its bytes for the byte
    /// tokenizer, of its documents for `windows = "documents"`. Default 0.1 without `valid_path`.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub valid_fraction: Option<f64>,
    /// Share of the text, after the validation part, to test on.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub test_fraction: Option<f64>,
    /// Length of a window in tokens.
    pub context: usize,
    /// Windows to train on; evaluation covers its split, each token once.
    pub windows: Windows,
    /// Number of tokens between the beginnings of two evaluation windows; each window but the first is scored on that many
    /// tokens at its end. `context` when absent: windows do not overlap.
    pub eval_stride: Option<usize>,
    /// Whether attention may cross documents (`windows = "documents"` only). Default true.
    pub across_documents: Option<bool>,
    /// Field of a JSON line, or column of a Parquet or Arrow table, that holds the text. Default `text`.
    pub field: Option<String>,
    /// Separator between the documents of a plain file.
    pub document_separator: Option<String>,
    /// Where the documents of a plain file begin, if there is no separator. Default: a file is one document.
    pub documents: Option<Beginnings>,
    /// Database in which the neighbours of the text's chunks are found, for a model with `[model.retrieval]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retrieval: Option<DatabaseConfig>,
}

impl Default for TextConfig {
    fn default() -> Self {
        Self {
            path: Paths::default(),
            weights: Vec::new(),
            valid_path: None,
            test_path: None,
            valid_fraction: None,
            test_fraction: None,
            context: 256,
            windows: Windows::Random,
            eval_stride: None,
            across_documents: None,
            field: None,
            document_separator: None,
            documents: None,
            retrieval: None,
        }
    }
}

impl TextConfig {
    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        let all = |paths: &Paths| paths.placed(&place);
        Self {
            path: all(&self.path),
            valid_path: self.valid_path.as_ref().map(all),
            test_path: self.test_path.as_ref().map(all),
            retrieval: self.retrieval.as_ref().map(|c| c.with_paths(&place)),
            ..self.clone()
        }
    }
}

/// Windows to train on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Windows {
    /// Anywhere in the text, drawn for each example.
    #[default]
    Random,
    /// Consecutive windows, in a new order each epoch.
    Contiguous,
    /// Consecutive windows over packed documents, each followed by the end-of-text token.
    Documents,
}

impl TextConfig {
    /// Returns the shares of `path` for validation and test.
    pub(in crate::data) fn fractions(&self) -> (f64, f64) {
        let valid = if self.valid_path.is_some() { 0.0 } else { 0.1 };
        (
            self.valid_fraction.unwrap_or(valid),
            self.test_fraction.unwrap_or(0.0),
        )
    }

    /// Whether attention stays inside documents.
    pub(in crate::data) fn isolates_documents(&self) -> bool {
        self.across_documents == Some(false)
    }

    /// Returns how files are divided into documents; `any_bytes` is for the byte tokenizer.
    pub(in crate::data) fn reading(&self, any_bytes: bool) -> DocumentFormat {
        DocumentFormat {
            field: self.field.clone(),
            separator: self.document_separator.clone(),
            beginnings: self.documents.unwrap_or_default(),
            plain: self.documents.is_some(),
            any_bytes,
        }
    }
}

impl DataSet for TextConfig {
    fn hides_documents(&self) -> bool {
        self.isolates_documents()
    }

    fn hides_documents_key(&self) -> Option<[&'static str; 3]> {
        Some(["across_documents", "false", "true"])
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, message: &str| {
            if wrong {
                faults.push(format!("[data] {message}"));
            }
        };
        let empty = |p: &Paths| p.0.is_empty() || p.0.iter().any(|p| p.as_os_str().is_empty());
        fault(
            empty(&self.path),
            "`path` is missing; name a file or folder of text, or a list of them",
        );
        for (key, path) in [
            ("valid_path", &self.valid_path),
            ("test_path", &self.test_path),
        ] {
            fault(
                path.as_ref().is_some_and(empty),
                &format!("`{key}` is empty; remove it or name a file"),
            );
        }
        fault(self.context == 0, "context = 0 must be at least 1");
        if let Some(stride) = self.eval_stride {
            fault(stride == 0, "eval_stride = 0 must be at least 1");
            fault(
                stride > self.context && self.context > 0,
                &format!(
                    "eval_stride = {stride} is more than context = {}: tokens between two windows would not be scored",
                    self.context
                ),
            );
        }
        let share = |f: Option<f64>| f.is_some_and(|f| !(0.0..1.0).contains(&f));
        fault(
            share(self.valid_fraction),
            "valid_fraction must be at least 0 and below 1",
        );
        fault(
            share(self.test_fraction),
            "test_fraction must be at least 0 and below 1",
        );
        let (valid, test) = self.fractions();
        fault(
            valid + test >= 1.0,
            "valid_fraction and test_fraction leave nothing to train on",
        );
        fault(
            self.valid_path.is_some() && self.valid_fraction.is_some(),
            "valid_fraction has no effect beside valid_path; remove one of them",
        );
        fault(
            self.test_path.is_some() && self.test_fraction.is_some(),
            "test_fraction has no effect beside test_path; remove one of them",
        );
        fault(
            self.isolates_documents() && self.windows != Windows::Documents,
            "across_documents = false needs windows = \"documents\"",
        );
        fault(
            self.across_documents == Some(true) && self.windows != Windows::Documents,
            "across_documents = true has no effect: windows is not \"documents\"; remove it",
        );
        fault(
            self.field.is_some() && self.document_separator.is_some(),
            "`field` is for JSON lines, but `document_separator` is for plain text; remove one of them",
        );
        fault(
            self.documents.is_some() && (self.field.is_some() || self.document_separator.is_some()),
            "`documents` has no effect beside `field` or `document_separator`; remove it",
        );
        fault(
            self.document_separator.as_deref() == Some(""),
            "document_separator is empty; use \"\\n\\n\" to separate at blank lines",
        );
        faults.extend(self.weight_faults());
        faults.extend(self.retrieval_faults());
        faults
    }

    fn context(&self) -> usize {
        self.context
    }

    fn has(&self, split: Split) -> bool {
        match split {
            Split::Train => true,
            Split::Valid => self.valid_path.is_some() || self.valid_fraction != Some(0.0),
            Split::Test => self.test_path.is_some() || self.test_fraction.is_some_and(|f| f > 0.0),
        }
    }

    fn paths(&self) -> Vec<(&'static str, &Path)> {
        let all = [
            ("path", Some(&self.path)),
            ("valid_path", self.valid_path.as_ref()),
            ("test_path", self.test_path.as_ref()),
            (
                "retrieval.path",
                self.retrieval.as_ref().and_then(|c| c.path.as_ref()),
            ),
        ];
        all.into_iter()
            .flat_map(|(key, paths)| paths.into_iter().flat_map(move |p| p.keyed(key)))
            .collect()
    }

    fn needs_tokenizer(&self) -> bool {
        true
    }

    fn can_be_masked(&self) -> bool {
        true
    }

    fn has_next_token(&self) -> bool {
        true
    }

    fn is_contiguous(&self) -> bool {
        match self.windows {
            Windows::Contiguous | Windows::Documents => true,
            Windows::Random => false,
        }
    }

    fn retrieval(&self) -> Option<&DatabaseConfig> {
        self.retrieval.as_ref()
    }

    fn stride(&self) -> Option<usize> {
        self.eval_stride
    }

    fn view_faults(&self, view: &View) -> Vec<String> {
        let (mut faults, of) = match view {
            View::Plain => return Vec::new(),
            View::EncodedSeparately => return pairs_unsupported(),
            View::Ctc => return speech_unsupported(),
            View::Masked(view) => (view.masking.faults(), "a masked language model"),
            View::Corrupted(view) => (view.faults(self.context), "corrupted text"),
        };
        let mut without_effect = |key: &str| {
            faults.push(format!(
                "[data] {key} has no effect on {of}: every token is read once per epoch; remove it"
            ));
        };
        if self.windows == Windows::Contiguous {
            without_effect("windows");
        }
        if self.eval_stride.is_some() {
            without_effect("eval_stride");
        }
        if !self.weights.is_empty() {
            without_effect("weights");
        }
        if self.retrieval.is_some() {
            faults.push("[data] retrieval works only with next-token prediction; remove it".into());
        }
        if self.windows == Windows::Documents || self.across_documents.is_some() {
            faults.push(
                "[data] windows = \"documents\" and across_documents work only with next-token prediction; remove them"
                    .into(),
            );
        }
        if let View::Masked(view) = view {
            faults.extend(masked::context_fault(self.context, view.pairs));
        }
        faults
    }

    fn prompt(&self) -> Option<String> {
        Some("The ".into())
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        match request.view {
            View::Plain | View::EncodedSeparately | View::Ctc => corpus::prepare(self, request),
            View::Masked(view) => masked::prepare(self, view, request),
            View::Corrupted(view) => corrupted::prepare(self, view, request),
        }
    }
}
