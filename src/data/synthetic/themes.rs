//! `kind = "themes"`: short texts, each about any number of six themes: `the otter left a kettle under the
//! old pan` is about animals and the kitchen.
//!
//! A text has one to four words of every theme that it mentions, in random order among words that belong to
//! no theme. Each theme has its own probability. Two words belong to two themes each, so that a model must
//! read more than single words to be sure of either theme. Training draws without end; a text belongs to
//! training or is held out according to its hash.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::classified::{self, Drawing, Texts};
use super::held_out::HeldOut;
use crate::data::{Data, DataSet, ExampleForm, Request, Split, View};
use crate::error::Result;
use crate::rng::Stream;
use crate::tokenizer::TokenFraming;

/// `kind = "themes"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ThemesConfig {
    /// Maximum number of words without a theme in a text; every text has at least one.
    pub filling: usize,
    /// Share of all texts that training never sees, for each held-out set.
    pub held_out: f64,
    /// Number of validation texts.
    pub valid_items: usize,
    /// Number of test texts; 0 for no test split.
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

/// The themes: name, probability that a text mentions it, and words. `bat` and `seal` belong to two themes.
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

/// Maximum number of words of a theme in a text.
const MOST_WORDS: usize = 4;
/// Maximum value of `filling`.
const MOST_FILLING: usize = 1000;
/// Draws a word of a list.
fn pick(words: &[&'static str], stream: &mut Stream) -> &'static str {
    words[stream.below(words.len() as u64) as usize]
}

impl Texts for ThemesConfig {
    const SITE: u64 = 7;
    const EXAMPLE_FORM: ExampleForm = ExampleForm::ManyLabelled;

    fn sizes(&self) -> HeldOut {
        HeldOut {
            share: self.held_out,
            valid_items: self.valid_items,
            test_items: self.test_items,
        }
    }

    /// The length of a text with all themes, in its frame.
    fn longest(&self) -> usize {
        THEMES.len() * MOST_WORDS + self.filling + 2
    }

    fn draw(&self, stream: &mut Stream) -> Option<Drawing> {
        let (mut words, mut classes) = (Vec::new(), Vec::new());
        for ((_, often, of_theme), theme) in THEMES.iter().zip(0..) {
            if stream.uniform() >= *often {
                continue;
            }
            classes.push(theme);
            for _ in 0..=stream.below(MOST_WORDS as u64) {
                words.push(pick(of_theme, stream));
            }
        }
        for _ in 0..=stream.below(self.filling as u64) {
            words.push(pick(&FILLING, stream));
        }
        for last in (1..words.len()).rev() {
            words.swap(last, stream.below(last as u64 + 1) as usize);
        }
        Some(Drawing { words, classes })
    }

    fn rarity(&self) -> String {
        format!(
            "hardly any text belongs to it with held_out = {}",
            self.held_out
        )
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

    fn example_form(&self) -> ExampleForm {
        Self::EXAMPLE_FORM
    }

    fn context(&self) -> usize {
        self.longest()
    }

    fn has(&self, split: Split) -> bool {
        self.sizes().has(split)
    }

    fn framing(&self, _view: &View) -> TokenFraming {
        TokenFraming::Frame
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let words = THEMES.iter().flat_map(|(.., words)| words).chain(&FILLING);
        let mut all: Vec<&str> = Vec::new();
        for word in words {
            if !all.contains(word) {
                all.push(word);
            }
        }
        let names = THEMES.iter().map(|(name, ..)| (*name).into());
        classified::prepare(self, &all, names.collect(), request)
    }
}
