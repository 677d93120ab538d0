//! `kind = "tagged_text"`: sentences with a tag for each word, from CoNLL files, CoNLL-U, JSON lines, Parquet
//! and Arrow.
//!
//! A model reads a sentence word by word. Each word is encoded separately, from the second one on with a
//! blank before it, and its first token has its tag; its other tokens, and the special tokens around the
//! sentence, have none. A sentence is cut to the context: words beyond it, and words that have no token, are
//! neither read nor scored.
//!
//! `wnut17/wnut17train.conll` holds lines like `Empire⇥B-location`: the word, the tag; an empty line ends a
//! sentence.

mod tables;
pub mod words;

use super::labelled::column::Column;
use super::labelled::examples::{self, Labelled};
use super::labelled::labels::Labels;
use super::parts::{Parted, parted};
use super::{
    Data, DataSet, ExampleForm, Paths, PerSplit, Request, Shape, Source, Split, TextItem, View,
    split,
};
use crate::data::NOT_SCORED;
use crate::data::files::{columnar, discovery};
use crate::error::{Error, Result};
use crate::tokenizer::{TokenFraming, Tokenizer};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tables::{Format, Layout, Sentence};
use words::{Tagged, TaggedWords};

/// `kind = "tagged_text"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TaggedTextConfig {
    /// A file, a folder or a pattern, or a list of them: CoNLL and CoNLL-U, JSONL, plain or packed; Parquet and Arrow.
    pub path: Paths,
    /// Validation sentences.
    pub valid_path: Option<Paths>,
    /// Test sentences.
    pub test_path: Option<Paths>,
    /// Share of the sentences of `path` to validate on, drawn at random but always the same. Default 0.1
    /// without `valid_path`.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub valid_fraction: Option<f64>,
    /// Share of the sentences of `path` to test on.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub test_fraction: Option<f64>,
    /// Sentences to train on, drawn at random and the same for every seed. Default: all.
    pub train_items: Option<usize>,
    /// Format of the files. Default: according to their file names, and CoNLL if these tell nothing.
    pub format: Option<Format>,
    /// Column of the words. Default 1; in CoNLL-U 2 (FORM); `tokens` if columns have names.
    pub word: Option<Column>,
    /// Column of the tags. Default 2; in CoNLL-U 4 (UPOS); `tags` if columns have names.
    pub tag: Option<Column>,
    /// Names of the tags in order. Default: those of a Hugging Face table, else the sorted tags of the
    /// training words.
    pub classes: Vec<String>,
    /// Maximum length of an example in tokens.
    pub context: usize,
}

impl Default for TaggedTextConfig {
    fn default() -> Self {
        Self {
            path: Paths::default(),
            valid_path: None,
            test_path: None,
            valid_fraction: None,
            test_fraction: None,
            train_items: None,
            format: None,
            word: None,
            tag: None,
            classes: Vec::new(),
            context: 128,
        }
    }
}

/// A sentence with its file.
type LocatedSentence = (PathBuf, Sentence);

parted!(TaggedTextConfig);

impl TaggedTextConfig {
    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        self.placed(place)
    }

    /// Returns the format and the columns of a file.
    fn layout(&self, path: &Path) -> Layout {
        let format = self.format.unwrap_or_else(|| Format::of(path));
        let named = format == Format::Jsonl || columnar::is_columnar(path);
        let usual = |number: usize, name: &str| match named {
            true => Column::Name(name.into()),
            false => Column::Number(number),
        };
        let [word, tag] = match format {
            Format::Conllu => [2, 4],
            Format::Conll | Format::Jsonl => [1, 2],
        };
        Layout {
            format,
            word: self.word.clone().unwrap_or_else(|| usual(word, "tokens")),
            tag: self.tag.clone().unwrap_or_else(|| usual(tag, "tags")),
        }
    }

    fn column_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let Some(first) = self.path.0.first() else {
            return faults;
        };
        let columnar = columnar::is_columnar(first);
        if columnar && self.format.is_some() {
            faults.push("[data] format has no effect on Parquet and Arrow; remove it".into());
        }
        let layout = self.layout(first);
        let named = layout.format == Format::Jsonl || columnar;
        // In a folder, each file tells its own format.
        let said = self.format.is_some() || columnar || Format::is_named_by(first);
        for (key, column) in [("word", &layout.word), ("tag", &layout.tag)] {
            match column {
                Column::Name(_) if said && !named => faults.push(format!(
                    "[data] {key} = {column} is a name, but the columns of CoNLL files have numbers; use a number"
                )),
                Column::Number(_) if said && named => faults.push(format!(
                    "[data] {key} = {column} is a number, but the fields of JSON lines, Parquet and Arrow have names; use a name"
                )),
                Column::Number(0) => faults.push(format!("[data] {key} = 0 must be at least 1: columns count from 1")),
                Column::Number(_) | Column::Name(_) => {}
            }
        }
        if layout.word == layout.tag {
            let column = layout.tag;
            faults.push(format!(
                "[data] word and tag both name the column {column}; name two different columns"
            ));
        }
        faults
    }

    /// Reads the sentences of each split, and the tag names that are given or that a table stores.
    fn sentences(
        &self,
        request: &Request,
    ) -> Result<(PerSplit<Vec<LocatedSentence>>, Vec<String>)> {
        let mut names = self.classes.clone();
        let read = |_: Split, path: &Path| {
            let (mut sentences, said) = tables::read(path, &self.layout(path))?;
            let said = said.filter(|said| examples::are_named(said, &self.classes, request));
            if let Some(said) = said {
                tables::name(&mut sentences, &said, path)?;
                if names.is_empty() {
                    names = said;
                }
            }
            let filed = sentences.into_iter().map(|one| (path.to_path_buf(), one));
            Ok(filed.collect())
        };
        let parts = self
            .parts()
            .read(request, ["sentences", "sentence"], read)?;
        Ok((parts, names))
    }

    /// Returns the tags of the run, or those of the training words.
    fn tags(
        &self,
        request: &Request,
        train: &[LocatedSentence],
        given: &[String],
    ) -> Result<Labels> {
        let written = || {
            train
                .iter()
                .flat_map(|(_, one)| one.tags.iter().map(String::as_str))
        };
        if let Some(run) = request.run_shape {
            return Labels::of_run(run, written(), given);
        }
        if given.is_empty() && written().collect::<BTreeSet<_>>().len() < 2 {
            return Err(Error::usage(format!(
                "[data] every training word has the tag `{}`, so there is nothing to learn; check that `tag` is the right column",
                written().next().unwrap_or_default()
            )));
        }
        Labels::new(written(), given)
    }

    /// Builds the source of a split.
    fn source(
        &self,
        sentences: &[LocatedSentence],
        tags: &Labels,
        tokenizer: &Tokenizer,
        split: Split,
    ) -> Result<Arc<dyn Source>> {
        let item = |one: &Sentence| -> Result<(TextItem, TaggedWords)> {
            let (item, firsts) = words::read(&one.words, self.context, tokenizer)?;
            let mut targets = vec![NOT_SCORED; item.inputs.len()];
            let tags = one.tags.iter().map(|tag| tags.class(tag));
            let tags = tags.collect::<Result<Vec<i32>>>()?;
            for (first, tag) in firsts.iter().zip(&tags) {
                if let Some(first) = first {
                    targets[*first] = *tag;
                }
            }
            let words = TaggedWords {
                words: one.words.clone(),
                tags,
                read: firsts.iter().map(Option::is_some).collect(),
            };
            Ok((TextItem { targets, ..item }, words))
        };
        let items = sentences.par_iter().map(|(path, one)| {
            item(one).map_err(|e| Error::run(format!("{}:{}: {e}", path.display(), one.line)))
        });
        // The first fault in the order of the file, independent of threads.
        let items: Vec<Result<(TextItem, TaggedWords)>> = items.collect();
        let both = items.into_iter().collect::<Result<Vec<_>>>()?;
        let (items, words) = both.into_iter().unzip();
        let items = Labelled { items, split };
        Ok(Arc::new(Tagged { items, words }))
    }
}

impl DataSet for TaggedTextConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.parts().faults("a file of tagged sentences");
        faults.extend(self.column_faults());
        if self.context < 4 {
            faults.push(format!(
                "[data] context = {} is too short; the minimum is 4",
                self.context
            ));
        }
        let different: BTreeSet<&String> = self.classes.iter().collect();
        if different.len() < self.classes.len() || self.classes.len() == 1 {
            faults.push("[data] classes must contain at least two names, each only once".into());
        }
        faults
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Tagged
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

    fn framing(&self, _view: &View) -> TokenFraming {
        TokenFraming::FileLayout
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let (mut parts, given) = self.sentences(request)?;
        let tags = self.tags(request, &parts.train, &given)?;
        let texts: Vec<String> = parts
            .train
            .iter()
            .map(|(_, one)| one.words.join(" "))
            .collect();
        let texts = texts.iter().map(String::as_str);
        let tokenizer = examples::tokenizer("tagged_text", request, false, texts)?;
        if let Some(wanted) = self.train_items {
            split::limit(&mut parts.train, wanted, "sentences")?;
        }
        let shape = Shape {
            labels: tags.written(),
            classes: tags.names.clone(),
            ..Shape::of_text(self.context, tokenizer.vocab_size())
        };
        let source = |split| self.source(parts.get(split), &tags, &tokenizer, split);
        self.parts().data(shape, tokenizer.clone(), source)
    }
}
