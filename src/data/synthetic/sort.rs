//! `bca=abc`: sort the symbols of a string, in the order a to z, A to Z, 0 to 9.
//!
//! Every position of the answer depends on the whole string: Graves et al., arXiv:1410.5401, section 4.5.

use super::strings::{Rule, StringsConfig};

/// `kind = "sort"`.
pub type SortConfig = StringsConfig<Sorted>;

/// The rule that sorts the symbols.
#[derive(Clone, Debug, PartialEq)]
pub struct Sorted;

impl Rule for Sorted {
    fn answer(string: &[char]) -> Vec<char> {
        let mut answer = string.to_vec();
        answer.sort_by_key(|c| (c.is_ascii_digit(), c.is_ascii_uppercase(), *c));
        answer
    }
}
