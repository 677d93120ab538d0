//! `abc=cba`: write a string backwards.
//!
//! The distance to attend over grows with every place.

use super::strings::{Rule, StringsConfig};

/// `kind = "reverse"`.
pub type ReverseConfig = StringsConfig<Backwards>;

/// The string from its last character to its first.
#[derive(Clone, Debug, PartialEq)]
pub struct Backwards;

impl Rule for Backwards {
    fn answer(string: &[char]) -> Vec<char> {
        string.iter().rev().copied().collect()
    }
}
