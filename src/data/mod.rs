//! Data sets: files or generators in, examples and batches of token ids out.
//!
//! [`prepare`] turns `[data]` and `[tokenizer]` into a [`Data`]; [`loader`] turns its sources into
//! batches. An example is a function of (seed, sample number), an order of (seed, epoch), so
//! nothing here has state to save. Tensors are made by the task, on its own thread and device.

pub mod arithmetic;
pub mod batch;
pub mod cache;
pub mod copy;
mod corpus;
pub mod documents;
pub mod loader;
pub mod manifest;
pub mod masking;
mod order;
mod paths;
pub mod places;
pub mod problems;
pub mod pull;
pub mod random_tokens;
pub mod reverse;
pub mod seams;
pub mod sort;
pub mod split;
pub mod strings;
pub mod text;
pub mod windows;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Fault, Result};
use crate::tokenizer::{CharConfig, Kind, Tokenizer, TokenizerConfig};

pub use arithmetic::ArithmeticConfig;
pub use batch::{Batch, Content, Item, TextItem};
pub use copy::CopyConfig;
pub use masking::{MaskedView, MaskingConfig};
pub use paths::Paths;
pub use places::Places;
pub use random_tokens::RandomTokensConfig;
pub use reverse::ReverseConfig;
pub use sort::SortConfig;
pub use text::{TextConfig, Windows};

/// A target that is not scored: padding, a question, the next document's first token.
pub const NOT_SCORED: i32 = -100;

/// `[data]` of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DataConfig {
    /// Text from files.
    Text(TextConfig),
    /// Sums, differences and products of whole numbers.
    Arithmetic(ArithmeticConfig),
    /// Repeat a string.
    Copy(CopyConfig),
    /// Write a string backwards.
    Reverse(ReverseConfig),
    /// Sort the symbols of a string.
    Sort(SortConfig),
    /// Uniformly random tokens, for measuring speed.
    RandomTokens(RandomTokensConfig),
}

/// Every kind of data.
pub const KINDS: &[Kind] = &[
    Kind {
        kind: "text",
        summary: "text files, folders, JSONL; plain or gzipped",
        source: "windows as in nanoGPT; packed documents as in GPT-2 and GPT-3",
        example: "[data]\nkind = \"text\"\npath = \"tinyshakespeare/input.txt\"\ncontext = 256",
    },
    Kind {
        kind: "arithmetic",
        summary: "12+34=046: whole numbers, answers never seen in training",
        source: "Brown et al., arXiv:2005.14165, section 3.9; Lee et al., arXiv:2307.03381 (reversed answers)",
        example: "[data]\nkind = \"arithmetic\"\ndigits = 2",
    },
    Kind {
        kind: "copy",
        summary: "abc=abc",
        source: "Graves et al., arXiv:1410.5401, section 4.1",
        example: "[data]\nkind = \"copy\"\nlength = 12",
    },
    Kind {
        kind: "reverse",
        summary: "abc=cba",
        source: "Sutskever et al., arXiv:1409.3215, on reversing",
        example: "[data]\nkind = \"reverse\"\nlength = 12",
    },
    Kind {
        kind: "sort",
        summary: "bca=abc",
        source: "Graves et al., arXiv:1410.5401, section 4.5",
        example: "[data]\nkind = \"sort\"\nlength = 12",
    },
    Kind {
        kind: "random_tokens",
        summary: "uniformly random tokens, for measuring speed",
        source: "",
        example: "[data]\nkind = \"random_tokens\"\nvocab_size = 50257\ncontext = 1024",
    },
];

impl DataConfig {
    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Arithmetic(_) => "arithmetic",
            Self::Copy(_) => "copy",
            Self::Reverse(_) => "reverse",
            Self::Sort(_) => "sort",
            Self::RandomTokens(_) => "random_tokens",
        }
    }

    /// Length of a window in tokens; generators derive it from their sizes.
    pub fn context(&self) -> usize {
        match self {
            Self::Text(c) => c.context,
            Self::Arithmetic(c) => problems::context(c),
            Self::Copy(c) => problems::context(c),
            Self::Reverse(c) => problems::context(c),
            Self::Sort(c) => problems::context(c),
            Self::RandomTokens(c) => c.context,
        }
    }

    /// All faults of sense of `[data]` with this `[tokenizer]`, each with its remedy.
    pub fn faults(&self, tokenizer: Option<&TokenizerConfig>) -> Vec<String> {
        let mut faults = self.own_faults();
        match (self, tokenizer) {
            (Self::Text(_), None) => faults.push(
                "[data] kind = \"text\" needs a [tokenizer]; the simplest is kind = \"char\"".into(),
            ),
            (Self::Text(_), Some(t)) => faults.extend(t.faults()),
            (_, None) => {}
            (_, Some(TokenizerConfig::Char(c))) if *c == CharConfig::default() => {}
            (_, Some(other)) => faults.push(format!(
                "[tokenizer] kind = \"{}\" has no effect: {} brings its own alphabet; leave [tokenizer] out",
                other.kind(),
                self.kind()
            )),
        }
        faults
    }

    fn own_faults(&self) -> Vec<String> {
        match self {
            Self::Text(c) => c.faults(),
            Self::Arithmetic(c) => c.faults(),
            Self::Copy(c) => c.faults(),
            Self::Reverse(c) => c.faults(),
            Self::Sort(c) => c.faults(),
            Self::RandomTokens(c) => c.faults(),
        }
    }
}

/// Examples by number.
pub trait Source: Send + Sync {
    /// Examples in one pass. A source that draws has no end; its length is what one pass is taken
    /// to be.
    fn len(&self) -> usize;

    /// Whether there is nothing in it.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Example `sample`, as it is seen the `draw`th time that the run takes an example: a function of the two
    /// numbers. Masks and augmentations depend on `draw`; evaluations give the sample's number again. A source
    /// that draws takes any sample number.
    ///
    /// # Errors
    /// A file that changed or cannot be read.
    fn get(&self, sample: u64, draw: u64) -> Result<Item>;

    /// Tokens of an example where examples differ in length, for batches by tokens; of a pair, of its longer
    /// side.
    fn size(&self, _sample: u64) -> usize {
        1
    }

    /// What it is for.
    fn split(&self) -> Split {
        Split::Train
    }

    /// Whether examples are drawn (any number is a new one) rather than counted (`0..len`).
    fn drawn(&self) -> bool {
        false
    }
}

/// A part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// What the model learns from.
    Train,
    /// What choices are made on.
    Valid,
    /// What is reported once.
    Test,
}

impl Split {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Train, Self::Valid, Self::Test];

    /// `train`, `valid` or `test`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Valid => "valid",
            Self::Test => "test",
        }
    }
}

/// One value for each split.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerSplit<T> {
    /// Of the training part.
    pub train: T,
    /// Of the validation part.
    pub valid: T,
    /// Of the test part.
    pub test: T,
}

impl<T> PerSplit<T> {
    /// The value of a split.
    pub fn get(&self, split: Split) -> &T {
        match split {
            Split::Train => &self.train,
            Split::Valid => &self.valid,
            Split::Test => &self.test,
        }
    }

    /// The value of a split, to change.
    pub fn get_mut(&mut self, split: Split) -> &mut T {
        match split {
            Split::Train => &mut self.train,
            Split::Valid => &mut self.valid,
            Split::Test => &mut self.test,
        }
    }
}

/// What a model must know of its data to be built.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shape {
    /// Tokens of the longest input; of pairs, of the longer side.
    pub context: usize,
    /// Ids of texts, and of targets, are below this.
    pub vocab_size: usize,
    /// Ids of sources are below this, where sources have a vocabulary of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_vocab_size: Option<usize>,
    /// Channels, height and width of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<[usize; 3]>,
    /// Names of the classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
}

impl Shape {
    /// Of texts.
    pub fn of_text(context: usize, vocab_size: usize) -> Self {
        Self {
            context,
            vocab_size,
            ..Self::default()
        }
    }
}

/// The tokenizers of a run.
#[derive(Clone, Debug, Default)]
pub struct Tokenizers {
    /// Of texts; of both sides of pairs, or of the sources.
    pub text: Option<Tokenizer>,
    /// Of the targets of pairs, when they have a vocabulary of their own.
    pub target: Option<Tokenizer>,
}

impl Tokenizers {
    /// One tokenizer for everything.
    pub fn one(tokenizer: Tokenizer) -> Self {
        Self {
            text: Some(tokenizer),
            target: None,
        }
    }

    /// That of the targets.
    pub fn of_targets(&self) -> Option<&Tokenizer> {
        self.target.as_ref().or(self.text.as_ref())
    }
}

/// What a model is to learn from a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum View {
    /// The token after each one; or what the data itself says.
    #[default]
    AsItIs,
    /// Masked tokens, and how two segments follow each other.
    Masked(MaskedView),
}

/// Prepared data.
pub struct Data {
    /// What the model learns from.
    pub train: Arc<dyn Source>,
    /// In order, whole; `None` when the experiment has no such split.
    pub valid: Option<Arc<dyn Source>>,
    /// In order, whole.
    pub test: Option<Arc<dyn Source>>,
    /// What a model must know of it.
    pub shape: Shape,
    /// Text to ids; `None` where no text stands behind the ids.
    pub tokenizers: Tokenizers,
    /// Bytes of text that a token stands for on average: bits per byte = loss / ln 2 / this. `None`
    /// where tokens stand for no text.
    pub bytes_per_token: PerSplit<Option<f64>>,
    /// Tokens of each split; 0 for generators, which have no end.
    pub tokens: PerSplit<u64>,
}

impl Data {
    /// The source of a split.
    ///
    /// # Errors
    /// The data has no such split; the message says how to get one.
    pub fn source(&self, split: Split) -> Result<&Arc<dyn Source>> {
        let source = match split {
            Split::Train => Some(&self.train),
            Split::Valid => self.valid.as_ref(),
            Split::Test => self.test.as_ref(),
        };
        source.ok_or_else(|| {
            let name = split.name();
            Error::usage(format!(
                "[data] has no {name} split; set {name}_path or {name}_fraction (generators: {name}_items)"
            ))
        })
    }
}

/// Prepares data and tokenizer.
///
/// `saved` is the run's own tokenizer on resume or evaluation: it is used as it is, never trained
/// again.
///
/// # Errors
/// Faults of the configuration, files that are missing or unreadable, a split too short for one
/// window.
pub fn prepare(
    config: &DataConfig,
    tokenizer: Option<&TokenizerConfig>,
    saved: &Tokenizers,
    places: &Places,
    seed: u64,
    view: &View,
) -> Result<Data> {
    // A run that goes on may come with its tokenizer and without the configuration of it.
    let faults = match saved.text {
        Some(_) => config.own_faults(),
        None => config.faults(tokenizer),
    };
    if !faults.is_empty() {
        return Err(Error::Invalid(faults.into_iter().map(Fault::new).collect()));
    }
    if let (View::Masked(_), kind) = (view, config.kind()) {
        return Err(Error::usage(format!(
            "[data] kind = \"{kind}\" has no tokens to mask"
        )));
    }
    match config {
        DataConfig::Text(c) => corpus::prepare(c, tokenizer, saved.text.as_ref(), places, seed),
        DataConfig::Arithmetic(c) => problems::prepare(c, seed),
        DataConfig::Copy(c) => problems::prepare(c, seed),
        DataConfig::Reverse(c) => problems::prepare(c, seed),
        DataConfig::Sort(c) => problems::prepare(c, seed),
        DataConfig::RandomTokens(c) => Ok(random_tokens::prepare(c, seed)),
    }
}
