//! `abc=abc`: repeat a string.
//!
//! The plainest use of attention by content: Graves et al., arXiv:1410.5401, section 4.1.

use serde::{Deserialize, Serialize};

use super::problems::{HeldOut, Problem, Problems, Strings};
use crate::rng::Stream;

/// `kind = "copy"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CopyConfig {
    /// Characters of a string at most.
    pub length: usize,
    /// Characters at least; default: every string has `length`.
    pub min_length: Option<usize>,
    /// Different characters.
    pub symbols: usize,
    /// Share of all strings that training never sees, for each held-out set.
    pub held_out: f64,
    /// Validation strings at most.
    pub valid_items: usize,
    /// Test strings at most; 0 for no test split.
    pub test_items: usize,
}

impl Default for CopyConfig {
    fn default() -> Self {
        Self {
            length: 12,
            min_length: None,
            symbols: 10,
            held_out: 0.1,
            valid_items: 1000,
            test_items: 0,
        }
    }
}

impl CopyConfig {
    fn strings(&self) -> Strings {
        Strings {
            length: self.length,
            min_length: self.min_length,
            symbols: self.symbols,
        }
    }

    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = self.strings().faults();
        faults.extend(self.held_out().faults());
        faults
    }
}

impl Problems for CopyConfig {
    fn alphabet(&self) -> String {
        self.strings().alphabet()
    }

    fn longest(&self) -> usize {
        self.strings().longest()
    }

    fn draw(&self, stream: &mut Stream) -> Problem {
        let string = self.strings().draw(stream);
        let answer = string.clone();
        Strings::problem(&string, answer)
    }

    fn held_out(&self) -> HeldOut {
        HeldOut {
            share: self.held_out,
            valid_items: self.valid_items,
            test_items: self.test_items,
        }
    }
}
