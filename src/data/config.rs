//! `[data]` of an experiment: one kind of data set, each with its own keys and each a [`DataSet`].

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::questions;
use super::{
    ArithmeticConfig, ArticleHalvesConfig, ArticlesConfig, CaptionedImagesConfig,
    CaptionedShapesConfig, ConversationsConfig, CopyConfig, DataSet, DatesConfig,
    DialledDigitsConfig, GrammarConfig, ImagesConfig, ImportedConfig, LabelledTextConfig,
    ListopsConfig, NumberWordsConfig, PairsConfig, PathfinderConfig, PeopleConfig,
    PreferencesConfig, QuestionsConfig, RandomImagesConfig, RandomPairsConfig, RandomTokensConfig,
    ReverseConfig, RightAndWrongConfig, ShapesConfig, SortConfig, TaggedTextConfig, TextConfig,
    ThemesConfig, TranscribedSpeechConfig,
};
use crate::tokenizer::TokenizerConfig;

/// Maximum number of examples in a held-out set.
const MOST_HELD_OUT: u64 = 1 << 17;

/// `[data]` of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Images from files, with captions from tables.
    CaptionedImages(Box<CaptionedImagesConfig>),
    /// Drawn shapes with captions.
    CaptionedShapes(CaptionedShapesConfig),
    /// Recordings of speech from files, with transcripts.
    TranscribedSpeech(Box<TranscribedSpeechConfig>),
    /// Telephone numbers as their dialling tones.
    DialledDigits(DialledDigitsConfig),
    /// Texts with a class, from tables.
    LabelledText(LabelledTextConfig),
    /// Sentences with a tag for each word.
    TaggedText(TaggedTextConfig),
    /// Messages of a user and an assistant.
    Conversations(Box<ConversationsConfig>),
    /// Prompts with a better and a worse continuation.
    Preferences(Box<PreferencesConfig>),
    /// Questions whose answers are spans of a context.
    Questions(QuestionsConfig),
    /// Stories of a small made-up world.
    Grammar(GrammarConfig),
    /// Letters about invented people.
    People(PeopleConfig),
    /// Nested operations on digits.
    Listops(ListopsConfig),
    /// Texts about any number of themes.
    Themes(ThemesConfig),
    /// Sums with a right and a wrong answer.
    RightAndWrong(RightAndWrongConfig),
    /// The beginning of an article from its other paragraphs.
    Articles(Box<ArticlesConfig>),
    /// Whether two halves are of one article.
    ArticleHalves(ArticleHalvesConfig),
    /// Whether a dashed path joins two circles.
    Pathfinder(PathfinderConfig),
    /// No examples: the run was imported.
    #[serde(rename = "none")]
    Imported(ImportedConfig),
}

impl DataConfig {
    /// Whether this is the data of an imported model, which has no examples of its own.
    pub fn is_imported(&self) -> bool {
        matches!(self, Self::Imported(_))
    }

    /// Returns the value of the key `kind`.
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
            Self::CaptionedImages(_) => "captioned_images",
            Self::CaptionedShapes(_) => "captioned_shapes",
            Self::TranscribedSpeech(_) => "transcribed_speech",
            Self::DialledDigits(_) => "dialled_digits",
            Self::LabelledText(_) => "labelled_text",
            Self::TaggedText(_) => "tagged_text",
            Self::Conversations(_) => "conversations",
            Self::Preferences(_) => "preferences",
            Self::Questions(_) => "questions",
            Self::Grammar(_) => "grammar",
            Self::People(_) => "people",
            Self::Listops(_) => "listops",
            Self::Themes(_) => "themes",
            Self::RightAndWrong(_) => "right_and_wrong",
            Self::Articles(_) => "articles",
            Self::ArticleHalves(_) => "article_halves",
            Self::Pathfinder(_) => "pathfinder",
            Self::Imported(_) => "none",
        }
    }

    /// Returns the data set itself.
    pub fn data_set(&self) -> &dyn DataSet {
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
            Self::CaptionedImages(c) => c.as_ref(),
            Self::CaptionedShapes(c) => c,
            Self::TranscribedSpeech(c) => c.as_ref(),
            Self::DialledDigits(c) => c,
            Self::LabelledText(c) => c,
            Self::TaggedText(c) => c,
            Self::Conversations(c) => c.as_ref(),
            Self::Preferences(c) => c.as_ref(),
            Self::Questions(c) => c,
            Self::Grammar(c) => c,
            Self::People(c) => c,
            Self::Listops(c) => c,
            Self::Themes(c) => c,
            Self::RightAndWrong(c) => c,
            Self::Articles(c) => c.as_ref(),
            Self::ArticleHalves(c) => c,
            Self::Pathfinder(c) => c,
            Self::Imported(c) => c,
        }
    }

    /// Returns the same configuration with every path replaced by `place(path)`.
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        match self {
            Self::Text(c) => Self::Text(c.with_paths(place)),
            Self::Pairs(c) => Self::Pairs(Box::new(c.with_paths(place))),
            Self::Images(c) => Self::Images(c.with_paths(place)),
            Self::CaptionedImages(c) => Self::CaptionedImages(Box::new(c.with_paths(place))),
            Self::TranscribedSpeech(c) => Self::TranscribedSpeech(Box::new(c.with_paths(place))),
            Self::LabelledText(c) => Self::LabelledText(c.with_paths(place)),
            Self::TaggedText(c) => Self::TaggedText(c.with_paths(place)),
            Self::Conversations(c) => Self::Conversations(Box::new(c.with_paths(place))),
            Self::Preferences(c) => Self::Preferences(Box::new(c.with_paths(place))),
            Self::Questions(c) => Self::Questions(c.with_paths(place)),
            Self::Articles(c) => Self::Articles(Box::new(c.with_paths(place))),
            Self::ArticleHalves(c) => Self::ArticleHalves(c.with_paths(place)),
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
            | Self::CaptionedShapes(_)
            | Self::DialledDigits(_)
            | Self::Grammar(_)
            | Self::People(_)
            | Self::Listops(_)
            | Self::Themes(_)
            | Self::RightAndWrong(_)
            | Self::Pathfinder(_)
            | Self::Imported(_) => self.clone(),
        }
    }

    /// Returns the same text data with evaluations that read a window of `context` tokens starting at every
    /// token; `None` if the examples are not windows of a text.
    pub fn with_unit_stride(&self, context: usize) -> Option<Self> {
        let Self::Text(c) = self else { return None };
        Some(Self::Text(super::TextConfig {
            context,
            eval_stride: Some(1),
            ..c.clone()
        }))
    }

    /// Returns how the contexts of questions are split into windows; `None` for data without questions.
    pub fn question_windowing(&self) -> Option<questions::Windowing> {
        match self {
            Self::Questions(c) => Some(c.windowing()),
            _ => None,
        }
    }

    /// Returns all faults of the data's own keys, each with its remedy.
    pub fn own_faults(&self) -> Vec<String> {
        let mut faults = self.data_set().faults();
        faults.extend(self.size_faults());
        faults
    }

    /// Faults of held-out sets that are too large for memory.
    fn size_faults(&self) -> Vec<String> {
        let keys = serde_json::to_value(self).unwrap_or_default();
        let sizes = ["valid_items", "test_items"].map(|key| (key, keys[key].as_u64()));
        let large = sizes
            .into_iter()
            .filter(|(_, size)| *size > Some(MOST_HELD_OUT));
        large
            .map(|(key, size)| {
                let size = size.unwrap_or_default();
                format!("[data] {key} = {size} must be at most {MOST_HELD_OUT}")
            })
            .collect()
    }

    /// Returns the maximum length of an input in tokens; 0 for images.
    pub fn context(&self) -> usize {
        self.data_set().context()
    }

    /// Returns all faults of `[data]` in combination with this `[tokenizer]`, each with its remedy.
    pub fn faults(&self, tokenizer: Option<&TokenizerConfig>) -> Vec<String> {
        let mut faults = self.own_faults();
        let kind = self.kind();
        match (self.data_set().needs_tokenizer(), tokenizer) {
            (true, None) => faults.push(format!(
                "[data] kind = \"{kind}\" needs a [tokenizer]; the simplest is kind = \"char\""
            )),
            (true, Some(t)) => faults.extend(self.data_set().tokenizer_faults(t)),
            (false, None) => {}
            (false, Some(other)) if *other == TokenizerConfig::characters() => {}
            (false, Some(other)) => faults.push(format!(
                "[tokenizer] kind = \"{}\" has no effect: {kind} has its own alphabet; remove [tokenizer]",
                other.kind(),
            )),
        }
        faults
    }
}
