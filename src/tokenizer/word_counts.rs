//! Counts the words of a training text, as normalised and split by the rules of the tokenizer
//! that is trained.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;
use serde_json::Value;
use tokenizers::{
    NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType,
    PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
};

use super::pieces;
use crate::error::{Error, Result};

/// Words in sorted order with their counts, which depend only on the text.
///
/// # Errors
/// If the library does not know the normalizer or pre-tokenizer, or one of them fails on the text.
pub fn count(
    texts: &[&str],
    normalizer: &Value,
    pre_tokenizer: &Value,
) -> Result<BTreeMap<String, u64>> {
    let normalizer: Option<NormalizerWrapper> =
        serde_json::from_value(normalizer.clone()).map_err(unreadable)?;
    let pre_tokenizer: PreTokenizerWrapper =
        serde_json::from_value(pre_tokenizer.clone()).map_err(unreadable)?;
    let counts = texts
        .par_iter()
        .flat_map_iter(|text| pieces::cut(text, pieces::PIECE / 4))
        .map(|piece| of_piece(piece, normalizer.as_ref(), &pre_tokenizer))
        .try_reduce(HashMap::new, |a, b| {
            let (mut large, small) = if a.len() < b.len() { (b, a) } else { (a, b) };
            for (word, count) in small {
                *large.entry(word).or_default() += count;
            }
            Ok(large)
        })?;
    Ok(counts.into_iter().collect())
}

fn of_piece(
    text: &str,
    normalizer: Option<&NormalizerWrapper>,
    pre_tokenizer: &PreTokenizerWrapper,
) -> Result<HashMap<String, u64>> {
    let mut normalized = NormalizedString::from(text);
    if let Some(normalizer) = normalizer {
        normalizer.normalize(&mut normalized).map_err(failed)?;
    }
    let mut split = PreTokenizedString::from(normalized);
    pre_tokenizer.pre_tokenize(&mut split).map_err(failed)?;
    let mut counts: HashMap<String, u64> = HashMap::new();
    for (word, _, _) in split.get_splits(OffsetReferential::Normalized, OffsetType::None) {
        match counts.get_mut(word) {
            Some(count) => *count += 1,
            None => {
                counts.insert(word.to_owned(), 1);
            }
        }
    }
    Ok(counts)
}

fn unreadable(e: serde_json::Error) -> Error {
    Error::run(format!("cannot load the rules of the tokenizer: {e}"))
}

fn failed(e: tokenizers::Error) -> Error {
    Error::run(format!("cannot split the training text into words: {e}"))
}
