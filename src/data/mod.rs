//! Data sets: files or generators in, examples and batches of token ids out.
//!
//! [`prepare`] turns `[data]` and `[tokenizer]` into a [`Data`]; [`loader`] turns its sources into
//! batches. An example is a function of (seed, sample number), an order of (seed, epoch), so
//! nothing here has state to save. Tensors are made by the task, on its own thread and device.

pub mod batch;
pub mod burn_adapters;
pub mod captioned;
pub mod catalog;
mod collate;
mod config;
pub mod conversations;
pub mod corrupted;
mod described;
pub mod evaluated;
pub mod files;
mod form;
pub mod images;
mod imported;
mod kinds;
pub mod labelled;
mod lanes;
pub mod loader;
pub mod masked;
mod order;
mod other_files;
pub mod pairs;
mod parts;
pub mod preferences;
mod prepare;
mod prepared;
pub mod questions;
mod read_alone;
pub mod retrieval;
pub mod sample;
mod set;
mod share;
pub mod speech;
pub mod split;
pub mod synthetic;
pub mod tagged;
pub mod targets;
pub mod text;
mod view;
pub mod weighed;
mod written;

use crate::error::Result;
use crate::tokenizer::{ChatTemplate, Tokenizer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub use batch::{Batch, Content, Item, PairItem, SpeechShape, TextItem};
pub use captioned::CaptionedImagesConfig;
pub use catalog::search_path::Places;
pub use config::DataConfig;
pub use conversations::ConversationsConfig;
pub use corrupted::CorruptedView;
pub use files::paths::Paths;
pub use form::Gives;
pub use images::ImagesConfig;
pub use imported::ImportedConfig;
pub use kinds::KINDS;
pub use labelled::LabelledTextConfig;
pub use labelled::halves::ArticleHalvesConfig;
pub use masked::masking::{MaskedView, MaskingConfig, Pairs};
pub use pairs::articles::ArticlesConfig;
pub use pairs::{PairsConfig, Texts};
pub use preferences::{PreferencesConfig, Said};
pub use prepare::prepare;
pub use prepared::Data;
pub use questions::QuestionsConfig;
pub use retrieval::{Chunking, Database, DatabaseConfig};
pub use set::{DataSet, Request};
pub use speech::transcribed::TranscribedSpeechConfig;
pub use synthetic::arithmetic::ArithmeticConfig;
pub use synthetic::captioned_shapes::CaptionedShapesConfig;
pub use synthetic::copy::CopyConfig;
pub use synthetic::dates::DatesConfig;
pub use synthetic::dialled_digits::DialledDigitsConfig;
pub use synthetic::grammar::GrammarConfig;
pub use synthetic::listops::ListopsConfig;
pub use synthetic::number_words::NumberWordsConfig;
pub use synthetic::pathfinder::PathfinderConfig;
pub use synthetic::people::PeopleConfig;
pub use synthetic::random_images::RandomImagesConfig;
pub use synthetic::random_pairs::RandomPairsConfig;
pub use synthetic::random_tokens::RandomTokensConfig;
pub use synthetic::reverse::ReverseConfig;
pub use synthetic::right_and_wrong::RightAndWrongConfig;
pub use synthetic::shapes::ShapesConfig;
pub use synthetic::sort::SortConfig;
pub use synthetic::themes::ThemesConfig;
pub use tagged::TaggedTextConfig;
pub use tagged::words::TaggedWords;
pub use text::{TextConfig, Windows};
pub use view::View;
pub use written::Captions;

/// A target that is not scored: padding, a question, the next document's first token.
pub const NOT_SCORED: i32 = -100;

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

    /// The split that it belongs to.
    fn split(&self) -> Split {
        Split::Train
    }

    /// Whether an example takes long to make, as an augmented image does: [`Self::get`] is then called from several threads at
    /// once, and must not hold a lock while it waits for others.
    fn is_costly(&self) -> bool {
        false
    }

    /// The class of an example, where it is known without making the example.
    fn label(&self, _sample: u64) -> Option<i32> {
        None
    }

    /// The words of an example with their tags, where words have tags.
    fn tagged_words(&self, _sample: u64) -> Option<&TaggedWords> {
        None
    }

    /// The weights of the classes, where they have some.
    fn class_weights(&self) -> Option<&Arc<[f32]>> {
        None
    }

    /// Whether examples are drawn (any number is a new one) rather than counted (`0..len`).
    fn drawn(&self) -> bool {
        false
    }
}

/// A part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// The examples of training.
    Train,
    /// The examples that choices are made on.
    Valid,
    /// The examples that are reported once.
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

/// The facts of the data that a model is built for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Shape {
    /// Tokens of the longest input; of pairs, of the longer side.
    pub context: usize,
    /// Ids of texts, and of targets, are below this.
    pub vocab_size: usize,
    /// Ids of sources are below this, where sources have a vocabulary of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_vocab_size: Option<usize>,
    /// Whether texts that become other texts stand in what the tokenizer's file puts around a text; else a source has the end mark
    /// behind it and a target the marks around it, as in all runs of earlier versions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub framed: bool,
    /// Whether files are told apart by what they are: of a folder with files of rows those alone are its text, a `.json` file that
    /// begins with an object is JSON lines, and a folder with the files of several splits is refused; else all files of a folder
    /// are read and `.json` is plain text, as in all runs of earlier versions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub told_apart: bool,
    /// Whether a chat template wrote the examples of a model of rewards.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub templated: bool,
    /// Channels, height and width of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<[usize; 3]>,
    /// Mel bands and frames of recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speech: Option<SpeechShape>,
    /// The token that stands for no character, where texts are found along recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank: Option<usize>,
    /// Names of the classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// The weights of the classes that follow from their shares of the training examples, where a task asks for such.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class_weights: Vec<f32>,
    /// How tables write the classes, in their order, where it is not their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Whether questions may have no answer, where there are questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswerable: Option<bool>,
    /// Of images: the mean of each channel that was subtracted, of values from 0 to 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mean: Vec<f32>,
    /// The standard deviation of each channel that was divided by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub std: Vec<f32>,
    /// How images of another size are fitted, where they are not stretched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<images::Fit>,
    /// The sum of the database that neighbours of texts are found in, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
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

    /// Whether images of this and of another shape differ in their normalisation, and in how they became those of one size: of
    /// images that are stretched bilinearly in both, the rounding alone may differ.
    pub fn other_images(&self, other: &Self) -> [bool; 2] {
        let (Some([channels, ..]), Some(_)) = (other.image, self.image) else {
            return [false; 2];
        };
        let [from, to] = [other, self].map(|shape| [&shape.mean[..], &shape.std[..]]);
        let turned = images::normalise::Renormalise::between(from, to, channels);
        let [own, others] = [self, other].map(|shape| shape.fit.unwrap_or_default());
        [turned.is_some(), own != others]
    }
}

/// The tokenizers of a run.
#[derive(Clone, Debug, Default)]
pub struct Tokenizers {
    /// Of texts; of both sides of pairs, or of the sources.
    pub text: Option<Tokenizer>,
    /// Of the targets of pairs, when they have a vocabulary of their own.
    pub target: Option<Tokenizer>,
    /// What writes conversations as texts, where the tokenizer came with it or the data has conversations.
    pub chat: Option<ChatTemplate>,
}

impl Tokenizers {
    /// One tokenizer for everything.
    pub fn one(tokenizer: Tokenizer) -> Self {
        Self {
            text: Some(tokenizer),
            ..Self::default()
        }
    }

    /// That of the targets.
    pub fn of_targets(&self) -> Option<&Tokenizer> {
        self.target.as_ref().or(self.text.as_ref())
    }

    /// Whether sources and targets have a vocabulary each. Two tokenizers that cut texts otherwise and give each token the same
    /// id (Marian's `source.spm` and `target.spm` over one `vocab.json`) have one.
    pub fn two_vocabularies(&self) -> bool {
        let (Some(source), Some(target)) = (&self.text, &self.target) else {
            return false;
        };
        let size = source.vocab_size();
        let mut ids = 0..size as u32;
        size != target.vocab_size() || ids.any(|id| source.token(id) != target.token(id))
    }

    /// What is said of the files that they were read from.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        let both = self.text.iter().chain(&self.target);
        both.flat_map(Tokenizer::notes)
    }
}
