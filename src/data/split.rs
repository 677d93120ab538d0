//! Cutting a text into training, validation and test parts: the tail is held out, as nanoGPT does.
//!
//! A fraction counts characters (bytes for the byte tokenizer), or whole documents when windows are
//! packed from documents. Of 1,115,394 characters with `valid_fraction = 0.1`, 1,003,854 are for
//! training.

use super::PerSplit;
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};

/// The seed of what is held out: the same for every run.
pub(super) const SPLIT_SEED: u64 = 0;

/// The unit that fractions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Unicode scalar values.
    Characters,
    /// Bytes.
    Bytes,
    /// Whole documents.
    Documents,
}

/// The documents of each part.
pub type Parts = PerSplit<Vec<Vec<u8>>>;

/// Leaves so many of what is trained on, drawn at random and the same for every seed, in their order: a smaller number
/// leaves some of a larger one's.
///
/// # Errors
/// Fewer are there.
pub(super) fn limit<T>(items: &mut Vec<T>, wanted: usize, what: &str) -> Result<()> {
    let there = items.len();
    if wanted > there {
        return Err(Error::usage(format!(
            "[data] train_items = {wanted}, but there are {there} {what} to train on"
        )));
    }
    let mut order: Vec<usize> = (0..there).collect();
    Stream::new(SPLIT_SEED, Purpose::Split, (1, 0, 0)).shuffle(&mut order);
    let mut kept = vec![false; there];
    order[..wanted].iter().for_each(|i| kept[*i] = true);
    let mut kept = kept.into_iter();
    items.retain(|_| kept.next() == Some(true));
    Ok(())
}

/// Cuts off the tail: first the training part, then validation, then test.
///
/// # Errors
/// Too few documents for a part of each wanted fraction.
pub fn cut(documents: Vec<Vec<u8>>, unit: Unit, valid: f64, test: f64) -> Result<Parts> {
    let length = |d: &Vec<u8>| match unit {
        Unit::Characters => d.iter().filter(|b| !continues(**b)).count(),
        Unit::Bytes => d.len(),
        Unit::Documents => 1,
    };
    let total: usize = documents.iter().map(length).sum();
    let (first, second) = bounds(total, valid, test);
    if unit == Unit::Documents
        && ((valid > 0.0 && first == second) || (test > 0.0 && second == total) || first == 0)
    {
        return Err(Error::usage(format!(
            "[data] {total} document(s) cannot be split by fractions; make more documents with `document_separator`, \
             JSONL or a folder, or give valid_path"
        )));
    }
    let mut parts = Parts::default();
    let mut at = 0;
    for document in documents {
        let end = at + length(&document);
        let mut rest = document;
        // Where the bounds fall inside this document, from the last to the first.
        for (bound, part) in [(second, &mut parts.test), (first, &mut parts.valid)] {
            if bound < end {
                let tail = if bound <= at {
                    std::mem::take(&mut rest)
                } else {
                    rest.split_off(offset(&rest, unit, bound - at))
                };
                if !tail.is_empty() {
                    part.push(tail);
                }
            }
        }
        if !rest.is_empty() {
            parts.train.push(rest);
        }
        at = end;
    }
    Ok(parts)
}

/// Where validation and test begin. A millionth is forgiven: 4,000,000 · (1 − 0.05 − 0.05) is
/// 3,600,000.
pub(super) fn bounds(total: usize, valid: f64, test: f64) -> (usize, usize) {
    let at = |share: f64| ((total as f64 * share + 1e-6).floor().max(0.0) as usize).min(total);
    let second = at(1.0 - test);
    (at(1.0 - valid - test).min(second), second)
}

/// Bytes before unit `count` of a document.
fn offset(text: &[u8], unit: Unit, count: usize) -> usize {
    match unit {
        Unit::Bytes | Unit::Documents => count.min(text.len()),
        Unit::Characters => text
            .iter()
            .enumerate()
            .filter(|(_, b)| !continues(**b))
            .nth(count)
            .map_or(text.len(), |(at, _)| at),
    }
}

/// Whether a byte continues a UTF-8 character.
fn continues(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|t| t.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_known_splits() {
        assert_eq!(bounds(1_115_394, 0.1, 0.0), (1_003_854, 1_115_394));
        assert_eq!(bounds(4_000_000, 0.05, 0.05), (3_600_000, 3_800_000));
        assert_eq!(bounds(10, 0.0, 0.0), (10, 10));
    }

    #[test]
    fn characters_are_not_cut() {
        let parts = cut(of(&["éééé", "ééé", "ééé"]), Unit::Characters, 0.4, 0.2).unwrap();
        assert_eq!(parts.train, of(&["éééé"]));
        assert_eq!(parts.valid, of(&["ééé", "é"]));
        assert_eq!(parts.test, of(&["éé"]));
        let parts = cut(of(&["abcdefghij"]), Unit::Bytes, 0.3, 0.2).unwrap();
        assert_eq!(
            (parts.train, parts.valid, parts.test),
            (of(&["abcde"]), of(&["fgh"]), of(&["ij"]))
        );
    }

    #[test]
    fn documents_stay_whole() {
        let parts = cut(of(&["aaaa", "b", "c", "d"]), Unit::Documents, 0.25, 0.0).unwrap();
        assert_eq!((parts.train.len(), parts.valid), (3, of(&["d"])));
        assert!(cut(of(&["one"]), Unit::Documents, 0.5, 0.0).is_err());
    }
}
