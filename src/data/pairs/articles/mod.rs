//! `kind = "articles"`: the lead of an article from its title and its other paragraphs.
//!
//! Summarisation of many paragraphs as in Liu et al., "Generating Wikipedia by summarizing long sequences",
//! arXiv:1801.10198, sections 2 and 4: a lead section summarises the article's sections. A source is the
//! title and the paragraphs of the sections, ranked (`rank`) and cut to their first L tokens, which is the
//! extraction step; a target is the lead. In the paper the paragraphs also come from cited pages and search
//! results; here they are only the article's own. An encoder-decoder reads pairs (T-ED); a decoder reads
//! source and target in one sequence (T-D, T-DMCA), as in `[task] kind = "translation"`. Paragraphs are
//! joined by blanks, so that a source is one line, which is what `translate` reads.

mod prepare;
pub mod rank;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data::files::articles::{self, DEEPEST};
use crate::data::text::TextConfig;
use crate::data::{Data, DataSet, ExampleForm, Paths, Request, Split, View};
use crate::error::Result;
use crate::tokenizer::{MarkNames, TokenFraming, TokenizerConfig};
use rank::Ranking;

/// `kind = "articles"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArticlesConfig {
    /// Articles in WikiText's form: a file, a folder, a list of them; plain or gzipped.
    pub path: Paths,
    /// Articles to validate on.
    pub valid_path: Option<Paths>,
    /// Articles to test on.
    pub test_path: Option<Paths>,
    /// Share of the articles of `path`, the last ones, to validate on. Default 0.1 without `valid_path`.
    pub valid_fraction: Option<f64>,
    /// Share of the articles of `path` to test on.
    pub test_fraction: Option<f64>,
    /// The order of the paragraphs of a source. Source: Liu et al. 2018, section 4.1.
    pub ranking: Ranking,
    /// Whether the title comes before the paragraphs.
    pub title: bool,
    /// Minimum number of `=` signs on each side of the heading that ends the lead: 2 for a section, 3 for a
    /// part of one.
    pub lead_ends: usize,
    /// Maximum length of a source in tokens, with its special tokens; ranked paragraphs are cut to it.
    pub max_source: usize,
    /// Maximum length of a target in tokens, with its special tokens; a longer lead is cut and has no end
    /// token.
    pub max_target: usize,
    /// Names of the special tokens around texts, for a vocabulary of `[tokenizer] kind = "pretrained"` or of
    /// the run in `[init]` without the usual ones, or to choose languages (`source_language = "deu_Latn"`,
    /// `target_language = "fra_Latn"` of NLLB-200; `begin = "de_DE"` of mBART).
    pub marks: MarkNames,
}

impl Default for ArticlesConfig {
    fn default() -> Self {
        Self {
            path: Paths::default(),
            valid_path: None,
            test_path: None,
            valid_fraction: None,
            test_fraction: None,
            ranking: Ranking::TfIdf,
            title: true,
            lead_ends: 2,
            max_source: 512,
            max_target: 128,
            marks: MarkNames::default(),
        }
    }
}

impl ArticlesConfig {
    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        let held_out = [&self.valid_path, &self.test_path];
        let (path, [valid_path, test_path]) = articles::placed(&self.path, held_out, place);
        Self {
            path,
            valid_path,
            test_path,
            ..self.clone()
        }
    }

    /// Returns the files as the configuration of a text.
    fn files(&self) -> TextConfig {
        articles::files(
            &self.path,
            [&self.valid_path, &self.test_path],
            [self.valid_fraction, self.test_fraction],
        )
    }
}

impl DataSet for ArticlesConfig {
    fn longest_target(&self) -> Option<usize> {
        Some(self.max_target)
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = self.files().faults();
        let (source, target) = (self.max_source, self.max_target);
        if target < 3 {
            faults.push(format!(
                "[data] max_target = {target} must be at least 3: one token between two special tokens"
            ));
        }
        if source < target {
            faults.push(format!(
                "[data] max_source = {source} must be at least max_target = {target}; raise max_source or lower max_target"
            ));
        }
        if !(2..=DEEPEST).contains(&self.lead_ends) {
            faults.push(format!(
                "[data] lead_ends = {} must be between 2 (the heading of a section) and {DEEPEST}",
                self.lead_ends
            ));
        }
        faults
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Pairs
    }

    fn context(&self) -> usize {
        self.max_source
    }

    fn has(&self, split: Split) -> bool {
        self.files().has(split)
    }

    fn paths(&self) -> Vec<(&'static str, &Path)> {
        articles::keyed(&self.path, [&self.valid_path, &self.test_path])
    }

    fn needs_tokenizer(&self) -> bool {
        true
    }

    fn tokenizer_faults(&self, tokenizer: &TokenizerConfig) -> Vec<String> {
        tokenizer.with_marks(&self.marks).faults()
    }

    fn framing(&self, _view: &View) -> TokenFraming {
        TokenFraming::End
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        prepare::prepare(self, request)
    }
}
