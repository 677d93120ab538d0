//! Generated translations: the common part of `dates` and `number_words`.
//!
//! A phrase is held out according to a hash of its meaning (a date, a number), so that no wording of a
//! held-out meaning is ever trained on. Validation and test sets are fixed: the same for every seed. Texts
//! are encoded by characters.

use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::held_out::{HeldOut, PASS, key, too_few};
use crate::data::pairs::Texts;
use crate::data::pairs::framing::{Framing, framings, is_framed, pair};
use crate::data::{
    Data, DataSet, ExampleForm, Item, PerSplit, Request, Shape, Source, Split, Tokenizers, View,
};
use crate::error::Result;
use crate::rng::{Purpose, Stream};
use crate::tokenizer::{MarkNames, TokenFraming, Tokenizer, TokenizerConfig};

/// A family of phrases that people write, each with its one normal form for machines.
pub trait Family: Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static {
    /// All characters of phrases and forms; duplicates are allowed.
    const ALPHABET: &'static str;
    /// Number of characters of the longest phrase.
    const LONGEST: usize;
    /// An example of a phrase that a person may enter.
    const EXAMPLE: &'static str;

    /// Draws a phrase and its form; the form identifies the meaning.
    fn draw(stream: &mut Stream) -> (String, String);
}

/// The configuration of a kind of generated translations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, bound = "")]
pub struct PhrasesConfig<F: Family> {
    /// Share of all meanings that training never sees, for each held-out set.
    pub held_out: f64,
    /// Maximum number of validation phrases; 0 for no validation split.
    pub valid_items: usize,
    /// Maximum number of test phrases; 0 for no test split.
    pub test_items: usize,
    #[serde(skip)]
    family: PhantomData<F>,
}

impl<F: Family> Default for PhrasesConfig<F> {
    fn default() -> Self {
        Self {
            held_out: 0.1,
            valid_items: 500,
            test_items: 0,
            family: PhantomData,
        }
    }
}

impl<F: Family> PhrasesConfig<F> {
    fn sizes(&self) -> HeldOut {
        HeldOut {
            share: self.held_out,
            valid_items: self.valid_items,
            test_items: self.test_items,
        }
    }
}

/// Separates these random draws from those of other generators.
const SITE: u64 = 1;
/// Name of the things that are held out, for messages.
const MEANING: &str = "meaning";
/// Number of special tokens around a target.
const MARKS: usize = 2;

impl<F: Family> DataSet for PhrasesConfig<F> {
    fn faults(&self) -> Vec<String> {
        self.sizes().faults()
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Pairs
    }

    fn context(&self) -> usize {
        F::LONGEST + MARKS
    }

    fn has(&self, split: Split) -> bool {
        self.sizes().has(split)
    }

    fn prompt(&self) -> Option<String> {
        Some(F::EXAMPLE.into())
    }

    fn can_be_encoded_separately(&self) -> bool {
        true
    }

    fn framing(&self, view: &View) -> TokenFraming {
        match view {
            View::EncodedSeparately => TokenFraming::Frame,
            View::Plain | View::Masked(_) | View::Corrupted(_) | View::Ctc => TokenFraming::End,
        }
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let tokenizer = match &request.saved_tokenizers.text {
            Some(saved) => saved.clone(),
            None => {
                let characters = TokenizerConfig::characters();
                let config = match request.view {
                    View::EncodedSeparately => characters.with_frame(false),
                    View::Plain | View::Masked(_) | View::Corrupted(_) | View::Ctc => {
                        characters.with_marks(&MarkNames::default())
                    }
                };
                Tokenizer::build(&config, &[F::ALPHABET])?
            }
        };
        let framings = framings([&tokenizer; 2], request.view)?;
        let mut held_out = PerSplit::<Option<Arc<dyn Source>>>::default();
        let mut pairs = PerSplit::default();
        for split in [Split::Valid, Split::Test] {
            if !self.has(split) {
                continue;
            }
            let texts = Arc::new(fixed(self, split));
            if texts.is_empty() {
                return Err(too_few(MEANING, split));
            }
            *pairs.get_mut(split) = Some(Arc::clone(&texts));
            *held_out.get_mut(split) = Some(Arc::new(Fixed {
                texts,
                tokenizer: tokenizer.clone(),
                framings: framings.clone(),
                split,
            }));
        }
        let train = Drawn {
            config: self.clone(),
            tokenizer: tokenizer.clone(),
            framings,
            seed: request.seed,
        };
        train.get(0, 0)?;
        let shape = Shape {
            framed: is_framed([&tokenizer; 2], request.view)?,
            ..Shape::of_text(self.context(), tokenizer.vocab_size())
        };
        Ok(Data {
            valid: held_out.valid,
            test: held_out.test,
            tokenizers: Tokenizers::single(tokenizer),
            pairs,
            ..Data::new(Arc::new(train), shape)
        })
    }
}

/// Returns the held-out set: different phrases of this split, in the order in which a fixed stream draws
/// them.
fn fixed<F: Family>(config: &PhrasesConfig<F>, split: Split) -> Texts {
    let drawn = config.sizes().fixed(
        (split, SITE),
        F::draw,
        |(_, form)| key(form),
        |(phrase, _)| phrase.clone(),
    );
    let mut set = Texts::default();
    for (phrase, form) in drawn {
        set.push(phrase, vec![form]);
    }
    set
}

fn item(phrase: &str, form: &str, tokenizer: &Tokenizer, framings: &[Framing; 2]) -> Result<Item> {
    let ids = |text: &str| -> Result<Vec<i32>> {
        let ids = tokenizer.encode(text)?;
        Ok(ids.into_iter().map(|id| id as i32).collect())
    };
    let texts = [ids(phrase)?, ids(form)?];
    Ok(Item::Pair(pair(
        framings.each_ref(),
        texts,
        [usize::MAX; 2],
    )))
}

/// A source of training phrases, drawn without end.
struct Drawn<F: Family> {
    config: PhrasesConfig<F>,
    tokenizer: Tokenizer,
    framings: [Framing; 2],
    seed: u64,
}

impl<F: Family> Drawn<F> {
    fn phrase(&self, sample: u64) -> Result<(String, String)> {
        let purpose = Split::ALL.len() as u64;
        let mut stream = Stream::new(self.seed, Purpose::Synthetic, (sample, purpose, SITE));
        let sizes = self.config.sizes();
        let found = sizes.first_of_training(&mut stream, F::draw, |(_, form)| key(form));
        found.ok_or_else(|| too_few(MEANING, Split::Train))
    }
}

impl<F: Family> Source for Drawn<F> {
    fn len(&self) -> usize {
        PASS
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let (phrase, form) = self.phrase(sample)?;
        item(&phrase, &form, &self.tokenizer, &self.framings)
    }

    fn size(&self, sample: u64) -> usize {
        // If nothing can be drawn, `get` returns the error.
        self.phrase(sample)
            .map_or(1, |(phrase, form)| size([&phrase, &form], &self.framings))
    }

    fn is_endless(&self) -> bool {
        true
    }
}

/// Returns the tokens of the longer side.
fn size(texts: [&str; 2], framings: &[Framing; 2]) -> usize {
    let long = texts.iter().zip(framings);
    let long = long.map(|(text, framing)| text.chars().count() + framing.len());
    long.max().unwrap_or(0)
}

/// A source of held-out phrases.
struct Fixed {
    texts: Arc<Texts>,
    tokenizer: Tokenizer,
    framings: [Framing; 2],
    split: Split,
}

impl Source for Fixed {
    fn len(&self) -> usize {
        self.texts.len()
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let (phrase, forms) = self.texts.pair(sample as usize);
        item(phrase, &forms[0], &self.tokenizer, &self.framings)
    }

    fn size(&self, sample: u64) -> usize {
        let (phrase, forms) = self.texts.pair(sample as usize);
        size([phrase, &forms[0]], &self.framings)
    }

    fn split(&self) -> Split {
        self.split
    }
}
