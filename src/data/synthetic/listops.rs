//! `kind = "listops"`: `[MAX 2 9 [MIN 4 7 ] 0 ]` is 9: nested operations on digits, classified by their
//! value.
//!
//! Nangia and Bowman, "ListOps: a diagnostic dataset for latent tree learning", arXiv:1804.06028: `MAX`,
//! `MIN`, `MED` (the median; for an even number of values the mean of the middle two, rounded down) and `SM`
//! (the sum modulo 10). As in the paper, an argument is an operation with probability 1/4; here the whole is
//! always one, and expressions outside the length bounds are drawn again. Training draws without end; an
//! expression belongs to training or is held out according to its hash. The tokens do not include the
//! parentheses of the original's binary trees.
//!
//! The expressions of the Long Range Arena (Tay et al., arXiv:2011.04006, section 2.2) are the same with
//! `max_depth = 9`, `max_args = 10`, `min_length = 501` and `max_length = 1999`: its depth of 10 counts the
//! digits below the last operation, and its bounds of 500 and 2,000 are exclusive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::classified::{self, Drawing, Texts};
use super::held_out::HeldOut;
use crate::data::{Data, DataSet, ExampleForm, Request, Split, View};
use crate::error::Result;
use crate::rng::Stream;
use crate::tokenizer::TokenFraming;

/// `kind = "listops"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListopsConfig {
    /// Maximum depth of nested operations. Source: Nangia and Bowman 2018; Tay et al. 2021, section 2.2.1.
    pub max_depth: usize,
    /// Maximum number of arguments of an operation.
    pub max_args: usize,
    /// Minimum length of an expression in tokens.
    pub min_length: usize,
    /// Maximum length of an expression in tokens.
    pub max_length: usize,
    /// Share of all expressions that training never sees, for each held-out set.
    pub held_out: f64,
    /// Number of validation expressions.
    pub valid_items: usize,
    /// Number of test expressions; 0 for no test split.
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
/// Upper bounds, so that expressions can be drawn and read in reasonable time.
const MOST_NESTED: usize = 20;
const MOST_ARGS: usize = 20;
const MOST_TOKENS: usize = 1 << 14;
/// Probability that an argument is an operation.
const NESTED: f32 = 0.25;

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
    /// Writes an operation at some depth and returns its value; `None` if it grows too long.
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
}

impl Texts for ListopsConfig {
    const SITE: u64 = 1;
    const EXAMPLE_FORM: ExampleForm = ExampleForm::Labelled;

    fn sizes(&self) -> HeldOut {
        HeldOut {
            share: self.held_out,
            valid_items: self.valid_items,
            test_items: self.test_items,
        }
    }

    /// The length of an expression in its frame.
    fn longest(&self) -> usize {
        self.max_length + 2
    }

    fn draw(&self, stream: &mut Stream) -> Option<Drawing> {
        let mut words = Vec::new();
        let value = self.operation(1, stream, &mut words)?;
        let fits = (self.min_length..=self.max_length).contains(&words.len());
        fits.then(|| Drawing {
            words,
            classes: vec![value as i32],
        })
    }

    fn rarity(&self) -> String {
        format!(
            "hardly any text has {} to {} tokens with max_depth = {} and max_args = {} and belongs to it with held_out = {}",
            self.min_length, self.max_length, self.max_depth, self.max_args, self.held_out
        )
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
                "[data] max_depth must be at most {MOST_NESTED} and max_args at most {MOST_ARGS}"
            ));
        }
        if self.max_length > MOST_TOKENS {
            faults.push(format!(
                "[data] max_length = {} must be at most {MOST_TOKENS}",
                self.max_length
            ));
        }
        if self.max_length < 4 || self.min_length > self.max_length {
            faults.push(format!(
                "[data] max_length = {} must be at least 4, the length of [MAX 1 2 ], and at least min_length = {}",
                self.max_length, self.min_length
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
        let words: Vec<&str> = OPERATIONS.into_iter().chain([END]).chain(DIGITS).collect();
        classified::prepare(self, &words, DIGITS.map(String::from).to_vec(), request)
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
