//! `abc=abc`: repeat a string.
//!
//! The simplest use of attention by content: Graves et al., arXiv:1410.5401, section 4.1.

use super::strings::{Rule, StringsConfig};

/// `kind = "copy"`.
pub type CopyConfig = StringsConfig<Repeat>;

/// The rule that repeats the string.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat;

impl Rule for Repeat {
    fn answer(string: &[char]) -> Vec<char> {
        string.to_vec()
    }
}
