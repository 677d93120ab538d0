//! `kind = "grammar"`: stories of a small made-up world, for masked and for next-token language models.
//!
//! A document is a day in one place. Each of its two parties has a colour and is one or several animals; what
//! they are and what they look like does not change, nor do the colours of things. An hour precedes each
//! event, and hours pass. A masked word therefore follows from others: a verb's ending from the number of its
//! subject (`the red fox sees`, `the red foxes see`), a colour from an earlier sentence, a thing or verb from
//! the place, the owner of a thing from who was given it, an hour from the previous one. Two segments fit
//! together if place, parties and colours match, and the hours show their order.
//!
//! `the day is in the harbour . there is a red fox and there are two blue owls . at one the red fox mends the
//! rope . then it gives the rope to the blue owls . now the blue owls have the rope .`

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::held_out::FIXED_SEED;
use super::story::{self, words};
use crate::data::corrupted;
use crate::data::data_set::{pairs_unsupported, speech_unsupported};
use crate::data::masked;
use crate::data::masked::masking::Pairs;
use crate::data::text::ids::InMemoryIds;
use crate::data::text::sentences::Sentences;
use crate::data::text::windows::{Layout, TextSource};
use crate::data::{Data, DataSet, Request, Shape, Source, Split, Tokenizers, View};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::Tokenizer;

/// `kind = "grammar"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GrammarConfig {
    /// Number of training documents.
    pub documents: usize,
    /// Number of sentences in a document.
    #[schemars(range(min = 2))]
    pub sentences: usize,
    /// Maximum length of an example in tokens.
    pub context: usize,
    /// Number of validation documents; 0 for none.
    pub valid_items: usize,
    /// Number of test documents; 0 for no test split.
    pub test_items: usize,
}

impl Default for GrammarConfig {
    fn default() -> Self {
        Self {
            documents: 2000,
            sentences: 14,
            context: 64,
            valid_items: 100,
            test_items: 0,
        }
    }
}

/// Maximum number of documents in a split, and of sentences in a document.
const MOST: usize = 1_000_000;
/// Maximum number of sentences in all splits, which are made before training.
const MOST_SENTENCES: usize = 4_000_000;
/// Separates these random draws from those of other generators.
const SITE: u64 = 2;

impl GrammarConfig {
    fn count(&self, split: Split) -> usize {
        match split {
            Split::Train => self.documents,
            Split::Valid => self.valid_items,
            Split::Test => self.test_items,
        }
    }

    /// Returns the sentences of a document.
    fn document(&self, number: u64, split: Split, seed: u64) -> Vec<String> {
        let seed = match split {
            Split::Train => seed,
            Split::Valid | Split::Test => FIXED_SEED,
        };
        let at = (number, split as u64, SITE);
        story::tell(
            self.sentences,
            &mut Stream::new(seed, Purpose::Synthetic, at),
        )
    }

    /// Encodes the documents of a split, each followed by `end`, if given; also returns the starts of
    /// sentences and of documents.
    fn encoded(
        &self,
        tokenizer: &Tokenizer,
        split: Split,
        seed: u64,
        end: Option<u32>,
    ) -> Result<(InMemoryIds, Vec<u64>, Vec<u32>)> {
        let mut held = InMemoryIds::default();
        let (mut sentences, mut documents) = (Vec::new(), Vec::new());
        for number in 0..self.count(split) as u64 {
            held.starts.push(held.ids.len());
            documents.push(sentences.len() as u32);
            for sentence in self.document(number, split, seed) {
                sentences.push(held.ids.len() as u64);
                let ids = tokenizer.encode(&sentence)?;
                held.ids.extend(ids.into_iter().map(|id| id as i32));
            }
            held.ids.extend(end.map(|id| id as i32));
        }
        Ok((held, sentences, documents))
    }

    fn source(
        &self,
        tokenizer: &Tokenizer,
        split: Split,
        request: &Request,
    ) -> Result<(Arc<dyn Source>, u64)> {
        let pairs = match request.view {
            View::Masked(view) => view.pairs,
            View::Plain | View::Corrupted(_) | View::EncodedSeparately | View::Ctc => Pairs::None,
        };
        let end = tokenizer.frame().map(|frame| frame.end);
        let whole = pairs == Pairs::None && !matches!(request.view, View::Corrupted(_));
        let end = end.filter(|_| whole);
        let (held, sentences, documents) = self.encoded(tokenizer, split, request.seed, end)?;
        let tokens = held.ids.len();
        if let View::Corrupted(view) = request.view {
            let reading =
                corrupted::CorruptedReader::new(tokenizer.clone(), view, self.context, request)?;
            let held = Arc::new(held);
            let source = match view.uses_sentences() {
                true => {
                    let sentences = Sentences::new(held, sentences, documents);
                    reading.source_of_sentences(sentences, split)?
                }
                false => reading.source(held, split)?,
            };
            return Ok((source, tokens as u64));
        }
        let held = Arc::new(held);
        let View::Masked(view) = request.view else {
            let layout = match split {
                Split::Train => Layout::Whole,
                Split::Valid | Split::Test => Layout::Covering,
            };
            if tokens < self.context + 1 {
                return Err(Error::usage(format!(
                    "[data] the {} split has {tokens} tokens, fewer than context = {} plus one; use more documents",
                    split.name(),
                    self.context
                )));
            }
            let source = TextSource::new(held, self.context, layout, false, split);
            return Ok((Arc::new(source), tokens as u64));
        };
        let reading = masked::MaskedReader {
            view,
            tokenizer,
            context: self.context,
            seed: request.seed,
        };
        let source = match pairs {
            Pairs::None => reading.windows(held, split)?,
            Pairs::NextSentence | Pairs::SentenceOrder => {
                reading.pairs(Sentences::new(held, sentences, documents), split)?
            }
        };
        Ok((source, tokens as u64))
    }
}

impl DataSet for GrammarConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.documents == 0 {
            faults.push("[data] documents = 0 leaves nothing to train on".into());
        }
        for (key, count) in [
            ("documents", self.documents),
            ("valid_items", self.valid_items),
            ("test_items", self.test_items),
            ("sentences", self.sentences),
        ] {
            if count > MOST {
                faults.push(format!("[data] {key} = {count} must be at most {MOST}"));
            }
        }
        let documents = [self.documents, self.valid_items, self.test_items];
        let documents = documents.into_iter().fold(0, usize::saturating_add);
        let sentences = documents.saturating_mul(self.sentences);
        if sentences > MOST_SENTENCES {
            faults.push(format!(
                "[data] documents, valid_items and test_items with sentences = {} make {sentences} sentences; the maximum is {MOST_SENTENCES}",
                self.sentences
            ));
        }
        if self.sentences < 2 {
            faults.push("[data] sentences must be at least 2".into());
        }
        if self.context == 0 {
            faults.push("[data] context = 0 must be at least 1".into());
        }
        faults
    }

    fn context(&self) -> usize {
        self.context
    }

    fn has(&self, split: Split) -> bool {
        self.count(split) > 0
    }

    fn can_be_masked(&self) -> bool {
        true
    }

    fn has_next_token(&self) -> bool {
        true
    }

    fn view_faults(&self, view: &View) -> Vec<String> {
        match view {
            View::Plain => Vec::new(),
            View::EncodedSeparately => pairs_unsupported(),
            View::Ctc => speech_unsupported(),
            View::Corrupted(view) => view.faults(self.context),
            View::Masked(view) => {
                let mut faults = view.masking.faults();
                faults.extend(masked::context_fault(self.context, view.pairs));
                faults
            }
        }
    }

    fn prompt(&self) -> Option<String> {
        self.document(0, Split::Valid, FIXED_SEED)
            .into_iter()
            .next()
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let mut tokenizer = Tokenizer::of_words(&words())?;
        if let View::Corrupted(view) = request.view {
            // The tokenizer of a run has the special tokens that it was made with.
            tokenizer = request.saved_tokenizers.text.clone().unwrap_or(tokenizer);
            tokenizer = corrupted::CorruptedReader::new(tokenizer, view, self.context, request)?
                .tokenizer()
                .clone();
        }
        let source = |split| self.source(&tokenizer, split, request);
        let (train, tokens) = source(Split::Train)?;
        let shape = Shape::of_text(self.context, tokenizer.vocab_size());
        let mut data = Data::new(train, shape);
        data.tokens.train = tokens;
        if self.valid_items > 0 {
            let (valid, tokens) = source(Split::Valid)?;
            (data.valid, data.tokens.valid) = (Some(valid), tokens);
        }
        if self.test_items > 0 {
            let (test, tokens) = source(Split::Test)?;
            (data.test, data.tokens.test) = (Some(test), tokens);
        }
        data.tokenizers = Tokenizers::single(tokenizer);
        Ok(data)
    }
}
