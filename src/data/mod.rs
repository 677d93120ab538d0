//! Data sets: they read files or generate examples, and hand out examples and batches of token ids.
//!
//! [`prepare`] turns `[data]` and `[tokenizer]` into a [`Data`]; [`loader`] turns its sources into batches.
//! An example is a function of (seed, sample number) and an order a function of (seed, epoch), so this module
//! has no state to save. The task makes the tensors, on its own thread and device.

pub mod batch;
mod blank;
pub mod burn_adapters;
pub mod captioned;
mod captions;
pub mod catalog;
mod collate;
mod config;
pub mod conversations;
pub mod corrupted;
mod data_set;
mod described;
mod evaluation_files;
pub mod evaluation_keys;
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
pub mod pairs;
mod parts;
pub mod preferences;
mod prepare;
mod prepared;
pub mod questions;
mod read_input;
pub mod retrieval;
pub mod sample;
mod shape;
mod share;
pub mod speech;
pub mod split;
pub mod synthetic;
pub mod tagged;
pub mod targets;
pub mod text;
mod view;
pub mod weighted_source;

use crate::error::Result;
use crate::tokenizer::{ChatTemplate, Tokenizer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub use batch::{Batch, Content, Item, PairItem, SpeechShape, TextItem};
pub use captioned::CaptionedImagesConfig;
pub use captions::Captions;
pub use catalog::search_path::SearchPath;
pub use config::DataConfig;
pub use conversations::ConversationsConfig;
pub use corrupted::CorruptedView;
pub use data_set::{DataSet, Request};
pub use files::paths::Paths;
pub use form::ExampleForm;
pub use images::ImagesConfig;
pub use imported::ImportedConfig;
pub use kinds::KINDS;
pub use labelled::LabelledTextConfig;
pub use labelled::halves::ArticleHalvesConfig;
pub use masked::masking::{MaskedView, MaskingConfig, Pairs};
pub use origin::Origin;
pub use pairs::articles::ArticlesConfig;
pub use pairs::{PairsConfig, Texts};
pub use preferences::{PreferencesConfig, RewardInput};
pub use prepare::prepare;
pub use prepared::Data;
pub use questions::QuestionsConfig;
pub use retrieval::{Chunking, Database, DatabaseConfig};
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

/// Target id of a position that is not scored: padding, a question, the next document's first token.
pub const NOT_SCORED: i32 = -100;

/// A source of examples, addressed by number.
pub trait Source: Send + Sync {
    /// Number of examples in one pass. A source that draws its examples has no end; its length is what counts
    /// as one pass.
    fn len(&self) -> usize;

    /// Whether the source has no examples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns example `sample` as the run's `draw`th example: a function of the two numbers. Masks and
    /// augmentations depend on `draw`; evaluations pass the sample number as `draw`. A source that draws its
    /// examples accepts any sample number.
    ///
    /// # Errors
    /// If a file has changed or cannot be read.
    fn get(&self, sample: u64, draw: u64) -> Result<Item>;

    /// The source that this one is made around, if it is made around one. The methods below pass on its
    /// answers unless an implementation overrides them.
    fn inner(&self) -> Option<&dyn Source> {
        None
    }

    /// The number of example `sample` in [`Self::inner`].
    fn inner_number(&self, sample: u64) -> u64 {
        sample
    }

    /// Length of an example in tokens, used for batches by tokens; for a pair, the length of its longer side.
    /// 1 if all examples have the same length.
    fn size(&self, sample: u64) -> usize {
        let inner = self.inner();
        inner.map_or(1, |inner| inner.size(self.inner_number(sample)))
    }

    /// The split that the examples belong to.
    fn split(&self) -> Split {
        self.inner().map_or(Split::Train, |inner| inner.split())
    }

    /// Whether an example is expensive to make, as an augmented image is. [`Self::get`] is then called from
    /// several threads at once and must not hold a lock while it waits for others.
    fn is_costly(&self) -> bool {
        self.inner().is_some_and(|inner| inner.is_costly())
    }

    /// The class of an example, if it is known without making the example.
    fn label(&self, sample: u64) -> Option<i32> {
        self.inner()?.label(self.inner_number(sample))
    }

    /// The tagged words of an example, if its words have tags.
    fn tagged_words(&self, sample: u64) -> Option<&TaggedWords> {
        self.inner()?.tagged_words(self.inner_number(sample))
    }

    /// Where an example was read from, if that is known.
    fn origin(&self, sample: u64) -> Option<&Origin> {
        self.inner()?.origin(self.inner_number(sample))
    }

    /// The class weights, if the classes have any.
    fn class_weights(&self) -> Option<&Arc<[f32]>> {
        self.inner()?.class_weights()
    }

    /// Whether examples are drawn (every number gives a new one) rather than counted (`0..len`).
    fn is_endless(&self) -> bool {
        self.inner().is_some_and(|inner| inner.is_endless())
    }
}

/// A split of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Training examples.
    Train,
    /// Validation examples, on which choices are made.
    Valid,
    /// Test examples, reported once at the end.
    Test,
}

impl Split {
    /// All three splits.
    pub const ALL: [Self; 3] = [Self::Train, Self::Valid, Self::Test];

    /// Returns `train`, `valid` or `test`.
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
    /// Value of the training split.
    pub train: T,
    /// Value of the validation split.
    pub valid: T,
    /// Value of the test split.
    pub test: T,
}

impl<T> PerSplit<T> {
    /// Returns the value of a split.
    pub fn get(&self, split: Split) -> &T {
        match split {
            Split::Train => &self.train,
            Split::Valid => &self.valid,
            Split::Test => &self.test,
        }
    }

    /// Returns a mutable reference to the value of a split.
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
    /// Tokenizer of texts: of both sides of pairs, or of the sources only if `target` is given.
    pub text: Option<Tokenizer>,
    /// Tokenizer of the targets of pairs, if they have a separate one.
    pub target: Option<Tokenizer>,
    /// Template that writes conversations as texts, if the tokenizer came with one or the data has
    /// conversations.
    pub chat: Option<ChatTemplate>,
}

impl Tokenizers {
    /// Uses one tokenizer for everything.
    pub fn single(tokenizer: Tokenizer) -> Self {
        Self {
            text: Some(tokenizer),
            ..Self::default()
        }
    }

    /// Returns the tokenizer of the targets: `target`, or else `text`.
    pub fn target_tokenizer(&self) -> Option<&Tokenizer> {
        self.target.as_ref().or(self.text.as_ref())
    }

    /// Whether sources and targets have different vocabularies. Two tokenizers that split texts differently
    /// but map every id to the same token (Marian's `source.spm` and `target.spm` over one `vocab.json`)
    /// share one vocabulary.
    pub fn has_two_vocabularies(&self) -> bool {
        let (Some(source), Some(target)) = (&self.text, &self.target) else {
            return false;
        };
        let size = source.vocab_size();
        let mut ids = 0..size as u32;
        size != target.vocab_size() || ids.any(|id| source.token(id) != target.token(id))
    }

    /// Returns the notes about the files that the tokenizers were read from.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        let both = self.text.iter().chain(&self.target);
        both.flat_map(Tokenizer::notes)
    }
}
