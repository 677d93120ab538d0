//! `kind = "article_halves"`: whether two texts are halves of the same article or of different ones.
//!
//! The retrieval task of Tay et al., "Long Range Arena", arXiv:2011.04006, section 2.2, on articles in WikiText's form; there,
//! papers of 4,000 bytes each are classified as citing each other or not. An article, without its headings, is cut in the
//! middle. An example has a window of the first half of one article and a window of a second half. In evaluation both windows
//! start at the beginning of their halves, in training anywhere. In training, the second half is from the same article with
//! probability 1/2; each held-out article gives one example of each class. Splits hold whole articles. `[task] towers = true`
//! encodes both texts separately and compares them, as in the paper.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data::files::articles::{self, Article, DEEPEST};
use crate::data::text::{TextConfig, texts};
use crate::data::{
    Data, DataSet, ExampleForm, Item, Paths, PerSplit, Request, Shape, Source, Split, TextItem,
    Tokenizers, View,
};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::{Frame, TokenFraming, Tokenizer};

/// `kind = "article_halves"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArticleHalvesConfig {
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
    /// Maximum length of an example in tokens, both texts with their special tokens; each text has half of them.
    pub context: usize,
}

impl Default for ArticleHalvesConfig {
    fn default() -> Self {
        Self {
            path: Paths::default(),
            valid_path: None,
            test_path: None,
            valid_fraction: None,
            test_fraction: None,
            context: 1024,
        }
    }
}

/// Names of the classes, in the order of their labels.
const CLASSES: [&str; 2] = ["two articles", "one article"];
/// The special tokens of two texts, at most four, and a token of each.
const MIN_CONTEXT: usize = 6;
/// Seed of evaluations: held-out sets are the same for every run's seed.
const FIXED_SEED: u64 = 0;

impl ArticleHalvesConfig {
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

    /// Reads two texts as the model does.
    ///
    /// # Errors
    /// If the tokenizer cannot encode a text, a text is empty, or the second one is missing.
    pub fn read(&self, text: &str, pair: Option<&str>, tokenizer: &Tokenizer) -> Result<TextItem> {
        let Some(pair) = pair else {
            return Err(Error::usage("the run reads pairs of texts; add --pair"));
        };
        let encode = |text: &str| -> Result<Vec<i32>> {
            let ids: Vec<i32> = tokenizer
                .encode(text)?
                .into_iter()
                .map(|id| id as i32)
                .collect();
            match ids.is_empty() {
                true => Err(Error::usage("a text is empty")),
                false => Ok(ids),
            }
        };
        let (first, second) = (encode(text)?, encode(pair)?);
        let frame = frame(tokenizer)?;
        let room = self.room(frame);
        let cut = |ids: &[i32]| ids[..ids.len().min(room)].to_vec();
        Ok(framed(frame, &cut(&first), &cut(&second)))
    }

    /// Returns the maximum number of tokens of each text.
    fn room(&self, frame: Frame) -> usize {
        self.context.saturating_sub(frame.len(true)) / 2
    }
}

fn frame(tokenizer: &Tokenizer) -> Result<Frame> {
    tokenizer.frame().ok_or_else(|| {
        Error::usage(
            "[data] kind = \"article_halves\" needs a vocabulary with special tokens for the ends of a text ([CLS] and [SEP], \
             or <s> and </s>)",
        )
    })
}

fn framed(frame: Frame, first: &[i32], second: &[i32]) -> TextItem {
    let (inputs, segments) = frame.around_both(first, second);
    TextItem {
        inputs,
        segments: Some(segments),
        ..TextItem::default()
    }
}

impl DataSet for ArticleHalvesConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.files().faults();
        if self.context < MIN_CONTEXT {
            faults.push(format!(
                "[data] context = {} is too short for two texts and their special tokens; the minimum is {MIN_CONTEXT}",
                self.context
            ));
        }
        faults
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Labelled
    }

    fn context(&self) -> usize {
        self.context
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

    fn has_two_texts(&self) -> bool {
        true
    }

    fn framing(&self, _view: &View) -> TokenFraming {
        TokenFraming::Frame
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let files = self.files();
        let mut articles = texts::TextCorpus::find(&files, request, true)?;
        let tokenizer = articles.tokenizer(request, |config| config.with_frame(false))?;
        let frame = frame(&tokenizer)?;
        let mut sources = PerSplit::<Option<Arc<dyn Source>>>::default();
        let (mut tokens, mut cut) = (PerSplit::default(), PerSplit::default());
        for split in Split::ALL.into_iter().filter(|split| self.has(*split)) {
            let texts = encoded(&articles.documents(split)?, &tokenizer, split)?;
            if texts.len() < 2 {
                return Err(Error::usage(format!(
                    "[data] the {} split has {} article(s) of at least two tokens, but it needs two articles; use \
                     more text or a larger fraction",
                    split.name(),
                    texts.len()
                )));
            }
            *tokens.get_mut(split) = texts.iter().map(|text| text.len() as u64).sum();
            let halves = Halves {
                texts,
                frame,
                room: self.room(frame),
                split,
                seed: request.seed,
            };
            *cut.get_mut(split) = halves.truncated_count();
            *sources.get_mut(split) = Some(Arc::new(halves));
        }
        let Some(train) = sources.train else {
            return Err(Error::run("[data] there is no article to train on"));
        };
        let shape = Shape {
            classes: CLASSES.map(String::from).to_vec(),
            ..Shape::of_text(self.context, tokenizer.vocab_size())
        };
        Ok(Data {
            valid: sources.valid,
            test: sources.test,
            tokenizers: Tokenizers::single(tokenizer),
            tokens,
            cut,
            ..Data::new(train, shape)
        })
    }
}

/// Encodes the articles of a split and keeps those that have a token for each half.
fn encoded(documents: &[Vec<u8>], tokenizer: &Tokenizer, split: Split) -> Result<Vec<Vec<i32>>> {
    let texts = documents
        .par_iter()
        .map(|document| {
            let article = Article::read(document, DEEPEST)?;
            let text: Vec<&str> = article.paragraphs().collect();
            let ids = tokenizer.encode(&text.join(" "))?;
            Ok(ids.into_iter().map(|id| id as i32).collect())
        })
        .collect::<Result<Vec<Vec<i32>>>>()
        .map_err(|e| Error::run(format!("the {} articles: {e}", split.name())))?;
    Ok(texts.into_iter().filter(|ids| ids.len() > 1).collect())
}

/// A source of halves of the articles of a split.
struct Halves {
    texts: Vec<Vec<i32>>,
    frame: Frame,
    /// Maximum length of a window in tokens.
    room: usize,
    split: Split,
    seed: u64,
}

impl Halves {
    /// Draws an article other than `article`.
    fn other_article(&self, article: usize, stream: &mut Stream) -> usize {
        let count = self.texts.len();
        (article + 1 + stream.below(count as u64 - 1) as usize) % count
    }

    /// Returns the articles of an example's first and second half, and the stream that chose them.
    fn article_pair(&self, sample: u64, draw: u64) -> (usize, usize, Stream) {
        let split = self.split as u64;
        let (seed, article, draw) = match self.split {
            Split::Train => (self.seed, sample, draw),
            Split::Valid | Split::Test => (FIXED_SEED, sample / 2, 0),
        };
        let mut stream = Stream::new(seed, Purpose::Pairing, (article, draw, split));
        let same = match self.split {
            Split::Train => stream.below(2) == 1,
            Split::Valid | Split::Test => sample % 2 == 1,
        };
        let first = article as usize;
        let second = match same {
            true => first,
            false => self.other_article(first, &mut stream),
        };
        (first, second, stream)
    }

    /// Returns the first or the second half of an article.
    fn half(&self, article: usize, second: bool) -> &[i32] {
        let (first, rest) = self.texts[article].split_at(self.texts[article].len() / 2);
        if second { rest } else { first }
    }

    /// Counts the examples with a half longer than its window; in training, the articles, whose windows are drawn anew each
    /// time.
    fn truncated_count(&self) -> usize {
        let is_cut = |sample: &u64| {
            let (first, second) = match self.split {
                Split::Train => (*sample as usize, *sample as usize),
                Split::Valid | Split::Test => {
                    let (first, second, _) = self.article_pair(*sample, 0);
                    (first, second)
                }
            };
            let longest = self
                .half(first, false)
                .len()
                .max(self.half(second, true).len());
            longest > self.room
        };
        (0..self.len() as u64).filter(is_cut).count()
    }

    /// Returns a window of the first or second half of an article: in training anywhere in it, otherwise at its beginning.
    fn window(&self, article: usize, second: bool, stream: &mut Stream) -> &[i32] {
        let half = self.half(article, second);
        let spare = half.len().saturating_sub(self.room);
        let begin = match self.split {
            Split::Train => stream.below(spare as u64 + 1) as usize,
            Split::Valid | Split::Test => 0,
        };
        &half[begin..half.len().min(begin + self.room)]
    }
}

impl Source for Halves {
    /// In training, an epoch begins with every article once; held-out splits have two examples of each.
    fn len(&self) -> usize {
        match self.split {
            Split::Train => self.texts.len(),
            Split::Valid | Split::Test => 2 * self.texts.len(),
        }
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let (first, second, mut stream) = self.article_pair(sample, draw);
        let same = first == second;
        let first = self.window(first, false, &mut stream);
        let second = self.window(second, true, &mut stream);
        Ok(Item::Text(TextItem {
            label: Some(i32::from(same)),
            ..framed(self.frame, first, second)
        }))
    }

    /// The maximum length that the example may be drawn with.
    fn size(&self, sample: u64) -> usize {
        let article = match self.split {
            Split::Train => sample,
            Split::Valid | Split::Test => sample / 2,
        };
        let first = (self.texts[article as usize].len() / 2).min(self.room);
        first + self.room + self.frame.len(true)
    }

    fn split(&self) -> Split {
        self.split
    }
}
