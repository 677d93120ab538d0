//! Access to token ids by position, in a cache or in memory.

use std::ops::Range;

use sha2::{Digest, Sha256};

use super::cache::TokenCache;
use crate::digest::hex;
use crate::error::Result;

/// A stream of token ids, divided into documents.
pub trait Ids: Send + Sync {
    /// Returns the number of tokens.
    fn len(&self) -> usize;

    /// Whether there are no tokens.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns tokens `from..from + count`.
    ///
    /// # Errors
    /// If a file can no longer be read or has changed.
    fn window(&self, from: usize, count: usize) -> Result<Vec<i32>>;

    /// Returns the index of the document that token `at` belongs to.
    fn document(&self, at: usize) -> usize;

    /// Returns the number of documents.
    fn documents(&self) -> usize;

    /// Returns the token range of a document.
    fn span(&self, document: usize) -> Range<usize>;

    /// Returns a hash that changes with every id and every beginning of a document.
    fn fingerprint(&self) -> String;
}

impl Ids for TokenCache {
    fn len(&self) -> usize {
        self.len()
    }

    fn window(&self, from: usize, count: usize) -> Result<Vec<i32>> {
        self.window(from, count)
    }

    fn document(&self, at: usize) -> usize {
        self.document(at)
    }

    fn documents(&self) -> usize {
        self.documents()
    }

    fn span(&self, document: usize) -> Range<usize> {
        self.span(document)
    }

    fn fingerprint(&self) -> String {
        self.fingerprint()
    }
}

/// Ids in memory, of generated texts.
#[derive(Clone, Debug, Default)]
pub struct InMemoryIds {
    /// Ids of all documents.
    pub ids: Vec<i32>,
    /// Position of the first token of each document.
    pub starts: Vec<usize>,
}

impl Ids for InMemoryIds {
    fn len(&self) -> usize {
        self.ids.len()
    }

    fn window(&self, from: usize, count: usize) -> Result<Vec<i32>> {
        Ok(self.ids[from..from + count].to_vec())
    }

    fn document(&self, at: usize) -> usize {
        self.starts
            .partition_point(|start| *start <= at)
            .saturating_sub(1)
    }

    fn documents(&self) -> usize {
        self.starts.len()
    }

    fn span(&self, document: usize) -> Range<usize> {
        let end = self.starts.get(document + 1);
        self.starts[document]..end.copied().unwrap_or(self.ids.len())
    }

    fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        self.ids.iter().for_each(|id| hash.update(id.to_le_bytes()));
        let starts = self.starts.iter();
        starts.for_each(|start| hash.update((*start as u64).to_le_bytes()));
        hex(&hash.finalize())
    }
}
