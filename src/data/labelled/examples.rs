//! Builds the examples of labelled tables: reads, splits and encodes their rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::columns;
pub(in crate::data) use super::framed::framed;
use super::joined::Joining;
use super::label_column as column;
use super::labels::{AnswerKind, Labels};
use super::multi_label;
use super::rows::Rows;
use super::tables::{self, Row};
use crate::data::blank::BlankExamples;
use crate::data::parts::Parted;
use crate::data::{Item, LabelledTextConfig, PerSplit, Request, Source, Split, TextItem};
use crate::error::{Error, Result};
use crate::tokenizer::{SpecialTokenLayout, Tokenizer};

/// Remedy for an answer that equals the name of its column.
const HEADER: &str = "; if the first line names the columns, set [data] header = true";

/// Rows, each with the file that it is from.
type RowsWithFiles = Vec<(PathBuf, Row)>;

impl LabelledTextConfig {
    /// Reads the rows of each split, with the file of each row, and the class names that are given or that a table stores.
    pub(super) fn rows(&self, request: &Request) -> Result<(PerSplit<RowsWithFiles>, Vec<String>)> {
        let mut classes = self.classes.clone();
        let read = |split: Split, path: &Path| {
            let layout = self.layout(split, path);
            let mut rows = tables::read(path, &layout)?;
            let names = match self.score {
                Some(_) => None,
                None => columns::classes(path, &layout)?,
            };
            if let Some(names) = names.filter(|names| are_named(names, &self.classes, request)) {
                columns::name(&mut rows, &names, layout.several.is_some(), path)?;
                if classes.is_empty() {
                    classes = names;
                }
            }
            let filed = rows.into_iter().map(|row| (path.to_path_buf(), row));
            Ok(filed.collect())
        };
        let rows = self.parts().read(request, ["rows", "row"], read)?;
        Ok((rows, classes))
    }

    /// Returns the classes of the run, or those of the training rows.
    pub(super) fn all_labels(
        &self,
        request: &Request,
        rows: &[(PathBuf, Row)],
        given: &[String],
    ) -> Result<Labels> {
        let file = rows.first().map(|(file, _)| file.as_path());
        let layout = self.layout(Split::Train, file.unwrap_or(Path::new("")));
        if layout.several.is_some() {
            // Indicators are named by the experiment, whether or not a training row has them.
            let given = if given.is_empty() {
                &self.indicators
            } else {
                given
            };
            if given.is_empty() && request.run_shape.is_none() {
                column::check_lists(rows, &layout)?;
            }
            let written = rows
                .iter()
                .flat_map(|(_, row)| multi_label::parts(&row.label));
            return match request.run_shape {
                Some(run) => Labels::of_run(run, written, given),
                None => Labels::new(written, given),
            };
        }
        if given.is_empty() && request.run_shape.is_none() {
            column::check_column(rows, &layout)?;
            column::check_empty(rows)?;
            column::check_unlabelled(rows)?;
        }
        let written = rows.iter().map(|(_, row)| row.label.as_str());
        match request.run_shape {
            Some(run) => Labels::of_run(run, written, given),
            None => Labels::new(written, given),
        }
    }

    /// Returns the tokenizer of the run, or one built for the training rows.
    pub(super) fn tokenizer(
        &self,
        request: &Request,
        rows: &[(PathBuf, Row)],
    ) -> Result<Tokenizer> {
        let texts = rows
            .iter()
            .flat_map(|(_, row)| std::iter::once(&row.text).chain(&row.pair))
            .map(String::as_str);
        tokenizer("labelled_text", request, self.pair.is_some(), texts)
    }

    fn encode(&self, text: &str, tokenizer: &Tokenizer) -> Result<Vec<i32>> {
        let ids = if self.leave_out.is_empty() {
            tokenizer.encode(text)?
        } else {
            let kept = text
                .split_whitespace()
                .filter(|word| self.leave_out.iter().all(|out| out != word));
            tokenizer.encode(&kept.collect::<Vec<_>>().join(" "))?
        };
        Ok(ids.into_iter().map(|id| id as i32).collect())
    }

    /// Returns a row as the model reads it, whether its texts lose tokens, and whether one of them is empty.
    fn item(
        &self,
        row: &Row,
        tokenizer: &Tokenizer,
        edges: Option<&SpecialTokenLayout>,
    ) -> Result<(TextItem, [bool; 2])> {
        let first = self.encode(&row.text, tokenizer)?;
        let second = row.pair.as_ref().map(|pair| self.encode(pair, tokenizer));
        let second = second.transpose()?;
        let tokens = first.len() + second.as_ref().map_or(0, Vec::len);
        let marks = edges.map_or(0, |edges| edges.len(second.is_some()));
        let empty = first.is_empty() || second.as_ref().is_some_and(Vec::is_empty);
        let item = framed(first, second, self.context, edges)?;
        Ok((item, [tokens + marks > self.context, empty]))
    }

    /// Reads a text, or a pair of texts, as the model does.
    ///
    /// # Errors
    /// If the tokenizer cannot encode a text, a text is empty, or a second text is given for data of single texts or missing
    /// for data of pairs.
    pub fn read(&self, text: &str, pair: Option<&str>, tokenizer: &Tokenizer) -> Result<TextItem> {
        match (self.pair.is_some(), pair.is_some()) {
            (true, false) => {
                return Err(Error::usage("the run reads pairs of texts; add --pair"));
            }
            (false, true) => {
                return Err(Error::usage("the run reads single texts; remove --pair"));
            }
            (true, true) | (false, false) => {}
        }
        let first = self.encode(text, tokenizer)?;
        let second = pair.map(|pair| self.encode(pair, tokenizer)).transpose()?;
        framed(
            first,
            second,
            self.context,
            tokenizer.special_token_layout().as_ref(),
        )
    }

    /// Adds the remedy for a header line to a fault of an answer, if the row may be one.
    fn with_header_remedy(&self, error: Error, split: Split, path: &Path, row: &Row) -> Error {
        let may_name = row.line == 1 && !self.header.is_in(split) && !self.names_fields(path);
        match may_name {
            true => Error::run(format!("{error}{HEADER}")),
            false => error,
        }
    }

    /// Builds the source of a split; also returns how many examples lose tokens, and which have an empty text.
    pub(super) fn source(
        &self,
        rows: &[(PathBuf, Row)],
        answers: &AnswerKind,
        tokenizer: &Tokenizer,
        split: Split,
    ) -> Result<(Arc<dyn Source>, usize, BlankExamples)> {
        let edges = tokenizer.special_token_layout();
        if self.pair.is_some() && edges.is_none() {
            return Err(Error::usage(
                "[data] `pair` needs a vocabulary with special tokens for the ends of a text ([CLS] and [SEP], or <s> and </s>)",
            ));
        }
        let items = each(rows, |path, row| {
            // In a header line the text is a column name too, which the tokenizer need not be able to encode.
            let said = answers.with_answer(TextItem::default(), &row.label);
            let said = said.map_err(|e| self.with_header_remedy(e, split, path, row))?;
            let (item, lacks) = self.item(row, tokenizer, edges.as_ref())?;
            let item = TextItem {
                label: said.label,
                classes: said.classes,
                number: said.number,
                ..item
            };
            Ok((item, lacks))
        })?;
        let cut = items.iter().filter(|(_, [cut, _])| *cut).count();
        let empty = rows
            .iter()
            .zip(&items)
            .filter(|(_, (_, [_, empty]))| *empty);
        let places = empty.map(|((path, row), _)| format!("{}:{}", path.display(), row.line));
        let blank = BlankExamples::count_at(places);
        let items = items.into_iter().map(|(item, _)| item).collect();
        let source: Arc<dyn Source> = Arc::new(Rows::of(Labelled { items, split }, rows));
        Ok((source, cut, blank))
    }

    /// Builds the source of a split of joined rows; also returns how many examples have a row that is longer than the context.
    pub(super) fn joined(
        &self,
        rows: &[(PathBuf, Row)],
        labels: &Labels,
        tokenizer: &Tokenizer,
        split: Split,
        seed: u64,
    ) -> Result<(Arc<dyn Source>, usize, BlankExamples)> {
        let rows = each(rows, |path, row| {
            let ids = self.encode(&row.text, tokenizer)?;
            let class = labels.class(&row.label);
            match ids.is_empty() {
                true => Err(Error::run("the text is empty")),
                false => Ok((
                    ids,
                    class.map_err(|e| self.with_header_remedy(e, split, path, row))?,
                )),
            }
        })?;
        let (source, cut) = Joining::new(self.context, tokenizer).source(rows, split, seed)?;
        Ok((source, cut, BlankExamples::default()))
    }
}

/// Whether labels are known by the names that a table stores for them rather than by numbers: if no other names were given, and
/// an existing run knows them by these names.
pub(in crate::data) fn are_named(names: &[String], given: &[String], request: &Request) -> bool {
    let known = |classes: &[String]| names.iter().any(|name| classes.contains(name));
    match request.run_shape {
        Some(run) => known(&run.classes),
        None => given.is_empty() || known(given),
    }
}

/// Returns the tokenizer of the run, or one with a frame, built for these texts. `two` tells whether a row may have two texts.
///
/// # Errors
/// If the experiment has no tokenizer, its file is not a tokenizer, or the texts are too few to train one.
pub(in crate::data) fn tokenizer<'a>(
    kind: &str,
    request: &Request,
    two: bool,
    texts: impl Iterator<Item = &'a str>,
) -> Result<Tokenizer> {
    let config = match (&request.saved_tokenizers.text, request.tokenizer) {
        (Some(saved), _) => return Ok(saved.clone()),
        (None, Some(config)) => config,
        (None, None) => {
            return Err(Error::usage(format!(
                "[data] kind = \"{kind}\" needs a [tokenizer]"
            )));
        }
    };
    // Characters and bytes need no frame; two texts need a separator.
    let config = match config.has_plain_tokens() && !two {
        true => config.clone(),
        false => config.with_frame(false),
    };
    let found = config.with_path(|path| request.places.resolve(path))?;
    Tokenizer::build(&found, &texts.collect::<Vec<_>>())
}

/// Applies `of` to the rows of a split; returns the first fault in the order of the rows, independent of threads.
fn each<T: Send>(
    rows: &[(PathBuf, Row)],
    of: impl Fn(&Path, &Row) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let all = rows
        .par_iter()
        .map(|(path, row)| {
            of(path, row).map_err(|e| Error::run(format!("{}:{}: {e}", path.display(), row.line)))
        })
        .collect::<Vec<Result<_>>>();
    all.into_iter().collect()
}

/// A source of encoded texts with their classes.
pub(in crate::data) struct Labelled {
    pub(in crate::data) items: Vec<TextItem>,
    pub(in crate::data) split: Split,
}

impl Source for Labelled {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        Ok(Item::Text(self.items[sample as usize].clone()))
    }

    fn size(&self, sample: u64) -> usize {
        self.items[sample as usize].inputs.len()
    }

    fn split(&self) -> Split {
        self.split
    }
}
