//! The words of encoded texts.

use std::ops::Range;

use crate::tokenizer::Tokenizer;

/// Returns the token ranges of the words of a text, without special tokens.
pub(in crate::data) fn words(ids: &[i32], tokenizer: &Tokenizer) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut before = None;
    for (at, id) in ids.iter().enumerate() {
        let id = *id as u32;
        if !tokenizer.is_special(id) {
            match words.last_mut() {
                Some(word) if !tokenizer.begins_word(before, id) => word.end = at + 1,
                _ => words.push(at..at + 1),
            }
        }
        before = Some(id);
    }
    words
}
