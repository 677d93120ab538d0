//! `kind = "labelled_text"`: texts, or pairs of texts, with a class, any number of classes, or a number, from tables.
//!
//! An example is a text in the frame of the vocabulary, `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` with segments 0
//! and 1, cut to the context; of two texts the longer one loses tokens first, at its end. A vocabulary without a
//! frame gives the plain ids of single texts. With `score` a text has a number in the place of its class; with `labels` or
//! `indicators` any number of classes, none included. Texts are encoded when data is prepared and held in memory.
//!
//! `sst2/train.tsv` holds lines like `apparently reassembled⇥0`: the text, the label; the classes are `0` and `1`.

pub mod column;
mod columns;
pub(super) mod examples;
mod faults;
pub mod halves;
pub mod header;
mod joined;
mod label_column;
pub(super) mod labels;
mod rows;
mod separated;
mod several;
mod shared;
pub mod tables;

use super::blank::{self, Blank};
use super::files::{columnar, found};
use super::parts::{Parted, parted};
use super::{Data, DataSet, Gives, Paths, PerSplit, Request, Shape, Source, Split, View, split};
use crate::error::Result;
use crate::tokenizer::Around;
use column::Column;
use header::Header;
use labels::Answers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use several::Several;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tables::{Format, Layout, Quoting};

/// Texts, or pairs of texts, of which the tokenizer makes nothing.
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
    /// Share of the rows of `path` to validate on, drawn at random but always alike. Default 0.1 without `valid_path`.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub valid_fraction: Option<f64>,
    /// Share of the rows of `path` to test on.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub test_fraction: Option<f64>,
    /// Rows to train on, drawn at random and the same for every seed; the vocabulary and the classes are those of all
    /// of them. Default: all.
    pub train_items: Option<usize>,
    /// How tables are written. Default: what their names say.
    pub format: Option<Format>,
    /// Whether quotes around a column are marks. Default: in CSV.
    pub quoting: Option<Quoting>,
    /// Whether the first line names the columns: of all tables, or of those of the splits in a list.
    pub header: Header,
    /// The text's column. Default 1; where columns have names, those of `header = true` among them, `text`.
    pub text: Option<Column>,
    /// The second text's column.
    pub pair: Option<Column>,
    /// The label's column. Default 2; where columns have names, those of `header = true` among them, `label`.
    pub label: Option<Column>,
    /// The column of the classes of a text that may have any number of them, for `task.kind = "multi_label_classification"`: a
    /// list in JSON lines, Parquet and Arrow, words with `label_separator` between them elsewhere.
    pub labels: Option<Column>,
    /// Stands between the classes in a cell of `labels`. Default: a comma.
    pub label_separator: Option<String>,
    /// Columns, by their names, that say with 1 or 0 whether a text has the class of that name, in place of `labels`.
    pub indicators: Vec<String>,
    /// The column of a number that a text has in place of a class, for `task.kind = "regression"`.
    pub score: Option<Column>,
    /// Names of the classes in order. Default: those of a Hugging Face table, else the labels of training rows, sorted.
    pub classes: Vec<String>,
    /// Whether rows of one class are put one after the other until the context is full.
    pub join: bool,
    /// Words, between blanks, that are left out of texts: `["(", ")"]` for ListOps.
    pub leave_out: Vec<String>,
    /// Tokens of an example at most.
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
    /// The same with every path as `place` gives it.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        self.placed(place)
    }

    /// The column of answers where nothing else is said: that of the tables at a path, whose columns `named` says to have names or
    /// which are looked at.
    pub(super) fn usual_label(path: Option<&PathBuf>, named: bool) -> Column {
        let plain = Self::default();
        let of_fields = |path: &PathBuf| {
            let files = found::listed(std::slice::from_ref(path)).unwrap_or_default();
            files.iter().any(|file| plain.names_fields(file))
        };
        match named || path.is_some_and(of_fields) {
            true => Column::Name("label".into()),
            false => Column::Number(2),
        }
    }

    /// Whether the columns of all tables have names, by the keys alone.
    pub(super) fn names_columns(&self) -> bool {
        self.format == Some(Format::Jsonl) || self.header == Header::All(true)
    }

    /// Whether a file has named fields only.
    fn names_fields(&self, file: &Path) -> bool {
        let format = self.format.or_else(|| Format::of(file));
        columnar::is_columnar(file) || format == Some(Format::Jsonl)
    }

    /// The key of the column of answers.
    fn answer_key(&self) -> &'static str {
        match (&self.score, &self.labels) {
            (Some(_), _) => "score",
            (None, Some(_)) => "labels",
            (None, None) => "label",
        }
    }

    /// Where things are in a table of a split.
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

    /// How a table says the classes of a text that may have any number of them, where it does.
    fn several(&self) -> Option<Several> {
        if !self.indicators.is_empty() {
            return Some(Several::Indicators(self.indicators.clone()));
        }
        let separator = self.label_separator.clone();
        let listed = || Several::Listed(separator.unwrap_or_else(|| ",".into()));
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
                "[data] context = {} is too short; the least is {least}",
                self.context
            ));
        }
        if self.join && self.pair.is_some() {
            faults.push("[data] join = true is for single texts; leave it or `pair` out".into());
        }
        let different: BTreeSet<&String> = self.classes.iter().collect();
        if different.len() < self.classes.len() || self.classes.len() == 1 {
            faults.push("[data] classes: two different names at least, each once".into());
        }
        faults
    }

    fn gives(&self) -> Gives {
        match (&self.score, self.several()) {
            (Some(_), _) => Gives::Numbered,
            (None, Some(_)) => Gives::ManyLabelled,
            (None, None) => Gives::Labelled,
        }
    }

    fn context(&self) -> usize {
        self.context
    }

    fn has(&self, split: Split) -> bool {
        self.parts().has(split)
    }

    fn examples_in(&self, folder: &Path, files: Vec<PathBuf>) -> Vec<PathBuf> {
        found::of_tables(folder, files)
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

    fn around(&self, _view: &View) -> Around {
        Around::Edges
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let (mut rows, given) = self.rows(request)?;
        let answers = match self.gives() {
            Gives::Numbered => Answers::Numbers,
            Gives::ManyLabelled => {
                Answers::Several(self.all_labels(request, &rows.train, &given)?)
            }
            Gives::Labelled
            | Gives::Text
            | Gives::Tagged
            | Gives::Questions
            | Gives::Pairs
            | Gives::Images
            | Gives::Captioned
            | Gives::Spoken
            | Gives::Preferences => {
                Answers::Classes(self.all_labels(request, &rows.train, &given)?)
            }
        };
        let tokenizer = self.tokenizer(request, &rows.train)?;
        if let Some(wanted) = self.train_items {
            split::limit(&mut rows.train, wanted, "rows")?;
        }
        let text = Shape::of_text(self.context, tokenizer.vocab_size());
        let shape = match &answers {
            Answers::Numbers => text,
            Answers::Classes(labels) | Answers::Several(labels) => Shape {
                labels: labels.written(),
                classes: labels.names.clone(),
                ..text
            },
        };
        let shortened = RefCell::new(PerSplit::<usize>::default());
        let empty = RefCell::new(PerSplit::<Blank>::default());
        let source = |split| -> Result<Arc<dyn Source>> {
            let rows = rows.get(split);
            let (source, cut, blank) = match (&answers, self.join) {
                (Answers::Classes(labels), true) => {
                    self.joined(rows, labels, &tokenizer, split, request.seed)
                }
                (Answers::Classes(_) | Answers::Several(_) | Answers::Numbers, _) => {
                    self.source(rows, &answers, &tokenizer, split)
                }
            }?;
            *shortened.borrow_mut().get_mut(split) = cut;
            *empty.borrow_mut().get_mut(split) = blank;
            Ok(source)
        };
        let data = self.parts().data(shape, tokenizer.clone(), source)?;
        let how = "the model reads no word of them";
        let empty = blank::note(EMPTY, &empty.into_inner(), how);
        let trained_too = shared::note(&rows).filter(|_| request.run.is_none());
        Ok(Data {
            cut: shortened.into_inner(),
            notes: empty.into_iter().chain(trained_too).collect(),
            ..data
        })
    }
}
