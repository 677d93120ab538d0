//! `[data]` of an experiment: one kind, each with its own keys, all of them a [`DataSet`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::form::Gives;
use super::labelled::examples;
use super::synthetic::problems::{self, Problems};
use super::{
    ArithmeticConfig, CopyConfig, Data, DatesConfig, GrammarConfig, ImagesConfig, ImportedConfig,
    LabelledTextConfig, ListopsConfig, NumberWordsConfig, PairsConfig, Places, RandomImagesConfig,
    RandomPairsConfig, RandomTokensConfig, ReverseConfig, Shape, ShapesConfig, SortConfig, Split,
    TextConfig, TextItem, Tokenizers, View,
};
use crate::error::{Error, Result};
use crate::tokenizer::{Around, Tokenizer, TokenizerConfig};

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
    /// Parallel texts from files.
    Pairs(Box<PairsConfig>),
    /// Dates as people write them, and as ISO 8601 does.
    Dates(DatesConfig),
    /// Numbers in words and in digits.
    NumberWords(NumberWordsConfig),
    /// Uniformly random pairs, for measuring speed.
    RandomPairs(RandomPairsConfig),
    /// Images from files.
    Images(ImagesConfig),
    /// Drawn shapes.
    Shapes(ShapesConfig),
    /// Images of noise, for measuring speed.
    RandomImages(RandomImagesConfig),
    /// Texts with a class, from tables.
    LabelledText(LabelledTextConfig),
    /// Stories of a small made-up world.
    Grammar(GrammarConfig),
    /// Nested operations on digits.
    Listops(ListopsConfig),
    /// None: the run was imported.
    #[serde(rename = "none")]
    Imported(ImportedConfig),
}

/// The inputs of preparation beside the configuration.
pub struct Request<'a> {
    /// `[tokenizer]`.
    pub tokenizer: Option<&'a TokenizerConfig>,
    /// The run's own tokenizers on resume or evaluation: used as they are, never trained again.
    pub saved: &'a Tokenizers,
    /// What the run's data was when it began, on resume or evaluation: its classes keep their numbers, its images their
    /// form and normalisation, whatever the files hold today.
    pub run: Option<&'a Shape>,
    /// Where files are looked for.
    pub places: &'a Places,
    /// The experiment's seed.
    pub seed: u64,
    /// How texts are read.
    pub view: &'a View,
}

/// The facts of a kind of data, and its preparation.
pub trait DataSet {
    /// All faults of its own keys, each with its remedy.
    fn faults(&self) -> Vec<String>;

    /// The form of its examples.
    fn gives(&self) -> Gives {
        Gives::Text
    }

    /// Tokens of the longest input; 0 for images.
    fn context(&self) -> usize;

    /// Channels, height and width of its images, when its keys say them.
    fn image(&self) -> Option<[usize; 3]> {
        None
    }

    /// Whether documents of one row are hidden from each other.
    fn hides_documents(&self) -> bool {
        false
    }

    /// Whether it has such a split.
    fn has(&self, split: Split) -> bool;

    /// Its files, with the keys that name them.
    fn paths(&self) -> Vec<(&'static str, &Path)> {
        Vec::new()
    }

    /// Whether `[tokenizer]` turns it into tokens; otherwise it has tokens of its own, or none.
    fn needs_tokenizer(&self) -> bool {
        false
    }

    /// All faults of a `[tokenizer]` for it.
    fn tokenizer_faults(&self, tokenizer: &TokenizerConfig) -> Vec<String> {
        tokenizer.faults()
    }

    /// Whether tokens stand for text that a person reads.
    fn is_text(&self) -> bool {
        true
    }

    /// Whether it can be read with tokens masked.
    fn can_be_masked(&self) -> bool {
        false
    }

    /// Whether each training example continues where the one before ended.
    fn goes_on(&self) -> bool {
        false
    }

    /// Whether windows of an evaluation overlap.
    fn overlaps(&self) -> bool {
        false
    }

    /// Whether the data continues after the last target of a text: its texts are windows of a longer one.
    fn is_cut(&self) -> bool {
        false
    }

    /// Whether sources have a vocabulary of their own.
    fn separates_vocabularies(&self) -> bool {
        false
    }

    /// All faults of a view of it, each with its remedy.
    fn view_faults(&self, view: &View) -> Vec<String> {
        match view {
            View::Masked(view) if self.can_be_masked() => view.masking.faults(),
            View::Corrupted(view) if self.can_be_masked() => view.faults(self.context()),
            View::Masked(_) | View::Corrupted(_) => vec![
                "[data] this kind has no text in which tokens could be masked; see formwork list data".into(),
            ],
            View::AsItIs => Vec::new(),
        }
    }

    /// Whether a row has one right answer, so that the share of exact ones is a metric.
    fn has_answers(&self) -> bool {
        false
    }

    /// A text that a model trained on it can continue.
    fn prompt(&self) -> Option<String> {
        None
    }

    /// What the model reads around a text.
    fn around(&self, view: &View) -> Around {
        match view {
            View::Masked(_) => Around::Frame,
            View::Corrupted(view) => view.around(),
            View::AsItIs => Around::Nothing,
        }
    }

    /// Reads or generates it.
    ///
    /// # Errors
    /// Files that are missing or unreadable, a split too short for one example.
    fn prepare(&self, request: &Request) -> Result<Data>;
}

impl<P: Problems> DataSet for P {
    fn faults(&self) -> Vec<String> {
        Problems::faults(self)
    }

    fn context(&self) -> usize {
        problems::context(self)
    }

    fn has(&self, split: Split) -> bool {
        let sizes = self.held_out();
        match split {
            Split::Train => true,
            Split::Valid => sizes.valid_items > 0,
            Split::Test => sizes.test_items > 0,
        }
    }

    fn has_answers(&self) -> bool {
        true
    }

    fn prompt(&self) -> Option<String> {
        Some(self.question())
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        problems::prepare(self, request.seed)
    }
}

impl DataConfig {
    /// Whether it is that of an imported model, which has no data of its own.
    pub fn is_imported(&self) -> bool {
        matches!(self, Self::Imported(_))
    }

    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Arithmetic(_) => "arithmetic",
            Self::Copy(_) => "copy",
            Self::Reverse(_) => "reverse",
            Self::Sort(_) => "sort",
            Self::RandomTokens(_) => "random_tokens",
            Self::Pairs(_) => "pairs",
            Self::Dates(_) => "dates",
            Self::NumberWords(_) => "number_words",
            Self::RandomPairs(_) => "random_pairs",
            Self::Images(_) => "images",
            Self::Shapes(_) => "shapes",
            Self::RandomImages(_) => "random_images",
            Self::LabelledText(_) => "labelled_text",
            Self::Grammar(_) => "grammar",
            Self::Listops(_) => "listops",
            Self::Imported(_) => "none",
        }
    }

    /// The data set that acts.
    pub fn set(&self) -> &dyn DataSet {
        match self {
            Self::Text(c) => c,
            Self::Arithmetic(c) => c,
            Self::Copy(c) => c,
            Self::Reverse(c) => c,
            Self::Sort(c) => c,
            Self::RandomTokens(c) => c,
            Self::Pairs(c) => c.as_ref(),
            Self::Dates(c) => c,
            Self::NumberWords(c) => c,
            Self::RandomPairs(c) => c,
            Self::Images(c) => c,
            Self::Shapes(c) => c,
            Self::RandomImages(c) => c,
            Self::LabelledText(c) => c,
            Self::Grammar(c) => c,
            Self::Listops(c) => c,
            Self::Imported(c) => c,
        }
    }

    /// The same with every file put where `place` says.
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        match self {
            Self::Text(c) => Self::Text(c.with_paths(place)),
            Self::Pairs(c) => Self::Pairs(Box::new(c.with_paths(place))),
            Self::Images(c) => Self::Images(c.with_paths(place)),
            Self::LabelledText(c) => Self::LabelledText(c.with_paths(place)),
            Self::Arithmetic(_)
            | Self::Copy(_)
            | Self::Reverse(_)
            | Self::Sort(_)
            | Self::RandomTokens(_)
            | Self::Dates(_)
            | Self::NumberWords(_)
            | Self::RandomPairs(_)
            | Self::Shapes(_)
            | Self::RandomImages(_)
            | Self::Grammar(_)
            | Self::Listops(_)
            | Self::Imported(_) => self.clone(),
        }
    }

    /// The same text, of which evaluations read a window of so many tokens from each token on; `None` where examples are no
    /// windows of a text.
    pub fn in_every_window(&self, context: usize) -> Option<Self> {
        let Self::Text(c) = self else { return None };
        Some(Self::Text(super::TextConfig {
            context,
            eval_stride: Some(1),
            ..c.clone()
        }))
    }

    /// A text, or a pair of texts, as a model that was trained on it reads it.
    ///
    /// # Errors
    /// A text that the tokenizer cannot encode, an empty one, a second text where the data has single ones, and the
    /// other way round.
    pub fn read_text(
        &self,
        text: &str,
        pair: Option<&str>,
        tokenizer: &Tokenizer,
    ) -> Result<TextItem> {
        match self {
            Self::LabelledText(c) => c.read(text, pair, tokenizer),
            _ if pair.is_some() => {
                Err(Error::usage("the run reads single texts: leave --pair out"))
            }
            _ => {
                let ids = tokenizer.encode(text)?.into_iter().map(|id| id as i32);
                examples::framed(ids.collect(), None, self.context(), tokenizer.frame())
            }
        }
    }

    /// Tokens of the longest input; 0 for images.
    pub fn context(&self) -> usize {
        self.set().context()
    }

    /// All faults of sense of `[data]` with this `[tokenizer]`, each with its remedy.
    pub fn faults(&self, tokenizer: Option<&TokenizerConfig>) -> Vec<String> {
        let mut faults = self.set().faults();
        let kind = self.kind();
        match (self.set().needs_tokenizer(), tokenizer) {
            (true, None) => faults.push(format!(
                "[data] kind = \"{kind}\" needs a [tokenizer]; the simplest is kind = \"char\""
            )),
            (true, Some(t)) => faults.extend(self.set().tokenizer_faults(t)),
            (false, None) => {}
            (false, Some(other)) if *other == TokenizerConfig::characters() => {}
            (false, Some(other)) => faults.push(format!(
                "[tokenizer] kind = \"{}\" has no effect: {kind} brings its own alphabet; leave [tokenizer] out",
                other.kind(),
            )),
        }
        faults
    }
}
