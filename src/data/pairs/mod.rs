//! `kind = "pairs"`: parallel text, for translation and summarisation.
//!
//! Two files whose lines correspond, or one TSV, CSV or JSONL file. `read` reads them, `corpus` splits and
//! encodes them, `source` adds special tokens and filters them. A line of Multi30k: "Two young, White males
//! are outside near many bushes." and "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche."

pub mod articles;
mod corpus;
mod faults;
mod field;
pub(super) mod framing;
mod notes;
mod quoted;
mod read;
mod source;
mod tabs;
mod tokenizers;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_set::{masking_unsupported, speech_unsupported};
use super::files::paths::Paths;
use super::labelled::header::Header;
use super::{Data, DataSet, ExampleForm, PerSplit, Request, Split, View};
use crate::error::Result;
use crate::tokenizer::{MarkNames, TokenFraming, TokenizerConfig};

pub use field::Field;
pub use read::Texts;

/// `kind = "pairs"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PairsConfig {
    /// Sources, one per line: a file or a list of files, plain or gzipped.
    pub source: Paths,
    /// Targets: line n of each file corresponds to line n of the source file at the same position.
    pub target: Paths,
    /// Sources to validate on.
    pub valid_source: Paths,
    /// Targets to validate on.
    pub valid_target: Paths,
    /// Sources to test on.
    pub test_source: Paths,
    /// Targets to test on.
    pub test_target: Paths,
    /// Instead of `source` and `target`: TSV, CSV or JSONL with both, plain or packed, Parquet or Arrow.
    pub path: Paths,
    /// Files like `path` to validate on.
    pub valid_path: Paths,
    /// Files like `path` to test on.
    pub test_path: Paths,
    /// Sources in `path`: a field of JSONL or a column of Parquet or Arrow (`translation.de` is `de` inside
    /// of `translation`), a column of TSV or CSV by number (from 1) or by its name in the first line. Default
    /// `source`, or column 1.
    pub source_field: Option<Field>,
    /// Targets in `path`, given like `source_field`. Default `target`, or column 2.
    pub target_field: Option<Field>,
    /// Whether the first line of a TSV or CSV names its columns: of all tables, or of those of the splits in
    /// a list. Names in `source_field` and `target_field` imply it for all tables.
    #[serde(skip_serializing_if = "Header::is_nowhere")]
    pub header: Header,
    /// Share of the training pairs to validate on. Default 0 with files to validate on, else 0.05.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub valid_fraction: Option<f64>,
    /// Share of the training pairs to test on.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub test_fraction: Option<f64>,
    /// Maximum length in tokens of a source or a target with its special tokens. Longer training pairs are
    /// left out; longer texts are cut in evaluation.
    pub max_len: usize,
    /// Maximum length of a target only, if it is to be shorter than its source; `max_len` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_target_len: Option<usize>,
    /// Whether longer training texts are cut instead of left out.
    pub truncate: bool,
    /// Leave out training pairs in which one side has more than this many times the tokens of the other.
    #[schemars(range(min = 1))]
    pub max_ratio: Option<f64>,
    /// Whether every target of a source with several (a list in `path`) is trained on, instead of only the
    /// first.
    pub all_references: bool,
    /// Whether each side has its own vocabulary, instead of one for both.
    pub separate_vocabularies: bool,
    /// Names of the special tokens around texts, for a vocabulary of `[tokenizer] kind = "pretrained"` or of
    /// the run in `[init]` without the usual ones, or to choose languages (`source_language = "deu_Latn"`,
    /// `target_language = "fra_Latn"` of NLLB-200; `begin = "de_DE"` of mBART).
    pub marks: MarkNames,
}

impl Default for PairsConfig {
    fn default() -> Self {
        Self {
            source: Paths::default(),
            target: Paths::default(),
            valid_source: Paths::default(),
            valid_target: Paths::default(),
            test_source: Paths::default(),
            test_target: Paths::default(),
            path: Paths::default(),
            valid_path: Paths::default(),
            test_path: Paths::default(),
            source_field: None,
            target_field: None,
            header: Header::All(false),
            valid_fraction: None,
            test_fraction: None,
            max_len: 256,
            max_target_len: None,
            truncate: false,
            max_ratio: None,
            all_references: false,
            separate_vocabularies: false,
            marks: MarkNames::default(),
        }
    }
}

/// The files of a split: two lists of equal length, or one list of files with both sides.
#[derive(Clone, Copy)]
struct Files<'a> {
    source: &'a Paths,
    target: &'a Paths,
    both: &'a Paths,
}

impl Files<'_> {
    fn is_empty(&self) -> bool {
        self.source.0.is_empty() && self.target.0.is_empty() && self.both.0.is_empty()
    }
}

/// Default share of the training pairs that is held out.
const HELD_OUT: f64 = 0.05;

impl PairsConfig {
    fn files(&self) -> PerSplit<Files<'_>> {
        let files = |source, target, both| Files {
            source,
            target,
            both,
        };
        PerSplit {
            train: files(&self.source, &self.target, &self.path),
            valid: files(&self.valid_source, &self.valid_target, &self.valid_path),
            test: files(&self.test_source, &self.test_target, &self.test_path),
        }
    }

    /// Returns the maximum length of a target in tokens, with its special tokens.
    pub fn longest_target(&self) -> usize {
        self.max_target_len.unwrap_or(self.max_len)
    }

    /// Returns the shares of the training pairs for validation and test.
    fn fractions(&self) -> (f64, f64) {
        let default = if self.files().valid.is_empty() {
            HELD_OUT
        } else {
            0.0
        };
        (
            self.valid_fraction.unwrap_or(default),
            self.test_fraction.unwrap_or(0.0),
        )
    }

    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        let all = |paths: &Paths| paths.placed(&place);
        Self {
            source: all(&self.source),
            target: all(&self.target),
            valid_source: all(&self.valid_source),
            valid_target: all(&self.valid_target),
            test_source: all(&self.test_source),
            test_target: all(&self.test_target),
            path: all(&self.path),
            valid_path: all(&self.valid_path),
            test_path: all(&self.test_path),
            ..self.clone()
        }
    }

    /// Returns each list of files with its key, in the order of the struct.
    fn lists(&self) -> [(&'static str, &Paths); 9] {
        [
            ("source", &self.source),
            ("target", &self.target),
            ("valid_source", &self.valid_source),
            ("valid_target", &self.valid_target),
            ("test_source", &self.test_source),
            ("test_target", &self.test_target),
            ("path", &self.path),
            ("valid_path", &self.valid_path),
            ("test_path", &self.test_path),
        ]
    }
}

impl DataSet for PairsConfig {
    fn longest_target(&self) -> Option<usize> {
        Some(Self::longest_target(self))
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = self.file_faults();
        faults.extend(self.fraction_faults());
        if self.max_len < 3 {
            faults.push(format!(
                "[data] max_len = {} must be at least 3: one token between two special tokens",
                self.max_len
            ));
        }
        let longest = self.max_len;
        if let Some(target) = self.max_target_len.filter(|n| !(3..longest).contains(n)) {
            faults.push(format!(
                "[data] max_target_len = {target} must be at least 3 and below max_len = {longest}; remove it to allow targets as long as sources"
            ));
        }
        if let Some(ratio) = self.max_ratio
            && (ratio.is_nan() || ratio < 1.0)
        {
            faults.push(format!("[data] max_ratio = {ratio} must be at least 1"));
        }
        faults
    }

    fn new_run_faults(&self) -> Vec<String> {
        let mut faults = self.idle_faults();
        faults.extend(self.header_faults());
        faults
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Pairs
    }

    fn context(&self) -> usize {
        self.max_len
    }

    fn separates_vocabularies(&self) -> bool {
        self.separate_vocabularies
    }

    fn has(&self, split: Split) -> bool {
        let (valid, test) = self.fractions();
        match split {
            Split::Train => true,
            Split::Valid => valid > 0.0 || !self.files().valid.is_empty(),
            Split::Test => test > 0.0 || !self.files().test.is_empty(),
        }
    }

    fn paths(&self) -> Vec<(&'static str, &Path)> {
        let lists = self.lists().into_iter();
        lists.flat_map(|(key, paths)| paths.keyed(key)).collect()
    }

    fn needs_tokenizer(&self) -> bool {
        true
    }

    fn tokenizer_faults(&self, tokenizer: &TokenizerConfig) -> Vec<String> {
        let mut faults = tokenizer.with_marks(&self.marks).faults();
        if self.separate_vocabularies && !tokenizer.is_trained() {
            faults.push(format!(
                "[data] separate_vocabularies has no effect with [tokenizer] kind = \"{}\", which is not trained on the texts; remove it",
                tokenizer.kind()
            ));
        }
        faults
    }

    fn view_faults(&self, view: &View) -> Vec<String> {
        match view {
            View::Plain => Vec::new(),
            View::EncodedSeparately => self.alone_faults(),
            View::Ctc => speech_unsupported(),
            View::Masked(_) | View::Corrupted(_) => masking_unsupported(),
        }
    }

    fn framing(&self, view: &View) -> TokenFraming {
        match view {
            View::EncodedSeparately => TokenFraming::FileLayout,
            View::Plain | View::Masked(_) | View::Corrupted(_) | View::Ctc => TokenFraming::End,
        }
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        corpus::prepare(self, request)
    }
}
