//! Generated texts to classify: training draws without end; held-out sets are fixed, and their texts are all
//! different.
//!
//! A text belongs to training or is held out according to its hash, so that no seed shows a held-out text in
//! training.

use std::collections::HashSet;
use std::sync::Arc;

use super::held_out::{FIXED_SEED, HeldOut, PASS, key};
use crate::data::labelled::examples::Labelled;
use crate::data::{Data, ExampleForm, Item, Request, Shape, Source, Split, TextItem, Tokenizers};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::{Frame, Tokenizer};

/// A text with its class numbers.
pub(super) struct Drawing {
    pub(super) words: Vec<&'static str>,
    pub(super) classes: Vec<i32>,
}

/// A generator of texts with classes.
pub(super) trait Texts: Clone + Send + Sync + 'static {
    /// Separates its random draws from those of other generators.
    const SITE: u64;
    /// Whether a text has one class or any number of them.
    const EXAMPLE_FORM: ExampleForm;

    /// Returns the sizes of the held-out sets.
    fn sizes(&self) -> HeldOut;

    /// Returns the maximum length of a text in tokens, with its frame.
    fn longest(&self) -> usize;

    /// Draws a text; `None` if it breaks a bound and must be drawn again.
    fn draw(&self, stream: &mut Stream) -> Option<Drawing>;

    /// Returns the clause that follows "none of N drawn texts belongs to the valid split: " in the error of a
    /// split to which hardly any text belongs.
    fn rarity(&self) -> String;
}

/// Number of draws after which a split is assumed to have no further text.
const MAX_DRAWS: usize = 100_000;
/// Prepares the data of a generator whose texts are made of `words`, with the class names `classes`.
///
/// # Errors
/// If hardly any text belongs to a split.
pub(super) fn prepare<T: Texts>(
    texts: &T,
    words: &[&str],
    classes: Vec<String>,
    request: &Request,
) -> Result<Data> {
    let tokenizer = Tokenizer::of_words(words)?;
    let reading = Reading {
        texts: texts.clone(),
        frame: tokenizer.frame(),
        tokenizer: tokenizer.clone(),
    };
    let sizes = texts.sizes();
    let valid = reading.fixed(Split::Valid, sizes.valid_items)?;
    let test = reading.fixed(Split::Test, sizes.test_items)?;
    let shape = Shape {
        classes,
        ..Shape::of_text(texts.longest(), tokenizer.vocab_size())
    };
    let train = Drawn {
        reading,
        seed: request.seed,
    };
    train.get(0, 0)?;
    Ok(Data {
        valid,
        test,
        tokenizers: Tokenizers::single(tokenizer),
        ..Data::new(Arc::new(train), shape)
    })
}

/// A generator with the tokenizer that encodes its texts.
struct Reading<T> {
    texts: T,
    tokenizer: Tokenizer,
    frame: Option<Frame>,
}

impl<T: Texts> Reading<T> {
    /// Draws the next text of a split.
    fn draw(&self, split: Split, stream: &mut Stream) -> Result<Drawing> {
        let sizes = self.texts.sizes();
        let drawn = (0..MAX_DRAWS).filter_map(|_| self.texts.draw(stream));
        let mut of_split =
            drawn.filter(|drawing| sizes.split(key(&drawing.words.join(" "))) == split);
        of_split.next().ok_or_else(|| {
            let (name, why) = (split.name(), self.texts.rarity());
            Error::usage(format!(
                "[data] none of {MAX_DRAWS} drawn texts belongs to the {name} split: {why}"
            ))
        })
    }

    /// Builds a held-out set of at most `items` different texts; `None` for 0.
    fn fixed(&self, split: Split, items: usize) -> Result<Option<Arc<dyn Source>>> {
        if items == 0 {
            return Ok(None);
        }
        let at = (0, split as u64, T::SITE);
        let mut stream = Stream::new(FIXED_SEED, Purpose::Synthetic, at);
        let (mut seen, mut set) = (HashSet::new(), Vec::new());
        for _ in 0..items.saturating_mul(100) {
            if set.len() == items {
                break;
            }
            let drawing = self.draw(split, &mut stream)?;
            if seen.insert(drawing.words.clone()) {
                set.push(self.item(drawing)?);
            }
        }
        Ok(Some(Arc::new(Labelled { items: set, split })))
    }

    fn item(&self, drawing: Drawing) -> Result<TextItem> {
        let ids = self.tokenizer.encode(&drawing.words.join(" "))?;
        let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
        let several = T::EXAMPLE_FORM == ExampleForm::ManyLabelled;
        let label = drawing.classes.first().copied().filter(|_| !several);
        Ok(TextItem {
            inputs: self.frame.map_or(ids.clone(), |frame| frame.around(&ids)),
            label,
            classes: several.then_some(drawing.classes),
            ..TextItem::default()
        })
    }
}

/// A source of training texts, drawn without end.
struct Drawn<T> {
    reading: Reading<T>,
    seed: u64,
}

impl<T: Texts> Source for Drawn<T> {
    fn len(&self) -> usize {
        PASS
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let at = (sample, Split::ALL.len() as u64, T::SITE);
        let mut stream = Stream::new(self.seed, Purpose::Synthetic, at);
        let drawing = self.reading.draw(Split::Train, &mut stream)?;
        self.reading.item(drawing).map(Item::Text)
    }

    fn size(&self, sample: u64) -> usize {
        let item = self.get(sample, 0).ok().and_then(Item::text);
        item.map_or(self.reading.texts.longest(), |item| item.inputs.len())
    }

    fn is_endless(&self) -> bool {
        true
    }
}
