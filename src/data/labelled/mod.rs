//! `kind = "labelled_text"`: texts, or pairs of texts, with a class, from tables.
//!
//! An example is a text in the frame of the vocabulary, `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` with segments 0
//! and 1, cut to the context; of two texts the longer one loses tokens first, at its end. A vocabulary without a
//! frame gives the plain ids of single texts. Texts are encoded when data is prepared and held in memory.
//!
//! `sst2/train.tsv` holds lines like `apparently reassembled⇥0`: the text, the label; the classes are `0` and `1`.

mod column;
mod columns;
pub(super) mod examples;
pub mod halves;
pub mod header;
mod joined;
pub(super) mod labels;
pub mod tables;

use super::files::columnar;
use super::{
    Data, DataSet, Gives, Paths, PerSplit, Request, Shape, Source, Split, Tokenizers, View, split,
};
use crate::error::{Error, Result};
use crate::tokenizer::Around;
use column::Column;
use header::Header;
use labels::Labels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tables::{Format, Layout, Quoting};

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
    /// The text's column. Default 1, where columns have names `text`.
    pub text: Option<Column>,
    /// The second text's column.
    pub pair: Option<Column>,
    /// The label's column. Default 2, where columns have names `label`.
    pub label: Option<Column>,
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
            classes: Vec::new(),
            join: false,
            leave_out: Vec::new(),
            context: 128,
        }
    }
}

impl LabelledTextConfig {
    /// The same with every path as `place` gives it.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        Self {
            path: self.path.placed(&place),
            valid_path: self.valid_path.as_ref().map(|p| p.placed(&place)),
            test_path: self.test_path.as_ref().map(|p| p.placed(&place)),
            ..self.clone()
        }
    }

    fn fractions(&self) -> (f64, f64) {
        let valid = if self.valid_path.is_some() { 0.0 } else { 0.1 };
        (
            self.valid_fraction.unwrap_or(valid),
            self.test_fraction.unwrap_or(0.0),
        )
    }

    /// Whether the first file has named fields only.
    fn is_named(&self) -> bool {
        let first = self.path.0.first();
        let columnar = first.is_some_and(|path| columnar::is_columnar(path));
        let first = || first.and_then(|path| Format::of(path));
        columnar || self.format.or_else(first) == Some(Format::Jsonl)
    }

    /// Where things are in the tables of a split.
    fn layout(&self, split: Split) -> Layout {
        let column = |given: &Option<Column>, number, name: &str| {
            let default = match self.is_named() {
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
            label: column(&self.label, 2, "label"),
        }
    }

    /// Whether the tables of some split have no header.
    fn lacks_header(&self) -> bool {
        let tables = [
            (Split::Train, true),
            (Split::Valid, self.valid_path.is_some()),
            (Split::Test, self.test_path.is_some()),
        ];
        tables
            .into_iter()
            .any(|(split, read)| read && !self.header.is_in(split))
    }

    fn column_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let layout = self.layout(Split::Train);
        let columns = [
            ("text", Some(&layout.text)),
            ("pair", layout.pair.as_ref()),
            ("label", Some(&layout.label)),
        ];
        for (i, (key, column)) in columns.iter().enumerate() {
            let Some(column) = column else { continue };
            match column {
                Column::Name(_) if !self.is_named() && self.lacks_header() => faults.push(format!(
                    "[data] {key} = {column} is a name, and without a header columns have numbers; set header = true \
                     when the first line names them"
                )),
                Column::Number(_) if self.is_named() => faults.push(format!(
                    "[data] {key} = {column} is a number, and the fields of JSON lines, Parquet and Arrow have names"
                )),
                Column::Number(0) => faults.push(format!("[data] {key} = 0: columns count from 1")),
                Column::Number(_) | Column::Name(_) => {}
            }
            if let Some((other, _)) = columns[..i].iter().find(|(_, c)| *c == Some(*column)) {
                faults.push(format!(
                    "[data] {other} and {key} are the same column, {column}"
                ));
            }
        }
        for (split, path) in [
            (Split::Valid, &self.valid_path),
            (Split::Test, &self.test_path),
        ] {
            if path.is_none() && matches!(&self.header, Header::Of(all) if all.contains(&split)) {
                faults.push(format!(
                    "[data] header names {0}, and there is no {0}_path whose tables could have one",
                    split.name()
                ));
            }
        }
        if self.is_named() && (!self.header.is_nowhere() || self.quoting.is_some()) {
            faults.push(
                "[data] header and quoting have no effect on JSON lines, Parquet and Arrow; leave them out"
                    .into(),
            );
        }
        faults
    }
}

impl DataSet for LabelledTextConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = split_faults(self);
        faults.extend(self.column_faults());
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
        Gives::Labelled
    }

    fn context(&self) -> usize {
        self.context
    }

    fn has(&self, split: Split) -> bool {
        let (valid, test) = self.fractions();
        match split {
            Split::Train => true,
            Split::Valid => self.valid_path.is_some() || valid > 0.0,
            Split::Test => self.test_path.is_some() || test > 0.0,
        }
    }

    fn paths(&self) -> Vec<(&'static str, &Path)> {
        let all = [
            ("path", Some(&self.path)),
            ("valid_path", self.valid_path.as_ref()),
            ("test_path", self.test_path.as_ref()),
        ];
        all.into_iter()
            .flat_map(|(key, paths)| paths.into_iter().flat_map(move |p| p.keyed(key)))
            .collect()
    }

    fn needs_tokenizer(&self) -> bool {
        true
    }

    fn has_two_texts(&self) -> bool {
        self.pair.is_some()
    }

    fn around(&self, _view: &View) -> Around {
        Around::Frame
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let (mut rows, given) = self.rows(request)?;
        if given.is_empty() && request.run.is_none() {
            labels::check_column(&rows.train, &self.layout(Split::Train))?;
        }
        let tokenizer = self.tokenizer(request, &rows.train)?;
        let labels = rows.train.iter().map(|(_, row)| row.label.as_str());
        let labels = match request.run {
            Some(run) => Labels::of_run(run, labels, &given)?,
            None => Labels::new(labels, &given)?,
        };
        if let Some(wanted) = self.train_items {
            split::limit(&mut rows.train, wanted, "rows")?;
        }
        let mut sources = PerSplit::<Option<Arc<dyn Source>>>::default();
        let mut tokens = PerSplit::default();
        for split in Split::ALL.into_iter().filter(|split| self.has(*split)) {
            let source = match self.join {
                true => self.joined(rows.get(split), &labels, &tokenizer, split, request.seed)?,
                false => self.source(rows.get(split), &labels, &tokenizer, split)?,
            };
            *tokens.get_mut(split) = (0..source.len())
                .map(|i| source.size(i as u64) as u64)
                .sum();
            *sources.get_mut(split) = Some(source);
        }
        let train = sources
            .train
            .ok_or_else(|| Error::run("[data] there is no text to train on"))?;
        let shape = Shape {
            labels: labels.written(),
            classes: labels.names,
            ..Shape::of_text(self.context, tokenizer.vocab_size())
        };
        Ok(Data {
            valid: sources.valid,
            test: sources.test,
            tokenizers: Tokenizers::one(tokenizer),
            tokens,
            ..Data::new(train, shape)
        })
    }
}

/// Faults of the keys that say which rows are for what.
fn split_faults(config: &LabelledTextConfig) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |wrong: bool, message: &str| {
        if wrong {
            faults.push(format!("[data] {message}"));
        }
    };
    let empty = |p: &Paths| p.0.is_empty() || p.0.iter().any(|p| p.as_os_str().is_empty());
    fault(
        empty(&config.path),
        "`path` is missing: a table of labelled texts, or a list of them",
    );
    for (name, path, fraction) in [
        ("valid", &config.valid_path, config.valid_fraction),
        ("test", &config.test_path, config.test_fraction),
    ] {
        fault(
            path.as_ref().is_some_and(empty),
            &format!("`{name}_path` is empty; leave it out or name a file"),
        );
        fault(
            fraction.is_some_and(|f| !(0.0..1.0).contains(&f)),
            &format!("{name}_fraction must be at least 0 and below 1"),
        );
        fault(
            path.is_some() && fraction.is_some(),
            &format!("{name}_fraction has no effect beside {name}_path; leave one of them out"),
        );
    }
    let (valid, test) = config.fractions();
    fault(
        config.train_items == Some(0),
        "train_items = 0 leaves nothing to train on",
    );
    fault(
        valid + test >= 1.0,
        "valid_fraction and test_fraction leave nothing to train on",
    );
    faults
}
