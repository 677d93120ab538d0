//! `kind = "listops"`: `[MAX 2 9 [MIN 4 7 ] 0 ]` is 9: nested operations on digits, classified by their value.
//!
//! Nangia and Bowman, "ListOps: a diagnostic dataset for latent tree learning", arXiv:1804.06028: `MAX`, `MIN`,
//! `MED` (the median, of an even number of values the mean of the middle two, rounded down) and `SM` (the sum
//! modulo 10). An argument is an operation with probability 1/4 as there; here the whole always is one, and
//! expressions outside the bounds on length are drawn again. Training draws without end; an expression belongs to
//! training or is held out by a hash of itself. Tokens without the parentheses of the original's binary trees.
//!
//! The Long Range Arena's (Tay et al., arXiv:2011.04006, section 2.2) are the same with `max_depth = 9`, `max_args = 10`,
//! `min_length = 501` and `max_length = 1999`: its depth of 10 counts the digits below the last operation, and its bounds
//! of 500 and 2,000 are left out.

use std::collections::HashSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problems::{HeldOut, key};
use crate::data::labelled::examples::Labelled;
use crate::data::{
    Data, DataSet, Gives, Item, Request, Shape, Source, Split, TextItem, Tokenizers, View,
};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::{Around, Frame, Tokenizer};

/// `kind = "listops"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListopsConfig {
    /// Operations inside each other at most. Source: Nangia and Bowman 2018; Tay et al. 2021, section 2.2.1.
    pub max_depth: usize,
    /// Arguments of an operation at most.
    pub max_args: usize,
    /// Tokens of an expression at least.
    pub min_length: usize,
    /// Tokens of an expression at most.
    pub max_length: usize,
    /// Share of all expressions that training never sees, for each held-out set.
    pub held_out: f64,
    /// Validation expressions.
    pub valid_items: usize,
    /// Test expressions; 0 for no test split.
    pub test_items: usize,
}

impl Default for ListopsConfig {
    fn default() -> Self {
        Self {
            max_depth: 4,
            max_args: 5,
            min_length: 8,
            max_length: 64,
            held_out: 0.1,
            valid_items: 1000,
            test_items: 0,
        }
    }
}

const OPERATIONS: [&str; 4] = ["[MAX", "[MIN", "[MED", "[SM"];
const END: &str = "]";
const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
/// Expressions stay small enough to be drawn and read.
const MOST_NESTED: usize = 20;
const MOST_ARGS: usize = 20;
const MOST_TOKENS: usize = 1 << 14;
/// Probability that an argument is an operation.
const NESTED: f32 = 0.25;
/// Draws before the bounds are taken to have no further expression.
const PATIENCE: usize = 100_000;
/// The length of one pass over expressions, of which there is no end.
const PASS: usize = 10_000;
/// Held-out sets are the same for every run's seed.
const FIXED_SEED: u64 = 0;
/// Sets these draws apart from those of other generators.
const SITE: u64 = 1;

/// An expression, as places in the vocabulary of words, and its value.
struct Expression {
    words: Vec<&'static str>,
    value: usize,
}

fn value(operation: usize, mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    let n = values.len();
    match operation {
        0 => values[n - 1],
        1 => values[0],
        2 => (values[(n - 1) / 2] + values[n / 2]) / 2,
        _ => values.iter().sum::<usize>() % 10,
    }
}

impl ListopsConfig {
    fn sizes(&self) -> HeldOut {
        HeldOut {
            share: self.held_out,
            valid_items: self.valid_items,
            test_items: self.test_items,
        }
    }

    /// Writes an operation at some depth and gives its value; nothing when it grows too long.
    fn operation(
        &self,
        depth: usize,
        stream: &mut Stream,
        words: &mut Vec<&'static str>,
    ) -> Option<usize> {
        let operation = stream.below(OPERATIONS.len() as u64) as usize;
        words.push(OPERATIONS[operation]);
        let count = 2 + stream.below(self.max_args as u64 - 1) as usize;
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            if words.len() >= self.max_length {
                return None;
            }
            if depth < self.max_depth && stream.uniform() < NESTED {
                values.push(self.operation(depth + 1, stream, words)?);
            } else {
                let digit = stream.below(10) as usize;
                words.push(DIGITS[digit]);
                values.push(digit);
            }
        }
        words.push(END);
        Some(value(operation, values))
    }

    /// The next expression of a split.
    fn draw(&self, split: Split, stream: &mut Stream) -> Result<Expression> {
        let sizes = self.sizes();
        for _ in 0..PATIENCE {
            let mut words = Vec::new();
            let Some(value) = self.operation(1, stream, &mut words) else {
                continue;
            };
            let fits = (self.min_length..=self.max_length).contains(&words.len());
            if fits && sizes.split(key(&words.join(" "))) == split {
                return Ok(Expression { words, value });
            }
        }
        Err(Error::usage(format!(
            "[data] {PATIENCE} expressions were drawn in vain for the {} split: hardly any has {} to {} tokens with \
             max_depth = {} and max_args = {}",
            split.name(),
            self.min_length,
            self.max_length,
            self.max_depth,
            self.max_args
        )))
    }

    fn fixed(&self, split: Split, items: usize, reading: &Reading) -> Result<Arc<dyn Source>> {
        let at = (0, split as u64, SITE);
        let mut stream = Stream::new(FIXED_SEED, Purpose::Synthetic, at);
        let mut seen = HashSet::new();
        let mut set = Vec::new();
        for _ in 0..items.saturating_mul(100) {
            if set.len() == items {
                break;
            }
            let expression = self.draw(split, &mut stream)?;
            if seen.insert(expression.words.clone()) {
                set.push(reading.item(&expression)?);
            }
        }
        Ok(Arc::new(Labelled { items: set, split }))
    }
}

/// The settings that make examples of expressions.
#[derive(Clone)]
struct Reading {
    tokenizer: Tokenizer,
    frame: Option<Frame>,
}

impl Reading {
    fn item(&self, expression: &Expression) -> Result<TextItem> {
        let ids = self.tokenizer.encode(&expression.words.join(" "))?;
        let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
        Ok(TextItem {
            inputs: self.frame.map_or(ids.clone(), |frame| frame.around(&ids)),
            label: Some(expression.value as i32),
            ..TextItem::default()
        })
    }
}

impl DataSet for ListopsConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.sizes().faults();
        if self.max_depth == 0 || self.max_args < 2 {
            faults.push("[data] max_depth must be at least 1 and max_args at least 2".into());
        }
        if self.max_depth > MOST_NESTED || self.max_args > MOST_ARGS {
            faults.push(format!(
                "[data] max_depth is at most {MOST_NESTED}, max_args at most {MOST_ARGS}"
            ));
        }
        if self.max_length > MOST_TOKENS {
            faults.push(format!(
                "[data] max_length = {} is more than {MOST_TOKENS}",
                self.max_length
            ));
        }
        if self.max_length < 4 || self.min_length > self.max_length {
            faults.push(format!(
                "[data] max_length = {} must be at least 4, the length of [MAX 1 2 ], and not below min_length = {}",
                self.max_length, self.min_length
            ));
        }
        faults
    }

    fn gives(&self) -> Gives {
        Gives::Labelled
    }

    /// An expression in its frame.
    fn context(&self) -> usize {
        self.max_length + 2
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
        let words: Vec<&str> = OPERATIONS.into_iter().chain([END]).chain(DIGITS).collect();
        let tokenizer = Tokenizer::of_words(&words)?;
        let reading = Reading {
            frame: tokenizer.frame(),
            tokenizer: tokenizer.clone(),
        };
        let held_out = |split, items| match items {
            0 => Ok(None),
            items => self.fixed(split, items, &reading).map(Some),
        };
        let shape = Shape {
            classes: DIGITS.map(String::from).to_vec(),
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
        train.get(0, 0)?;
        Ok(Data {
            valid,
            test,
            tokenizers: Tokenizers::one(tokenizer),
            ..Data::new(Arc::new(train), shape)
        })
    }
}

/// Training expressions without end.
struct Drawn {
    config: ListopsConfig,
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
        let expression = self.config.draw(Split::Train, &mut stream)?;
        self.reading.item(&expression).map(Item::Text)
    }

    fn size(&self, sample: u64) -> usize {
        let item = self.get(sample, 0).ok().and_then(Item::text);
        item.map_or(self.config.context(), |item| item.inputs.len())
    }

    fn drawn(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let of = |operation| value(operation, vec![4, 9, 2, 8]);
        assert_eq!([0, 1, 2, 3].map(of), [9, 2, 6, 3]);
        assert_eq!(value(2, vec![1, 4]), 2);
        assert_eq!(value(2, vec![7, 1, 3]), 3);
    }
}
