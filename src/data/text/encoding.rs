//! Documents into the entries of a token cache: whole, or sentence by sentence.

use std::path::Path;

use rayon::prelude::*;

use super::cache::Writer;
use super::sentences;
use crate::error::Result;
use crate::tokenizer::{Tokenizer, utf8};

/// The entries of a token cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::data) enum Entries {
    /// Documents; several of them are each followed by this token, without one by a line break where they lack it.
    Documents(Option<u32>),
    /// Documents with nothing between them.
    Joined,
    /// Sentences, with an empty entry after each document.
    Sentences,
}

/// Writes the cache of some documents; `separated` puts what ends a document after each.
///
/// # Errors
/// The disk's, and text that the tokenizer cannot encode.
pub(super) fn write(
    path: &Path,
    documents: &[Vec<u8>],
    tokenizer: &Tokenizer,
    entries: Entries,
    separated: bool,
) -> Result<()> {
    let mut writer = Writer::new(path, tokenizer.vocab_size())?;
    // A group at a time: the ids in memory stay few.
    for group in groups(documents) {
        let encoded = group
            .par_iter()
            .map(|document| match entries {
                Entries::Documents(end) => Ok(vec![whole(document, tokenizer, end, separated)?]),
                Entries::Joined => Ok(vec![whole(document, tokenizer, None, false)?]),
                Entries::Sentences => by_sentence(document, tokenizer),
            })
            .collect::<Result<Vec<_>>>()?;
        for (ids, bytes) in encoded.into_iter().flatten() {
            writer.document(&ids, bytes)?;
        }
    }
    writer.finish()
}

/// Runs of documents of at most 64 MiB, or a single longer one.
fn groups(documents: &[Vec<u8>]) -> impl Iterator<Item = &[Vec<u8>]> {
    const GROUP: usize = 64 << 20;
    let mut rest = documents;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let count = rest
            .iter()
            .take_while(|d| {
                bytes += d.len();
                bytes <= GROUP
            })
            .count();
        let (group, tail) = rest.split_at(count.max(1).min(rest.len()));
        rest = tail;
        (!group.is_empty()).then_some(group)
    })
}

/// A document's ids with what ends it, and its bytes.
fn whole(
    document: &[u8],
    tokenizer: &Tokenizer,
    end: Option<u32>,
    separated: bool,
) -> Result<(Vec<u32>, usize)> {
    match end {
        Some(end) if separated => {
            let mut ids = tokenizer.encode_long(document)?;
            ids.push(end);
            Ok((ids, document.len()))
        }
        None if separated && !document.ends_with(b"\n") => {
            let mut line = document.to_vec();
            line.push(b'\n');
            Ok((tokenizer.encode_long(&line)?, line.len()))
        }
        _ => Ok((tokenizer.encode_long(document)?, document.len())),
    }
}

/// The ids of each sentence of a document, and an empty entry that ends it.
fn by_sentence(document: &[u8], tokenizer: &Tokenizer) -> Result<Vec<(Vec<u32>, usize)>> {
    let mut entries = sentences::cut(utf8(document)?)
        .into_iter()
        .map(|sentence| Ok((tokenizer.encode(sentence)?, sentence.len())))
        .collect::<Result<Vec<_>>>()?;
    entries.retain(|(ids, _)| !ids.is_empty());
    entries.push((Vec::new(), 0));
    Ok(entries)
}
