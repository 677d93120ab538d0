//! `[data]` of an experiment: one kind, each with its own keys, all of them a [`DataSet`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::problems::{self, Problems};
use super::{
    ArithmeticConfig, CopyConfig, Data, DatesConfig, ImagesConfig, NumberWordsConfig, PairsConfig,
    Places, RandomImagesConfig, RandomPairsConfig, RandomTokensConfig, ReverseConfig, ShapesConfig,
    SortConfig, Split, TextConfig, Tokenizers, View,
};
use crate::error::{Error, Fault, Result};
use crate::tokenizer::{CharConfig, Kind, TokenizerConfig};

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
    Pairs(PairsConfig),
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
    Kind {
        kind: "pairs",
        summary: "parallel text: two files line by line, TSV or JSONL; plain or gzipped",
        source: "Sutskever et al., arXiv:1409.3215; Vaswani et al., arXiv:1706.03762",
        example: "[data]\nkind = \"pairs\"\nsource = \"multi30k/train.en\"\ntarget = \"multi30k/train.de\"",
    },
    Kind {
        kind: "dates",
        summary: "the 3rd of May 1998 to 1998-05-03: a translation that needs no file",
        source: "",
        example: "[data]\nkind = \"dates\"",
    },
    Kind {
        kind: "number_words",
        summary: "four hundred and seven to 407",
        source: "",
        example: "[data]\nkind = \"number_words\"",
    },
    Kind {
        kind: "random_pairs",
        summary: "uniformly random pairs, for measuring speed",
        source: "",
        example: "[data]\nkind = \"random_pairs\"\nvocab_size = 8000\nsource_len = 32\ntarget_len = 32",
    },
    Kind {
        kind: "images",
        summary: "images with classes: IDX, CIFAR, folders of PNG and JPEG; crop, flip, RandAugment, erasing, mixup, cutmix",
        source: "augmentation: Cubuk et al., arXiv:1909.13719; Zhong et al., arXiv:1708.04896; Zhang et al., \
                 arXiv:1710.09412; Yun et al., arXiv:1905.04899",
        example: "[data]\nkind = \"images\"\npath = \"fashion_mnist/train-images-idx3-ubyte.gz\"\n\
                  labels = \"fashion_mnist/train-labels-idx1-ubyte.gz\"\naugment = { crop = 2, flip = true }",
    },
    Kind {
        kind: "shapes",
        summary: "drawn circles, squares, triangles and others, anywhere, turned, in noise",
        source: "",
        example: "[data]\nkind = \"shapes\"\nsize = 28",
    },
    Kind {
        kind: "random_images",
        summary: "images of noise, for measuring speed",
        source: "",
        example: "[data]\nkind = \"random_images\"\nheight = 28\nwidth = 28",
    },
];

/// What the examples of a data set are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Texts, for language models.
    Text,
    /// Texts with a class.
    Labelled,
    /// Pairs of texts.
    Pairs,
    /// Images with a class.
    Images,
}

impl std::fmt::Display for Gives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text => "texts",
            Self::Labelled => "texts with a class",
            Self::Pairs => "pairs of texts",
            Self::Images => "images",
        })
    }
}

/// What preparation needs beside the configuration.
pub struct Request<'a> {
    /// `[tokenizer]`.
    pub tokenizer: Option<&'a TokenizerConfig>,
    /// The run's own tokenizers on resume or evaluation: used as they are, never trained again.
    pub saved: &'a Tokenizers,
    /// Where files are looked for.
    pub places: &'a Places,
    /// The experiment's seed.
    pub seed: u64,
    /// How texts are read.
    pub view: &'a View,
}

/// What a kind of data says of itself.
pub trait DataSet {
    /// All faults of its own keys, each with its remedy.
    fn faults(&self) -> Vec<String>;

    /// What its examples are.
    fn gives(&self) -> Gives {
        Gives::Text
    }

    /// Tokens of the longest input; 0 for images.
    fn context(&self) -> usize;

    /// Channels, height and width of its images, when its keys say them.
    fn image(&self) -> Option<[usize; 3]> {
        None
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

    /// Whether sources have a vocabulary of their own.
    fn separates_vocabularies(&self) -> bool {
        false
    }

    /// All faults of a view of it, each with its remedy.
    fn view_faults(&self, view: &View) -> Vec<String> {
        match view {
            View::Masked(view) if self.can_be_masked() => view.masking.faults(),
            View::Masked(_) => vec![
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
            Self::Pairs(c) => c,
            Self::Dates(c) => c,
            Self::NumberWords(c) => c,
            Self::RandomPairs(c) => c,
            Self::Images(c) => c,
            Self::Shapes(c) => c,
            Self::RandomImages(c) => c,
        }
    }

    /// The same with every file put where `place` says.
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        match self {
            Self::Text(c) => Self::Text(c.with_paths(place)),
            Self::Pairs(c) => Self::Pairs(c.with_paths(place)),
            Self::Images(c) => Self::Images(c.with_paths(place)),
            Self::Arithmetic(_)
            | Self::Copy(_)
            | Self::Reverse(_)
            | Self::Sort(_)
            | Self::RandomTokens(_)
            | Self::Dates(_)
            | Self::NumberWords(_)
            | Self::RandomPairs(_)
            | Self::Shapes(_)
            | Self::RandomImages(_) => self.clone(),
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
            (false, Some(TokenizerConfig::Char(c))) if *c == CharConfig::default() => {}
            (false, Some(other)) => faults.push(format!(
                "[tokenizer] kind = \"{}\" has no effect: {kind} brings its own alphabet; leave [tokenizer] out",
                other.kind(),
            )),
        }
        faults
    }
}

/// Prepares data and tokenizer.
///
/// # Errors
/// Faults of the configuration, files that are missing or unreadable, a split too short for one
/// example, a view that the data does not have.
pub fn prepare(config: &DataConfig, request: &Request) -> Result<Data> {
    let set = config.set();
    // A run that goes on may come with its tokenizer and without the configuration of it.
    let faults = match request.saved.text {
        Some(_) => set.faults(),
        None => config.faults(request.tokenizer),
    };
    if !faults.is_empty() {
        return Err(Error::Invalid(faults.into_iter().map(Fault::new).collect()));
    }
    let faults = set.view_faults(request.view);
    if !faults.is_empty() {
        return Err(Error::Invalid(faults.into_iter().map(Fault::new).collect()));
    }
    set.prepare(request)
}
