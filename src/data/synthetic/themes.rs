//! `kind = "themes"`: `the otter left a kettle under the old pan` is about animals and the kitchen: short texts, and which of six themes
//! they mention, any number of them.
//!
//! A text has one to four words of every theme that it mentions, each theme with a probability of its own, in any order among
//! words that belong to none. Two words belong to two themes, so that a model must read more than single words to be sure of
//! either. Training draws without end; a text belongs to training or is held out by a hash of itself.

use std::collections::HashSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problems::{HeldOut, key};
use crate::data::labelled::examples::Labelled;
use crate::data::{
    Data, DataSet, Gives, Item, Request, Shape, Source, Split, TextItem, Tokenizers, View,
};
use crate::error::Result;
use crate::rng::{Purpose, Stream};
use crate::tokenizer::{Around, Frame, Tokenizer};

/// `kind = "themes"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ThemesConfig {
    /// The most words without a theme in a text; every text has one at least.
    pub filling: usize,
    /// Share of all texts that training never sees, for each held-out set.
    pub held_out: f64,
    /// Validation texts.
    pub valid_items: usize,
    /// Test texts; 0 for no test split.
    pub test_items: usize,
}

impl Default for ThemesConfig {
    fn default() -> Self {
        Self {
            filling: 8,
            held_out: 0.1,
            valid_items: 1000,
            test_items: 0,
        }
    }
}

/// A theme, how often texts mention it, and its words. `bat` and `seal` belong to two.
const THEMES: [(&str, f32, [&str; 8]); 6] = [
    (
        "animals",
        0.4,
        [
            "otter", "heron", "badger", "bat", "seal", "toad", "lynx", "goat",
        ],
    ),
    (
        "kitchen",
        0.3,
        [
            "kettle", "flour", "ladle", "oven", "butter", "pan", "recipe", "salt",
        ],
    ),
    (
        "letters",
        0.2,
        [
            "stamp", "envelope", "seal", "ink", "postcard", "parcel", "address", "pen",
        ],
    ),
    (
        "sport",
        0.25,
        [
            "goal", "bat", "referee", "sprint", "racket", "league", "medal", "coach",
        ],
    ),
    (
        "sea",
        0.35,
        [
            "harbour",
            "tide",
            "sail",
            "reef",
            "anchor",
            "wave",
            "lighthouse",
            "pier",
        ],
    ),
    (
        "weather",
        0.15,
        [
            "storm", "frost", "drizzle", "sunshine", "hail", "fog", "breeze", "thunder",
        ],
    ),
];

/// Words that belong to no theme.
const FILLING: [&str; 12] = [
    "the", "a", "and", "near", "under", "with", "then", "saw", "found", "left", "quiet", "old",
];

/// The most words of a theme in a text.
const MOST_WORDS: usize = 4;
/// The most words without a theme that can be asked for.
const MOST_FILLING: usize = 1000;
/// The length of one pass over texts, of which there is no end.
const PASS: usize = 10_000;
/// Held-out sets are the same for every run's seed.
const FIXED_SEED: u64 = 0;
/// Sets these draws apart from those of other generators.
const SITE: u64 = 7;

/// A text and the numbers of its themes.
struct Drawing {
    words: Vec<&'static str>,
    themes: Vec<i32>,
}

impl ThemesConfig {
    fn sizes(&self) -> HeldOut {
        HeldOut {
            share: self.held_out,
            valid_items: self.valid_items,
            test_items: self.test_items,
        }
    }

    /// The next text of a split.
    fn draw(&self, split: Split, stream: &mut Stream) -> Drawing {
        loop {
            let mut drawing = Drawing {
                words: Vec::new(),
                themes: Vec::new(),
            };
            for ((_, often, words), theme) in THEMES.iter().zip(0..) {
                if stream.uniform() >= *often {
                    continue;
                }
                drawing.themes.push(theme);
                for _ in 0..=stream.below(MOST_WORDS as u64) {
                    drawing
                        .words
                        .push(words[stream.below(words.len() as u64) as usize]);
                }
            }
            for _ in 0..=stream.below(self.filling as u64) {
                drawing
                    .words
                    .push(FILLING[stream.below(FILLING.len() as u64) as usize]);
            }
            for last in (1..drawing.words.len()).rev() {
                drawing
                    .words
                    .swap(last, stream.below(last as u64 + 1) as usize);
            }
            if self.sizes().split(key(&drawing.words.join(" "))) == split {
                return drawing;
            }
        }
    }

    fn fixed(&self, split: Split, items: usize, reading: &Reading) -> Result<Arc<dyn Source>> {
        let at = (0, split as u64, SITE);
        let mut stream = Stream::new(FIXED_SEED, Purpose::Synthetic, at);
        let (mut seen, mut set) = (HashSet::new(), Vec::new());
        for _ in 0..items.saturating_mul(100) {
            if set.len() == items {
                break;
            }
            let drawing = self.draw(split, &mut stream);
            if seen.insert(drawing.words.clone()) {
                set.push(reading.item(&drawing)?);
            }
        }
        Ok(Arc::new(Labelled { items: set, split }))
    }
}

/// The settings that make examples of texts.
#[derive(Clone)]
struct Reading {
    tokenizer: Tokenizer,
    frame: Option<Frame>,
}

impl Reading {
    fn item(&self, drawing: &Drawing) -> Result<TextItem> {
        let ids = self.tokenizer.encode(&drawing.words.join(" "))?;
        let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
        Ok(TextItem {
            inputs: self.frame.map_or(ids.clone(), |frame| frame.around(&ids)),
            classes: Some(drawing.themes.clone()),
            ..TextItem::default()
        })
    }
}

impl DataSet for ThemesConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.sizes().faults();
        if !(1..=MOST_FILLING).contains(&self.filling) {
            faults.push(format!(
                "[data] filling = {} must be at least 1 and at most {MOST_FILLING}",
                self.filling
            ));
        }
        faults
    }

    fn gives(&self) -> Gives {
        Gives::ManyLabelled
    }

    /// All themes in their frame.
    fn context(&self) -> usize {
        THEMES.len() * MOST_WORDS + self.filling + 2
    }

    fn has(&self, split: Split) -> bool {
        match split {
            Split::Train => true,
            Split::Valid => self.valid_items > 0,
            Split::Test => self.test_items > 0,
        }
    }

    fn around(&self, _view: &View) -> Around {
        Around::Frame
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let words = THEMES.iter().flat_map(|(.., words)| words).chain(&FILLING);
        let mut all: Vec<&str> = Vec::new();
        for word in words {
            if !all.contains(word) {
                all.push(word);
            }
        }
        let tokenizer = Tokenizer::of_words(&all)?;
        let reading = Reading {
            frame: tokenizer.frame(),
            tokenizer: tokenizer.clone(),
        };
        let held_out = |split, items| match items {
            0 => Ok(None),
            items => self.fixed(split, items, &reading).map(Some),
        };
        let shape = Shape {
            classes: THEMES.iter().map(|(name, ..)| (*name).into()).collect(),
            ..Shape::of_text(self.context(), tokenizer.vocab_size())
        };
        let (valid, test) = (
            held_out(Split::Valid, self.valid_items)?,
            held_out(Split::Test, self.test_items)?,
        );
        let train = Drawn {
            config: self.clone(),
            reading,
            seed: request.seed,
        };
        Ok(Data {
            valid,
            test,
            tokenizers: Tokenizers::one(tokenizer),
            ..Data::new(Arc::new(train), shape)
        })
    }
}

/// Training texts without end.
struct Drawn {
    config: ThemesConfig,
    reading: Reading,
    seed: u64,
}

impl Source for Drawn {
    fn len(&self) -> usize {
        PASS
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let at = (sample, Split::ALL.len() as u64, SITE);
        let mut stream = Stream::new(self.seed, Purpose::Synthetic, at);
        let drawing = self.config.draw(Split::Train, &mut stream);
        self.reading.item(&drawing).map(Item::Text)
    }

    fn size(&self, sample: u64) -> usize {
        let item = self.get(sample, 0).ok().and_then(Item::text);
        item.map_or(self.config.context(), |item| item.inputs.len())
    }

    fn drawn(&self) -> bool {
        true
    }
}
