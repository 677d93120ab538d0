//! `kind = "labelled_text"`: texts, or pairs of texts, with a class, any number of classes, or a number, from
//! tables.
//!
//! An example is a text in the frame of the vocabulary, `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` with
//! segments 0 and 1, cut to the context; of two texts, the longer one loses tokens first, at its end. A
//! vocabulary without a frame gives the plain ids of single texts. With `score` a text has a number instead
//! of a class; with `labels` or `indicators` it has any number of classes, including none. Texts are encoded
//! when data is prepared and held in memory.
//!
//! `sst2/train.tsv` holds lines like `apparently reassembled⇥0`: the text, the label; the classes are `0` and
//! `1`.

pub mod column;
mod columns;
pub(super) mod examples;
mod faults;
mod framed;
pub mod halves;
pub mod header;
mod joined;
mod label_column;
pub(super) mod labels;
mod multi_label;
mod rows;
mod separated;
pub mod tables;
mod train_overlap;

use super::blank::{self, BlankExamples};
use super::files::{columnar, discovery};
use super::parts::{Parted, parted};
use super::{
    Data, DataSet, ExampleForm, Paths, PerSplit, Request, Shape, Source, Split, View, split,
};
use crate::error::Result;
use crate::tokenizer::TokenFraming;
use column::Column;
use header::Header;
use labels::AnswerKind;
use multi_label::MultiLabelColumns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tables::{Format, Layout, Quoting};

/// Names in messages for texts, or pairs of texts, that have no tokens.
const EMPTY: [&str; 2] = ["empty text", "empty texts"];

/// `kind = "labelled_text"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LabelledTextConfig {
    /// A table, a folder or a pattern, or a list of them: TSV, CSV and JSONL, plain or packed; Parquet and Arrow.
    pub path: Paths,
    /// Validation table.
    pub valid_path: Option<Paths>,
    /// Test table.
    pub test_path: Option<Paths>,
    /// Share of the rows of `path` to validate on, drawn at random but always the same. Default 0.1 without
    /// `valid_path`.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub valid_fraction: Option<f64>,
    /// Share of the rows of `path` to test on.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub test_fraction: Option<f64>,
    /// Number of rows to train on, drawn at random and the same for every seed; the vocabulary and the
    /// classes still come from all rows. Default: all.
    pub train_items: Option<usize>,
    /// Format of the tables. Default: according to their file names.
    pub format: Option<Format>,
    /// Whether quotes around a column enclose it or belong to its text. Default: they enclose it in CSV.
    pub quoting: Option<Quoting>,
    /// Whether the first line names the columns, in all tables or in those of the listed splits.
    pub header: Header,
    /// Column of the text. Default 1; `text` if columns have names, as with `header = true`.
    pub text: Option<Column>,
    /// Column of the second text.
    pub pair: Option<Column>,
    /// Column of the label. Default 2; `label` if columns have names, as with `header = true`.
    pub label: Option<Column>,
    /// Column of the classes of a text that may have any number of them, for `task.kind =
    /// "multi_label_classification"`: a list in JSON lines, Parquet and Arrow, otherwise words separated by
    /// `label_separator`.
    pub labels: Option<Column>,
    /// Separator between the classes in a cell of `labels`. Default: a comma.
    pub label_separator: Option<String>,
    /// Columns, by their names, that say with 1 or 0 whether a text has the class of that name, instead of
    /// `labels`.
    pub indicators: Vec<String>,
    /// Column of a number that a text has instead of a class, for `task.kind = "regression"`.
    pub score: Option<Column>,
    /// Names of the classes in order. Default: those of a Hugging Face table, else the sorted labels of the
    /// training rows.
    pub classes: Vec<String>,
    /// Whether rows of one class are joined until the context is full.
    pub join: bool,
    /// Words, separated by blanks, that are removed from texts: `["(", ")"]` for ListOps.
    pub leave_out: Vec<String>,
    /// Maximum length of an example in tokens.
    pub context: usize,
}

impl Default for LabelledTextConfig {
    fn default() -> Self {
        Self {
            path: Paths::default(),
            valid_path: None,
            test_path: None,
            valid_fraction: None,
            test_fraction: None,
            train_items: None,
            format: None,
            quoting: None,
            header: Header::All(false),
            text: None,
            pair: None,
            label: None,
            labels: None,
            label_separator: None,
            indicators: Vec::new(),
            score: None,
            classes: Vec::new(),
            join: false,
            leave_out: Vec::new(),
            context: 128,
        }
    }
}

parted!(LabelledTextConfig);

impl LabelledTextConfig {
    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        self.placed(place)
    }

    /// Returns the default answer column for the tables at a path: `label` if `named` or if any file there
    /// has named fields, otherwise the second one.
    pub(super) fn default_label(path: Option<&PathBuf>, named: bool) -> Column {
        let plain = Self::default();
        let of_fields = |path: &PathBuf| {
            let files = discovery::expand(std::slice::from_ref(path)).unwrap_or_default();
            files.iter().any(|file| plain.names_fields(file))
        };
        match named || path.is_some_and(of_fields) {
            true => Column::Name("label".into()),
            false => Column::Number(2),
        }
    }

    /// Whether the columns of all tables have names, judged only by the keys.
    pub(super) fn names_columns(&self) -> bool {
        self.format == Some(Format::Jsonl) || self.header == Header::All(true)
    }

    /// Whether a file always has named fields.
    fn names_fields(&self, file: &Path) -> bool {
        let format = self.format.or_else(|| Format::of(file));
        columnar::is_columnar(file) || format == Some(Format::Jsonl)
    }

    /// Returns the key of the answer column.
    fn answer_key(&self) -> &'static str {
        match (&self.score, &self.labels) {
            (Some(_), _) => "score",
            (None, Some(_)) => "labels",
            (None, None) => "label",
        }
    }

    /// Returns which columns a table of a split has.
    fn layout(&self, split: Split, file: &Path) -> Layout {
        let named = self.names_columns() || self.names_fields(file);
        let column = |given: &Option<Column>, number, name: &str| {
            let default = match named {
                true => Column::Name(name.into()),
                false => Column::Number(number),
            };
            given.clone().unwrap_or(default)
        };
        Layout {
            format: self.format,
            quoting: self.quoting,
            header: self.header.is_in(split),
            text: column(&self.text, 1, "text"),
            pair: self.pair.clone(),
            label: match self.score.as_ref().or(self.labels.as_ref()) {
                Some(answer) => answer.clone(),
                None => column(&self.label, 2, "label"),
            },
            answer: self.answer_key(),
            several: self.several(),
        }
    }

    /// Returns how a table writes the classes of a text that may have any number of them, if it does.
    fn several(&self) -> Option<MultiLabelColumns> {
        if !self.indicators.is_empty() {
            return Some(MultiLabelColumns::Indicators(self.indicators.clone()));
        }
        let separator = self.label_separator.clone();
        let listed = || MultiLabelColumns::Listed(separator.unwrap_or_else(|| ",".into()));
        self.labels.is_some().then(listed)
    }
}

impl DataSet for LabelledTextConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.parts().faults("a table of labelled texts");
        faults.extend(self.column_faults());
        faults.extend(self.answer_faults());
        let least = 4 + 2 * usize::from(self.pair.is_some());
        if self.context < least {
            faults.push(format!(
                "[data] context = {} is too short; the minimum is {least}",
                self.context
            ));
        }
        if self.join && self.pair.is_some() {
            faults.push("[data] join = true is for single texts; remove it or `pair`".into());
        }
        let different: BTreeSet<&String> = self.classes.iter().collect();
        if different.len() < self.classes.len() || self.classes.len() == 1 {
            faults.push("[data] classes must contain at least two names, each only once".into());
        }
        faults
    }

    fn example_form(&self) -> ExampleForm {
        match (&self.score, self.several()) {
            (Some(_), _) => ExampleForm::Numbered,
            (None, Some(_)) => ExampleForm::ManyLabelled,
            (None, None) => ExampleForm::Labelled,
        }
    }

    fn context(&self) -> usize {
        self.context
    }

    fn has(&self, split: Split) -> bool {
        self.parts().has(split)
    }

    fn examples_in(&self, folder: &Path, files: Vec<PathBuf>) -> Vec<PathBuf> {
        discovery::table_files(folder, files)
    }

    fn paths(&self) -> Vec<(&'static str, &Path)> {
        self.parts().paths()
    }

    fn needs_tokenizer(&self) -> bool {
        true
    }

    fn has_two_texts(&self) -> bool {
        self.pair.is_some()
    }

    fn framing(&self, _view: &View) -> TokenFraming {
        TokenFraming::FileLayout
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let (mut rows, given) = self.rows(request)?;
        let answers = match self.example_form() {
            ExampleForm::Numbered => AnswerKind::Numbers,
            ExampleForm::ManyLabelled => {
                AnswerKind::Several(self.all_labels(request, &rows.train, &given)?)
            }
            ExampleForm::Labelled
            | ExampleForm::Text
            | ExampleForm::Tagged
            | ExampleForm::Questions
            | ExampleForm::Pairs
            | ExampleForm::Images
            | ExampleForm::Captioned
            | ExampleForm::Spoken
            | ExampleForm::Preferences => {
                AnswerKind::Classes(self.all_labels(request, &rows.train, &given)?)
            }
        };
        let tokenizer = self.tokenizer(request, &rows.train)?;
        if let Some(wanted) = self.train_items {
            split::limit(&mut rows.train, wanted, "rows")?;
        }
        let text = Shape::of_text(self.context, tokenizer.vocab_size());
        let shape = match &answers {
            AnswerKind::Numbers => text,
            AnswerKind::Classes(labels) | AnswerKind::Several(labels) => Shape {
                labels: labels.written(),
                classes: labels.names.clone(),
                ..text
            },
        };
        let shortened = RefCell::new(PerSplit::<usize>::default());
        let empty = RefCell::new(PerSplit::<BlankExamples>::default());
        let source = |split| -> Result<Arc<dyn Source>> {
            let rows = rows.get(split);
            let (source, cut, blank) = match (&answers, self.join) {
                (AnswerKind::Classes(labels), true) => {
                    self.joined(rows, labels, &tokenizer, split, request.seed)
                }
                (AnswerKind::Classes(_) | AnswerKind::Several(_) | AnswerKind::Numbers, _) => {
                    self.source(rows, &answers, &tokenizer, split)
                }
            }?;
            *shortened.borrow_mut().get_mut(split) = cut;
            *empty.borrow_mut().get_mut(split) = blank;
            Ok(source)
        };
        let data = self.parts().data(shape, tokenizer.clone(), source)?;
        let how = "the model reads no words of them";
        let empty = blank::note(EMPTY, &empty.into_inner(), how);
        let trained_too =
            train_overlap::train_overlap_note(&rows).filter(|_| request.run_shape.is_none());
        Ok(Data {
            cut: shortened.into_inner(),
            notes: empty.into_iter().chain(trained_too).collect(),
            ..data
        })
    }
}
