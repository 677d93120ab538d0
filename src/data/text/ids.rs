//! Token ids by their place, wherever they lie: in a cache, or in memory.

use super::cache::Tokens;
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
}
