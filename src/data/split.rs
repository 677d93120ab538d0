//! Splits a text into training, validation and test parts: the tail is held out, as in nanoGPT.
//!
//! Fractions count characters (bytes for the byte tokenizer), or whole documents if windows are packed from
//! documents. Of 1,115,394 characters with `valid_fraction = 0.1`, 1,003,854 are for training.

use super::{PerSplit, Split};
use crate::error::{Error, Result};
use crate::rng::{Permutation, Purpose, Stream};

/// Seed of the held-out selection: the same for every run.
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

/// Keeps only `wanted` training examples, in their order. They are drawn at random, the same for every seed,
/// so that a smaller selection is a subset of a larger one.
///
/// # Errors
/// If there are fewer than `wanted`.
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

/// The bounds of the validation and test parts, and the number of units in the documents so far.
#[derive(Clone, Copy, Debug)]
pub struct SplitCursor {
    unit: Unit,
    valid: usize,
    test: usize,
    at: usize,
}

impl SplitCursor {
    /// Computes the bounds of `total` units: first the training part, then validation, then test.
    ///
    /// # Errors
    /// If there are too few documents for each wanted fraction.
    pub fn new(total: usize, unit: Unit, valid: f64, test: f64) -> Result<Self> {
        let (first, second) = bounds(total, valid, test);
        if unit == Unit::Documents
            && ((valid > 0.0 && first == second) || (test > 0.0 && second == total) || first == 0)
        {
            return Err(Error::usage(format!(
                "[data] {total} document(s) cannot be split by fractions; create more documents with `document_separator`, JSONL or a folder, or \
                 set valid_path"
            )));
        }
        Ok(Self {
            unit,
            valid: first,
            test: second,
            at: 0,
        })
    }

    /// Returns the parts of the next document, or of a piece of it; `ends` tells whether the piece ends the
    /// document. Most parts are empty.
    pub fn split_document(&mut self, document: Vec<u8>, ends: bool) -> PerSplit<Vec<u8>> {
        let mut parts = PerSplit::default();
        let end = self.at + self.unit.count(&document);
        let mut rest = document;
        // Split at the bounds that fall inside this document, from the last to the first.
        for (bound, part) in [(self.test, &mut parts.test), (self.valid, &mut parts.valid)] {
            if bound < end {
                *part = if bound <= self.at {
                    std::mem::take(&mut rest)
                } else {
                    rest.split_off(offset(&rest, self.unit, bound - self.at))
                };
            }
        }
        parts.train = rest;
        if ends || self.unit != Unit::Documents {
            self.at = end;
        }
        parts
    }
}

impl Unit {
    /// Returns the number of units in a document.
    pub fn count(self, document: &[u8]) -> usize {
        match self {
            Self::Characters => document
                .iter()
                .filter(|b| !is_continuation_byte(**b))
                .count(),
            Self::Bytes => document.len(),
            Self::Documents => 1,
        }
    }
}

/// Returns where validation and test begin. A rounding error of a millionth is tolerated: 4,000,000 · (1 −
/// 0.05 − 0.05) is 3,600,000.
pub(super) fn bounds(total: usize, valid: f64, test: f64) -> (usize, usize) {
    let at = |share: f64| ((total as f64 * share + 1e-6).floor().max(0.0) as usize).min(total);
    let second = at(1.0 - test);
    (at(1.0 - valid - test).min(second), second)
}

/// Returns the byte offset of unit `count` in a document.
fn offset(text: &[u8], unit: Unit, count: usize) -> usize {
    match unit {
        Unit::Bytes | Unit::Documents => count.min(text.len()),
        Unit::Characters => text
            .iter()
            .enumerate()
            .filter(|(_, b)| !is_continuation_byte(**b))
            .nth(count)
            .map_or(text.len(), |(at, _)| at),
    }
}

/// Whether a byte continues a UTF-8 character.
fn is_continuation_byte(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Seed and epoch of the held-out examples, the same for every run's seed; no run reaches this epoch.
const HELD_OUT_DRAW: (u64, u64) = (0, u64::MAX);

/// Divides examples into three parts, at random but always the same: the given shares go to validation and
/// test.
pub(super) fn random_split<T>(all: Vec<T>, (valid, test): (f64, f64)) -> PerSplit<Vec<T>> {
    let total = all.len();
    let count = |share: f64| (total as f64 * share).round() as usize;
    let (valid, test) = (count(valid), count(test));
    let order = Permutation::new(HELD_OUT_DRAW.0, HELD_OUT_DRAW.1, total as u64);
    let mut parts = PerSplit::<Vec<T>>::default();
    for (number, example) in all.into_iter().enumerate() {
        let split = match order.at(number as u64) as usize {
            place if place < valid => Split::Valid,
            place if place < valid + test => Split::Test,
            _ => Split::Train,
        };
        parts.get_mut(split).push(example);
    }
    parts
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

    /// All parts of some documents.
    fn cut(texts: &[&str], unit: Unit, valid: f64, test: f64) -> Result<PerSplit<Vec<Vec<u8>>>> {
        let texts = of(texts);
        let total = texts.iter().map(|text| unit.count(text)).sum();
        let mut cut = SplitCursor::new(total, unit, valid, test)?;
        let mut all = PerSplit::<Vec<Vec<u8>>>::default();
        for text in texts {
            let parts = cut.split_document(text, true);
            for split in Split::ALL {
                let part = parts.get(split);
                let part = (!part.is_empty()).then(|| part.clone());
                all.get_mut(split).extend(part);
            }
        }
        Ok(all)
    }

    #[test]
    fn characters_are_not_cut() {
        let parts = cut(&["éééé", "ééé", "ééé"], Unit::Characters, 0.4, 0.2).unwrap();
        assert_eq!(parts.train, of(&["éééé"]));
        assert_eq!(parts.valid, of(&["ééé", "é"]));
        assert_eq!(parts.test, of(&["éé"]));
        let parts = cut(&["abcdefghij"], Unit::Bytes, 0.3, 0.2).unwrap();
        assert_eq!(
            (parts.train, parts.valid, parts.test),
            (of(&["abcde"]), of(&["fgh"]), of(&["ij"]))
        );
    }

    #[test]
    fn documents_stay_whole() {
        let parts = cut(&["aaaa", "b", "c", "d"], Unit::Documents, 0.25, 0.0).unwrap();
        assert_eq!((parts.train.len(), parts.valid), (3, of(&["d"])));
        assert!(cut(&["one"], Unit::Documents, 0.5, 0.0).is_err());
    }
}
