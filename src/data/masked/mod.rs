//! Text as a masked language model reads it: windows of the text in a frame, with masks.
//!
//! Without pairs an example is `[CLS]`, context − 2 tokens of the text and `[SEP]`. Windows are consecutive,
//! so an epoch reads every token once, and a window may run from one document into the next, over the `[SEP]`
//! between them (Liu et al., arXiv:1907.11692, FULL-SENTENCES). In XLNet's frame `[SEP]` and `[CLS]` come
//! after the text. `pairing` makes pairs of segments. Special tokens inside the text are read but never
//! masked. Evaluations have the same masks for every seed.

pub mod masking;
pub mod masks;
pub(super) mod pairing;

use std::sync::Arc;

use super::text::corpus_files::require_plain;
use super::text::encoding::Entries;
use super::text::ids::Ids;
use super::text::sentences::Sentences;
use super::text::texts::TextCorpus;
use super::{
    Data, Item, PerSplit, Request, Shape, Source, Split, TextConfig, TextItem, Tokenizers,
};
use crate::error::{Error, Result};
use crate::tokenizer::{SpecialTokenLayout, Tokenizer};
use masking::{MaskedView, Pairs};
use masks::Masker;

/// Seed of evaluations: held-out sets are the same for every run's seed.
const FIXED_SEED: u64 = 0;

/// Returns the fault of a context that is too short for a frame and one token of each segment.
pub(in crate::data) fn context_fault(context: usize, pairs: Pairs) -> Option<String> {
    // Frames have at most 4 tokens, plus one token for each of two segments.
    let least = if pairs == Pairs::None { 3 } else { 6 };
    (context < least).then(|| {
        format!("[data] context = {context} is too short for masked text; the minimum is {least}")
    })
}

/// The settings that the examples of all splits share.
pub(in crate::data) struct MaskedReader<'a> {
    pub(in crate::data) view: &'a MaskedView,
    pub(in crate::data) tokenizer: &'a Tokenizer,
    pub(in crate::data) context: usize,
    pub(in crate::data) seed: u64,
}

impl MaskedReader<'_> {
    /// Returns the tokens around a text, and around two.
    fn edges(&self) -> Result<SpecialTokenLayout> {
        let found = match self.view.class_token_last {
            true => self.tokenizer.trailing_class_layout(),
            false => self.tokenizer.frame().map(SpecialTokenLayout::from),
        };
        found.ok_or_else(|| {
            Error::usage(
                "the vocabulary has no special tokens for the ends of a text ([CLS] and [SEP], or <s> and </s>); use the vocabulary of a masked \
                 language model, or train one with [tokenizer]",
            )
        })
    }

    fn seed(&self, split: Split) -> u64 {
        match split {
            Split::Train => self.seed,
            Split::Valid | Split::Test => FIXED_SEED,
        }
    }

    fn masker(&self, split: Split, len: usize) -> Result<Masker> {
        let masking = &self.view.masking;
        Masker::new(masking, self.tokenizer, self.seed(split), split, len)
    }

    /// Builds the source of consecutive windows.
    ///
    /// # Errors
    /// If the vocabulary has no frame or no mask token, or the split has no text.
    pub(in crate::data) fn windows(
        &self,
        ids: Arc<dyn Ids>,
        split: Split,
    ) -> Result<Arc<dyn Source>> {
        let edges = self.edges()?;
        let inside = self.context - edges.len(false);
        let len = ids.len().div_ceil(inside);
        if len == 0 {
            return Err(empty(split));
        }
        Ok(Arc::new(Windows {
            ids,
            edges,
            inside,
            masker: self.masker(split, len)?,
            split,
        }))
    }

    /// Builds the source of pairs of segments.
    ///
    /// # Errors
    /// As for [`Self::windows`]; also if there are too few documents or sentences for pairs.
    pub(in crate::data) fn pairs(
        &self,
        sentences: Sentences,
        split: Split,
    ) -> Result<Arc<dyn Source>> {
        let edges = self.edges()?;
        let pairing = pairing::Pairing {
            pairs: self.view.pairs,
            most: self.context - edges.len(true),
            seed: self.seed(split),
            split,
        };
        let chunks = pairing.chunks(&sentences)?;
        let masker = self.masker(split, chunks.len())?;
        Ok(Arc::new(Segments {
            pairing,
            sentences,
            chunks,
            edges,
            masker,
        }))
    }
}

fn empty(split: Split) -> Error {
    Error::usage(format!(
        "[data] the {} split has no text; use more text or a larger fraction",
        split.name()
    ))
}

/// Prepares `kind = "text"` with masks.
pub(in crate::data) fn prepare(
    config: &TextConfig,
    view: &MaskedView,
    request: &Request,
) -> Result<Data> {
    // A pair is taken from one document, so splits are cut between documents.
    let mut texts = TextCorpus::find(config, request, view.pairs != Pairs::None)?;
    require_plain(config, request, std::slice::from_ref(&texts))?;
    let tokenizer = texts.tokenizer(request, |config| config.with_frame(true))?;
    let reading = MaskedReader {
        view,
        tokenizer: &tokenizer,
        context: config.context,
        seed: request.seed,
    };
    reading.edges()?;
    let end = tokenizer.frame().map(|frame| frame.end);
    let mut sources = PerSplit::<Option<Arc<dyn Source>>>::default();
    let mut tokens = PerSplit::default();
    let mut documents = 0;
    for split in Split::ALL {
        if !texts.has(split) {
            continue;
        }
        let entries = match view.pairs {
            Pairs::None => Entries::Documents(end),
            Pairs::NextSentence | Pairs::SentenceOrder => Entries::Sentences,
        };
        let encoded = texts.encoded(&tokenizer, split, entries, request.places.cache())?;
        *tokens.get_mut(split) = encoded.len() as u64;
        if split == Split::Train && view.pairs == Pairs::None {
            documents = encoded.documents() as u64;
        }
        let encoded = Arc::new(encoded);
        *sources.get_mut(split) = Some(match view.pairs {
            Pairs::None => reading.windows(encoded, split)?,
            Pairs::NextSentence | Pairs::SentenceOrder => {
                reading.pairs(Sentences::of_cache(encoded), split)?
            }
        });
    }
    let train = sources.train.ok_or_else(|| empty(Split::Train))?;
    let shape = Shape::of_text(config.context, tokenizer.vocab_size());
    Ok(Data {
        valid: sources.valid,
        test: sources.test,
        tokenizers: Tokenizers::single(tokenizer),
        tokens,
        documents,
        notes: texts.notes,
        ..Data::new(train, shape)
    })
}

/// A source of consecutive windows; the last one may be shorter.
struct Windows {
    ids: Arc<dyn Ids>,
    edges: SpecialTokenLayout,
    /// Tokens of text per window.
    inside: usize,
    masker: Masker,
    split: Split,
}

impl Windows {
    fn count(&self, sample: u64) -> usize {
        self.inside
            .min(self.ids.len() - sample as usize * self.inside)
    }
}

impl Source for Windows {
    fn len(&self) -> usize {
        self.ids.len().div_ceil(self.inside)
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let from = sample as usize * self.inside;
        let text = self.ids.window(from, self.count(sample))?;
        let mut inputs = self.edges.around(&text);
        let targets = self.masker.mask(&mut inputs, sample, draw);
        Ok(Item::Text(TextItem {
            inputs,
            targets,
            segments: self.edges.segments(text.len()),
            ..TextItem::default()
        }))
    }

    fn size(&self, sample: u64) -> usize {
        self.count(sample) + self.edges.len(false)
    }

    fn split(&self) -> Split {
        self.split
    }
}

/// A source of pairs of segments in a frame.
struct Segments {
    pairing: pairing::Pairing,
    sentences: Sentences,
    chunks: Vec<pairing::Chunk>,
    edges: SpecialTokenLayout,
    masker: Masker,
}

impl Source for Segments {
    fn len(&self) -> usize {
        self.chunks.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let chunk = &self.chunks[sample as usize];
        // Static masks always belong to the same pairs.
        let turn = self.masker.mask_number(draw);
        let pair = self.pairing.pair(&self.sentences, chunk, sample, turn);
        let [first, second] = pair.segments.map(|places| self.sentences.ids(places));
        let (first, second) = (first?, second?);
        let (mut inputs, segments) = self.edges.around_both(&first, &second);
        let targets = self.masker.mask(&mut inputs, sample, draw);
        Ok(Item::Text(TextItem {
            inputs,
            targets,
            segments: Some(segments),
            label: Some(pair.label),
            ..TextItem::default()
        }))
    }

    /// The maximum length of a draw.
    fn size(&self, _sample: u64) -> usize {
        self.pairing.most + self.edges.len(true)
    }

    fn split(&self) -> Split {
        self.pairing.split
    }
}
