//! Encodes documents into the entries of a token cache: whole, or sentence by sentence.

use std::path::Path;

use rayon::prelude::*;

use super::cache::Writer;
use super::sentences;
use crate::data::files::documents;
use crate::error::Result;
use crate::tokenizer::{Tokenizer, utf8};

/// The kind of entries in a token cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::data) enum Entries {
    /// Documents. If there are several, each is followed by this token or, without one, by a line break if it
    /// lacks one.
    Documents(Option<u32>),
    /// Documents with nothing between them.
    Joined,
    /// Sentences, with an empty entry after each document.
    Sentences,
}

/// Size in bytes of the documents that are encoded at once, on all threads, to bound the text and ids in
/// memory.
const GROUP: usize = 64 << 20;

/// Writes documents to a token cache as they come.
pub(super) struct Encoding<'a> {
    writer: Writer,
    tokenizer: &'a Tokenizer,
    entries: Entries,
    /// Whether a document end is written even if there is only one document.
    separated: bool,
    group: Vec<Vec<u8>>,
    bytes: usize,
    /// The document that currently comes in parts.
    long: Option<PartialDocument>,
}

/// The part of a document that is not written yet.
#[derive(Default)]
struct PartialDocument {
    text: Vec<u8>,
    /// Whether the beginning of the document is already written.
    begun: bool,
    /// Whether the last part of the document has been added.
    ended: bool,
}

impl<'a> Encoding<'a> {
    /// Begins the cache at `path`; with `separated` a document end is written even after a single document.
    ///
    /// # Errors
    /// If the disk cannot be written to.
    pub(super) fn new(
        path: &Path,
        tokenizer: &'a Tokenizer,
        entries: Entries,
        separated: bool,
    ) -> Result<Self> {
        Ok(Self {
            writer: Writer::new(path, tokenizer.vocab_size())?,
            tokenizer,
            entries,
            separated,
            group: Vec::new(),
            bytes: 0,
            long: None,
        })
    }

    /// Adds a document, or a part of one; `ends` tells whether it ends the document. A long document is
    /// encoded as it comes, in the same pieces as if it were encoded as a whole.
    ///
    /// # Errors
    /// If the disk cannot be written to, or the tokenizer cannot encode the text.
    pub(super) fn add(&mut self, part: Vec<u8>, ends: bool) -> Result<()> {
        if self.long.as_ref().is_some_and(|long| long.ended) {
            // A second document: the first one needs its end.
            self.separated = true;
            self.finish_partial()?;
        }
        let mut long = match self.long.take() {
            None if ends => return self.add_whole(part),
            None => {
                self.separated |= !self.group.is_empty();
                self.encode()?;
                PartialDocument::default()
            }
            Some(long) => long,
        };
        documents::join(&mut long.text, part);
        long.ended = ends;
        match self.entries {
            Entries::Sentences if ends => return self.add_whole(long.text),
            // A sentence may span two parts.
            Entries::Sentences => {}
            Entries::Documents(_) | Entries::Joined => self.write_stable_prefix(&mut long)?,
        }
        self.long = Some(long);
        Ok(())
    }

    /// Writes the part of a long document whose encoding does not depend on what follows.
    fn write_stable_prefix(&mut self, long: &mut PartialDocument) -> Result<()> {
        let (ids, bytes) = self.tokenizer.encode_prefix(&long.text)?;
        if bytes == 0 {
            return Ok(());
        }
        self.write_part(long, &ids, bytes)?;
        long.text.drain(..bytes);
        Ok(())
    }

    fn write_part(&mut self, long: &mut PartialDocument, ids: &[u32], bytes: usize) -> Result<()> {
        match std::mem::replace(&mut long.begun, true) {
            false => self.writer.document(ids, bytes),
            true => self.writer.append(ids, bytes),
        }
    }

    /// Writes the rest of a long document, with what separates it from the next one.
    fn finish_partial(&mut self) -> Result<()> {
        let Some(mut long) = self.long.take() else {
            return Ok(());
        };
        let (ids, bytes) = match self.entries {
            Entries::Documents(end) => whole(&long.text, self.tokenizer, end, self.separated)?,
            Entries::Joined => whole(&long.text, self.tokenizer, None, false)?,
            // In this mode no document is left open.
            Entries::Sentences => return Ok(()),
        };
        self.write_part(&mut long, &ids, bytes)
    }

    fn add_whole(&mut self, document: Vec<u8>) -> Result<()> {
        let full = self.bytes + document.len() > GROUP;
        // A second document: the first one needs its end.
        self.separated |= !self.group.is_empty();
        if full {
            self.encode()?;
        }
        self.bytes += document.len();
        self.group.push(document);
        Ok(())
    }

    fn encode(&mut self) -> Result<()> {
        let (tokenizer, separated) = (self.tokenizer, self.separated);
        let encoded = std::mem::take(&mut self.group)
            .par_iter()
            .map(|document| match self.entries {
                Entries::Documents(end) => Ok(vec![whole(document, tokenizer, end, separated)?]),
                Entries::Joined => Ok(vec![whole(document, tokenizer, None, false)?]),
                Entries::Sentences => by_sentence(document, tokenizer),
            })
            .collect::<Result<Vec<_>>>()?;
        for (ids, bytes) in encoded.into_iter().flatten() {
            self.writer.document(&ids, bytes)?;
        }
        self.bytes = 0;
        Ok(())
    }

    /// Encodes the rest and moves the cache into place.
    ///
    /// # Errors
    /// As for [`Self::add`].
    pub(super) fn finish(mut self) -> Result<()> {
        self.encode()?;
        self.finish_partial()?;
        self.writer.finish()
    }
}

/// Returns the ids of a document, including its end, and the bytes that they encode.
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

/// Returns the ids of each sentence of a document, and an empty entry that ends it.
fn by_sentence(document: &[u8], tokenizer: &Tokenizer) -> Result<Vec<(Vec<u32>, usize)>> {
    let mut entries = sentences::cut(utf8(document)?)
        .into_iter()
        .map(|sentence| Ok((tokenizer.encode(sentence)?, sentence.len())))
        .collect::<Result<Vec<_>>>()?;
    entries.retain(|(ids, _)| !ids.is_empty());
    entries.push((Vec::new(), 0));
    Ok(entries)
}
