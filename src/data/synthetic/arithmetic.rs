//! `12+34=046`: whole numbers of a fixed width, so that every place value has its own position.
//!
//! With `reversed` the answer's last digit comes first, in the direction of the carry (Lee et al., "Teaching
//! arithmetic to small transformers", arXiv:2307.03381). A sum or product and its mirror image (12+34, 34+12)
//! count as one problem: if its answer is held out, it is held out in both orders.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::held_out::{HeldOut, key};
use super::problems::{Problem, Problems};
use crate::rng::Stream;

/// `kind = "arithmetic"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArithmeticConfig {
    /// Digits of each operand, zeros in front.
    pub digits: u32,
    /// Operations to draw from: `+`, `-`, `*`.
    pub operations: Vec<String>,
    /// Whether the answer is written from its last digit to its first.
    pub reversed: bool,
    /// Share of all problems that training never sees, for each held-out set.
    pub held_out: f64,
    /// Maximum number of validation problems.
    pub valid_items: usize,
    /// Maximum number of test problems; 0 for no test split.
    pub test_items: usize,
}

impl Default for ArithmeticConfig {
    fn default() -> Self {
        Self {
            digits: 2,
            operations: vec!["+".into()],
            reversed: false,
            held_out: 0.1,
            valid_items: 1000,
            test_items: 0,
        }
    }
}

/// Products of longer numbers would overflow 64 bits.
const MOST_DIGITS: u32 = 9;

impl ArithmeticConfig {
    /// Returns the digits of an answer: one more than the operands for a carry or a sign, twice as many for a
    /// product.
    fn width(&self) -> usize {
        let digits = self.digits as usize;
        if self.operations.iter().any(|o| o == "*") {
            (2 * digits).max(digits + 1)
        } else {
            digits + 1
        }
    }
}

impl Problems for ArithmeticConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.held_out().faults();
        if !(1..=MOST_DIGITS).contains(&self.digits) {
            faults.push(format!(
                "[data] digits = {} must be between 1 and {MOST_DIGITS}",
                self.digits
            ));
        }
        if self.operations.is_empty() {
            faults.push("[data] operations is empty; allowed: `+`, `-`, `*`".into());
        }
        for (i, operation) in self.operations.iter().enumerate() {
            if !["+", "-", "*"].contains(&operation.as_str()) {
                faults.push(format!(
                    "[data] operations contains `{operation}`; allowed: `+`, `-`, `*`"
                ));
            } else if self.operations[..i].contains(operation) {
                faults.push(format!("[data] operations contains `{operation}` twice"));
            }
        }
        faults
    }

    fn question(&self) -> String {
        let operand = |digits: &str| digits.repeat(self.digits as usize);
        let operation = self.operations.first().map_or("+", String::as_str);
        format!("{}{operation}{}=", operand("1"), operand("2"))
    }

    fn alphabet(&self) -> String {
        let mut alphabet = String::from("0123456789");
        for operation in ["+", "-", "*"] {
            // A difference may be negative.
            if self.operations.iter().any(|o| o == operation) {
                alphabet.push_str(operation);
            }
        }
        alphabet + "="
    }

    fn longest(&self) -> usize {
        2 * self.digits as usize + 2 + self.width()
    }

    fn draw(&self, stream: &mut Stream) -> Problem {
        let operation = &self.operations[stream.below(self.operations.len() as u64) as usize];
        let numbers = 10u64.pow(self.digits);
        let (a, b) = (stream.below(numbers) as i64, stream.below(numbers) as i64);
        let result = match operation.as_str() {
            "-" => a - b,
            "*" => a * b,
            _ => a + b,
        };
        let (digits, width) = (self.digits as usize, self.width());
        let mut answer = format!("{result:0width$}");
        if self.reversed {
            answer = answer.chars().rev().collect();
        }
        let (low, high) = if operation == "-" {
            (a, b)
        } else {
            (a.min(b), a.max(b))
        };
        Problem {
            question: format!("{a:0digits$}{operation}{b:0digits$}="),
            answer,
            key: key(&format!("{low}{operation}{high}")),
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
