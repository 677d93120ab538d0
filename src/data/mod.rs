//! Data sets: files or generators in, examples and batches of token ids out.
//!
//! [`prepare`] turns `[data]` and `[tokenizer]` into a [`Data`]; [`loader`] turns its sources into
//! batches. An example is a function of (seed, sample number), an order of (seed, epoch), so
//! nothing here has state to save. Tensors are made by the task, on its own thread and device.

pub mod batch;
mod blank;
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
pub mod origin;
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
mod shape;
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
pub use origin::Origin;
pub use pairs::articles::ArticlesConfig;
pub use pairs::{PairsConfig, Texts};
pub use preferences::{PreferencesConfig, Said};
pub use prepare::prepare;
pub use prepared::Data;
pub use questions::QuestionsConfig;
pub use retrieval::{Chunking, Database, DatabaseConfig};
pub use set::{DataSet, Request};
pub use shape::{Limit, Shape};
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

    /// What an example was read from, where that is known.
    fn origin(&self, _sample: u64) -> Option<&Origin> {
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
