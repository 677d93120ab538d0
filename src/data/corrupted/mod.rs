//! Texts that become pairs for encoder-decoders that learn from plain text: the source is a corrupted text,
//! the target is what it lacks or the original text.
//!
//! A [`CorruptedView`] sets the kind of corruption. Passages are consecutive, so an epoch reads every token
//! once. A passage and its pair are functions of (seed, sample, draw). Evaluations have the same corruptions
//! for every seed.

pub mod denoising;
pub mod noises;
mod passages;
pub mod spans;

use std::sync::Arc;

use super::text::corpus_files::require_plain;
use super::text::encoding::Entries;
use super::text::ids::Ids;
use super::text::sentences::Sentences;
use super::text::texts::TextCorpus;
use super::{
    Data, Item, PairItem, PerSplit, Request, Shape, Source, Split, TextConfig, Tokenizers, View,
};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::{MarkNames, Marks, TokenFraming, Tokenizer, TokenizerConfig};
use denoising::NoiseConfig;
pub use passages::Passage;
use passages::Passages;
use spans::SpanConfig;

/// Seed of evaluations: held-out sets are the same for every run's seed.
const FIXED_SEED: u64 = 0;

/// The corruption of a text from which the model reconstructs what was removed.
#[derive(Clone, Debug, PartialEq)]
pub enum CorruptedView {
    /// Spans of the text are removed, and the model generates them.
    Spans(SpanConfig),
    /// The text has noise, and the model generates the original.
    Denoising(NoiseConfig),
}

/// A way of corrupting passages, for one vocabulary and one context.
pub trait Corruption: Send + Sync {
    /// Returns the maximum length of a passage in tokens.
    fn passage(&self) -> usize;

    /// Returns the corrupted text with its special tokens, and its target from its begin to its end token.
    fn pair(&self, passage: &Passage, stream: &mut Stream) -> PairItem;
}

impl CorruptedView {
    /// Returns all faults of the view for texts of `context` tokens, each with its remedy.
    pub fn faults(&self, context: usize) -> Vec<String> {
        match self {
            Self::Spans(spans) => spans.faults(context),
            Self::Denoising(noise) => noise.faults(context),
        }
    }

    /// Returns faults of values that are probably mistakes. Only new runs are refused for them; they are
    /// checked when [`Self::faults`] has none.
    fn new_run_faults(&self, context: usize) -> Vec<String> {
        match self {
            Self::Spans(spans) => spans.mean_fault(context).into_iter().collect(),
            Self::Denoising(_) => Vec::new(),
        }
    }

    /// Returns the special tokens that the view needs besides the begin and end tokens; a vocabulary that is
    /// built for it gets them.
    fn special_tokens(&self, context: usize) -> Vec<String> {
        match self {
            Self::Spans(spans) => spans.special_tokens(context),
            Self::Denoising(_) => Vec::new(),
        }
    }

    /// Returns which special tokens the model reads around a text.
    pub(super) fn framing(&self) -> TokenFraming {
        match self {
            Self::Spans(_) => TokenFraming::End,
            Self::Denoising(_) => TokenFraming::Frame,
        }
    }

    /// Returns the configuration of a tokenizer that is built for the view.
    fn tokenizer(&self, config: &TokenizerConfig) -> TokenizerConfig {
        match self {
            Self::Spans(_) => config.clone(),
            Self::Denoising(_) => config.with_frame(true).with_marks(&MarkNames::default()),
        }
    }

    /// Whether its passages are divided into sentences.
    pub(in crate::data) fn uses_sentences(&self) -> bool {
        match self {
            Self::Spans(_) => false,
            Self::Denoising(_) => true,
        }
    }

    /// Builds the corruption for a vocabulary.
    fn corruption(
        &self,
        tokenizer: &Tokenizer,
        marks: Marks,
        context: usize,
    ) -> Result<Arc<dyn Corruption>> {
        Ok(match self {
            Self::Spans(spans) => Arc::new(spans.corruption(tokenizer, marks, context)?),
            Self::Denoising(noise) => Arc::new(noise.corruption(tokenizer, marks, context)?),
        })
    }
}

impl View {
    /// Returns faults of values that are probably mistakes, for inputs of `context` tokens. Only new runs are
    /// refused for them; an existing run with such values can still be used and resumed. They are checked
    /// when [`view_faults`](super::DataSet::view_faults) has none.
    pub fn new_run_faults(&self, context: usize) -> Vec<String> {
        match self {
            Self::Corrupted(view) => view.new_run_faults(context),
            Self::Plain | Self::Masked(_) | Self::EncodedSeparately | Self::Ctc => Vec::new(),
        }
    }
}

/// Reads the splits of a kind of data under a view.
pub(in crate::data) struct CorruptedReader {
    corruption: Arc<dyn Corruption>,
    tokenizer: Tokenizer,
    seed: u64,
}

impl CorruptedReader {
    /// Builds the reading for a vocabulary. Missing special tokens are added, unless the vocabulary comes
    /// from elsewhere.
    ///
    /// # Errors
    /// If a vocabulary from elsewhere lacks special tokens.
    pub(in crate::data) fn new(
        tokenizer: Tokenizer,
        view: &CorruptedView,
        context: usize,
        request: &Request,
    ) -> Result<Self> {
        let others = request
            .tokenizer
            .is_some_and(|made| !made.is_trained() && !made.is_bytes());
        let tokenizer = match others || request.saved_tokenizers.text.is_some() {
            true => tokenizer,
            false => tokenizer.with_specials(view.special_tokens(context))?,
        };
        let tokenizer = tokenizer.with_padding_as_begin()?;
        let marks = tokenizer.marks()?;
        Ok(Self {
            corruption: view.corruption(&tokenizer, marks, context)?,
            tokenizer,
            seed: request.seed,
        })
    }

    /// Returns the vocabulary with all special tokens that the view needs.
    pub(in crate::data) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Builds the pairs of a split from consecutive passages.
    ///
    /// # Errors
    /// If the split has no text.
    pub(in crate::data) fn source(
        &self,
        ids: Arc<dyn Ids>,
        split: Split,
    ) -> Result<Arc<dyn Source>> {
        let length = self.corruption.passage();
        self.of(Passages::Even { ids, length }, split)
    }

    /// Builds the pairs of a split from passages of whole sentences of a document.
    ///
    /// # Errors
    /// If the split has no text.
    pub(in crate::data) fn source_of_sentences(
        &self,
        sentences: Sentences,
        split: Split,
    ) -> Result<Arc<dyn Source>> {
        let longest = self.corruption.passage();
        self.of(Passages::of_documents(sentences, longest), split)
    }

    fn of(&self, passages: Passages, split: Split) -> Result<Arc<dyn Source>> {
        if passages.len() == 0 {
            return Err(Error::usage(format!(
                "[data] the {} split has no text; use more text or a larger fraction",
                split.name()
            )));
        }
        Ok(Arc::new(Corrupted {
            passages,
            corruption: self.corruption.clone(),
            seed: match split {
                Split::Train => self.seed,
                Split::Valid | Split::Test => FIXED_SEED,
            },
            split,
        }))
    }
}

/// Prepares `kind = "text"` under a corrupted view.
pub(in crate::data) fn prepare(
    config: &TextConfig,
    view: &CorruptedView,
    request: &Request,
) -> Result<Data> {
    let mut texts = TextCorpus::find(config, request, false)?;
    require_plain(config, request, std::slice::from_ref(&texts))?;
    let tokenizer = texts.tokenizer(request, |config| view.tokenizer(config))?;
    let reading = CorruptedReader::new(tokenizer, view, config.context, request)?;
    let tokenizer = reading.tokenizer();
    let entries = match view.uses_sentences() {
        true => Entries::Sentences,
        false => Entries::Joined,
    };
    let mut sources = PerSplit::<Option<Arc<dyn Source>>>::default();
    let mut tokens = PerSplit::default();
    let mut documents = 0;
    for split in Split::ALL {
        if texts.has(split) {
            let encoded = texts.encoded(tokenizer, split, entries, request.places.cache())?;
            *tokens.get_mut(split) = encoded.len() as u64;
            if split == Split::Train && !view.uses_sentences() {
                documents = encoded.documents() as u64;
            }
            let encoded = Arc::new(encoded);
            *sources.get_mut(split) = Some(match view.uses_sentences() {
                true => reading.source_of_sentences(Sentences::of_cache(encoded), split)?,
                false => reading.source(encoded, split)?,
            });
        }
    }
    let Some(train) = sources.train else {
        return Err(Error::run("[data] there is no text to train on"));
    };
    let shape = Shape::of_text(config.context, tokenizer.vocab_size());
    Ok(Data {
        valid: sources.valid,
        test: sources.test,
        tokenizers: Tokenizers::single(tokenizer.clone()),
        tokens,
        documents,
        notes: texts.notes,
        ..Data::new(train, shape)
    })
}

/// The pairs of a split.
struct Corrupted {
    passages: Passages,
    corruption: Arc<dyn Corruption>,
    seed: u64,
    split: Split,
}

impl Source for Corrupted {
    fn len(&self) -> usize {
        self.passages.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let at = (sample, draw, self.split as u64);
        let mut stream = Stream::new(self.seed, Purpose::Corrupting, at);
        let passage = self.passages.get(sample as usize)?;
        Ok(Item::Pair(self.corruption.pair(&passage, &mut stream)))
    }

    fn split(&self) -> Split {
        self.split
    }
}
