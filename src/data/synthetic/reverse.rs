//! `abc=cba`: write a string backwards.
//!
//! The attention distance grows with every position.

use super::strings::{Rule, StringsConfig};

/// `kind = "reverse"`.
pub type ReverseConfig = StringsConfig<Backwards>;

/// The rule that writes the string from its last character to its first.
#[derive(Clone, Debug, PartialEq)]
pub struct Backwards;

impl Rule for Backwards {
    fn answer(string: &[char]) -> Vec<char> {
        string.iter().rev().copied().collect()
    }
}
