//! `kind = "questions"`: questions whose answers are spans of a context, in SQuAD's format or in rows.
//!
//! A row is `[CLS] question [SEP] window [SEP]` with segments 0 and 1, where the window is a part of the
//! context. A context that is too long for one row has several, each of which shares `overlap` tokens with
//! the one before. Validation and test shares are taken of articles, since questions of one article share
//! contexts.
//!
//! Whether questions may have no answer is determined by the training questions, and stored with the run.
//!
//! `squad_part/dev_v2_5_articles.json.gz` holds 1,407 questions, some without an answer.

mod rows;
mod squad;
mod windows;

use super::files::{discovery, documents};
use super::labelled::examples::{self, Labelled};
use super::parts::{Parted, parted};
use super::{
    Data, DataSet, ExampleForm, Paths, PerSplit, Request, Shape, Source, Split, TextItem, View,
    split,
};
use crate::error::{Error, Result};
use crate::tokenizer::{TokenFraming, Tokenizer};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use squad::Question;
use std::path::{Path, PathBuf};
use std::sync::Arc;
pub use windows::{Query, Windowing, read};

/// `kind = "questions"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QuestionsConfig {
    /// A JSON file in SQuAD's format, or JSON lines, Parquet or Arrow with `question`, `context` and `answers` in each row; a folder or
    /// a pattern, or a list of them; plain or packed.
    pub path: Paths,
    /// Validation questions.
    pub valid_path: Option<Paths>,
    /// Test questions.
    pub test_path: Option<Paths>,
    /// Share of the articles of `path` to validate on, drawn at random but always the same. Default 0.1
    /// without `valid_path`.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub valid_fraction: Option<f64>,
    /// Share of the articles of `path` to test on.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub test_fraction: Option<f64>,
    /// Questions to train on, drawn at random and the same for every seed. Default: all.
    pub train_items: Option<usize>,
    /// Maximum length of a row in tokens.
    pub context: usize,
    /// Number of tokens that two consecutive windows of a context share.
    pub overlap: usize,
}

impl Default for QuestionsConfig {
    fn default() -> Self {
        Self {
            path: Paths::default(),
            valid_path: None,
            test_path: None,
            valid_fraction: None,
            test_fraction: None,
            train_items: None,
            context: 384,
            overlap: 128,
        }
    }
}

/// Maximum number of special tokens around two texts.
const MARKS: usize = 4;

parted!(QuestionsConfig);

impl QuestionsConfig {
    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        self.placed(place)
    }

    /// Returns how contexts are divided into windows.
    pub fn windowing(&self) -> Windowing {
        Windowing {
            context: self.context,
            overlap: self.overlap,
        }
    }

    /// Reads the questions of each split.
    fn questions(&self, request: &Request) -> Result<PerSplit<Vec<Question>>> {
        let read = |_: Split, path: &Path| match documents::has_rows(path) {
            true => rows::read(path),
            false => squad::read(path),
        };
        let articles = self.parts().read(request, ["questions", "article"], read)?;
        let flat = |articles: Vec<Vec<Question>>| articles.into_iter().flatten().collect();
        Ok(PerSplit {
            train: flat(articles.train),
            valid: flat(articles.valid),
            test: flat(articles.test),
        })
    }

    /// Builds the source of a split.
    fn source(
        &self,
        questions: &[Question],
        tokenizer: &Tokenizer,
        may_lack: bool,
        split: Split,
    ) -> Result<Arc<dyn Source>> {
        let offsets = tokenizer.offsets()?;
        windows::require_frame(tokenizer)?;
        let rows = |(number, asked): (usize, &Question)| {
            let query = Query {
                number: number as u64,
                id: match &asked.id {
                    Some(id) => id.as_str().into(),
                    None => number.to_string().into(),
                },
                question: &asked.question,
                context: asked.context.clone(),
                answer_bytes: asked.answer_bytes,
                accepted_answers: asked.accepted_answers.clone(),
                may_have_no_answer: may_lack,
            };
            let rows = read(&query, self.windowing(), tokenizer, &offsets);
            rows.map_err(|e| Error::run(format!("[data] question `{}`: {e}", asked.name())))
        };
        let rows: Vec<Result<Vec<TextItem>>> = questions.par_iter().enumerate().map(rows).collect();
        let rows = rows.into_iter().collect::<Result<Vec<_>>>()?;
        let items = rows.into_iter().flatten().collect();
        Ok(Arc::new(Labelled { items, split }))
    }
}

impl DataSet for QuestionsConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.parts().faults("a file in SQuAD's format");
        let half = self.context.saturating_sub(MARKS) / 2;
        if half <= self.overlap {
            faults.push(format!(
                "[data] overlap = {} leaves no new token in a window: it must be below half of context = {} without the {MARKS} special tokens",
                self.overlap, self.context
            ));
        }
        faults
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Questions
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
        true
    }

    fn framing(&self, _view: &View) -> TokenFraming {
        TokenFraming::Frame
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let mut questions = self.questions(request)?;
        let mut contexts: Vec<&Arc<str>> = questions.train.iter().map(|q| &q.context).collect();
        contexts.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let asked = questions.train.iter().map(|q| q.question.as_str());
        let texts = contexts.into_iter().map(AsRef::as_ref).chain(asked);
        let tokenizer = examples::tokenizer("questions", request, true, texts)?;
        let unanswered = || {
            questions
                .train
                .iter()
                .any(|question| question.answer_bytes.is_none())
        };
        let said = request.run_shape.and_then(|run| run.unanswerable);
        let may_lack = said.unwrap_or_else(unanswered);
        if let Some(wanted) = self.train_items {
            split::limit(&mut questions.train, wanted, "questions")?;
        }
        let shape = Shape {
            unanswerable: Some(may_lack),
            ..Shape::of_text(self.context, tokenizer.vocab_size())
        };
        let source = |split| self.source(questions.get(split), &tokenizer, may_lack, split);
        self.parts().data(shape, tokenizer.clone(), source)
    }
}
