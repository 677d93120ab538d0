//! Token ids by their place, wherever they lie: in a cache, or in memory.

use std::ops::Range;

use sha2::{Digest, Sha256};

use super::cache::Tokens;
use crate::digest::hex;
use crate::error::Result;

/// A stream of token ids, cut into documents.
pub trait Ids: Send + Sync {
    /// Tokens in all.
    fn len(&self) -> usize;

    /// Whether there is no token.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens `from..from + count`.
    ///
    /// # Errors
    /// A file that can no longer be read, or that was changed.
    fn window(&self, from: usize, count: usize) -> Result<Vec<i32>>;

    /// The number of the document that token `at` belongs to.
    fn document(&self, at: usize) -> usize;

    /// Documents in all.
    fn documents(&self) -> usize;

    /// Where the tokens of a document are.
    fn span(&self, document: usize) -> Range<usize>;

    /// Changes with every id and with every beginning of a document.
    fn fingerprint(&self) -> String;
}

impl Ids for Tokens {
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
pub struct Held {
    /// All of them.
    pub ids: Vec<i32>,
    /// Where each document begins.
    pub starts: Vec<usize>,
}

impl Ids for Held {
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
