//! Strings of symbols and questions about them: the common part of `copy`, `reverse` and `sort`.
//!
//! Each kind is a [`Rule`] in a separate file; the keys, the alphabet and the held-out sets are shared.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::held_out::{HeldOut, key};
use super::problems::{Problem, Problems};
use crate::rng::Stream;

/// The rule that turns a string into its answer.
pub trait Rule: Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static {
    /// Returns the answer, which is as long as the string.
    fn answer(string: &[char]) -> Vec<char>;
}

/// The configuration of a kind that asks about strings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, bound = "")]
pub struct StringsConfig<R: Rule> {
    /// Maximum length of a string in characters.
    #[schemars(range(min = 1))]
    pub length: usize,
    /// Minimum length in characters; default: every string has `length`.
    #[schemars(range(min = 1))]
    pub min_length: Option<usize>,
    /// Number of different characters.
    pub symbols: usize,
    /// Share of all strings that training never sees, for each held-out set.
    pub held_out: f64,
    /// Maximum number of validation strings.
    pub valid_items: usize,
    /// Maximum number of test strings; 0 for no test split.
    pub test_items: usize,
    #[serde(skip)]
    rule: PhantomData<R>,
}

impl<R: Rule> Default for StringsConfig<R> {
    fn default() -> Self {
        Self {
            length: 12,
            min_length: None,
            symbols: 10,
            held_out: 0.1,
            valid_items: 1000,
            test_items: 0,
            rule: PhantomData,
        }
    }
}

/// Returns the first `count` letters and digits.
fn symbols(count: usize) -> impl Iterator<Item = char> {
    ('a'..='z').chain('A'..='Z').chain('0'..='9').take(count)
}

/// Number of symbols in total.
const SYMBOLS: usize = 62;

impl<R: Rule> StringsConfig<R> {
    fn string(&self, stream: &mut Stream) -> Vec<char> {
        let least = self.min_length.unwrap_or(self.length);
        let length = least + stream.below((self.length - least) as u64 + 1) as usize;
        let all: Vec<char> = symbols(self.symbols).collect();
        (0..length)
            .map(|_| all[stream.below(all.len() as u64) as usize])
            .collect()
    }
}

impl<R: Rule> Problems for StringsConfig<R> {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.length == 0 || self.min_length == Some(0) {
            faults.push("[data] length and min_length must be at least 1".into());
        }
        if self.min_length.is_some_and(|least| least > self.length) {
            faults.push(format!(
                "[data] min_length must be at most length = {}",
                self.length
            ));
        }
        if !(2..=SYMBOLS).contains(&self.symbols) {
            let count = self.symbols;
            faults.push(format!(
                "[data] symbols = {count} must be between 2 and {SYMBOLS}"
            ));
        }
        faults.extend(self.held_out().faults());
        faults
    }

    fn question(&self) -> String {
        let alphabet: Vec<char> = symbols(self.symbols).collect();
        let string: String = alphabet.iter().rev().cycle().take(self.length).collect();
        string + "="
    }

    fn alphabet(&self) -> String {
        symbols(self.symbols).chain(['=']).collect()
    }

    /// The length of a string, the `=` and an answer of the same length.
    fn longest(&self) -> usize {
        2 * self.length + 1
    }

    fn draw(&self, stream: &mut Stream) -> Problem {
        let string = self.string(stream);
        let question: String = string.iter().collect();
        Problem {
            key: key(&question),
            question: question + "=",
            answer: R::answer(&string).into_iter().collect(),
        }
    }

    fn held_out(&self) -> HeldOut {
        HeldOut {
            share: self.held_out,
            valid_items: self.valid_items,
            test_items: self.test_items,
        }
    }
}
