//! Long texts, encoded in pieces on all cores.

use super::{Engine, Tokenizer, pieces, utf8};
use crate::error::Result;
use rayon::prelude::*;

impl Tokenizer {
    /// The ids of a long text on all cores, in pieces of 1 to 2 MiB that end where a line ends, or, in a longer line,
    /// a word (`pieces`); byte-level, character, byte and BERT-like tokenizers give the ids of [`Self::encode`]. Bytes
    /// that are not UTF-8 are an error for every kind but `byte`.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_long(&self, text: &[u8]) -> Result<Vec<u32>> {
        if let Engine::Bytes(b) = &self.0.engine {
            return Ok(b.encode(text));
        }
        let text = utf8(text)?;
        let parts = pieces::cut(text, pieces::PIECE)
            .into_par_iter()
            .map(|piece| self.encode(piece))
            .collect::<Result<Vec<_>>>()?;
        Ok(parts.concat())
    }

    /// The ids of the beginning of a text of which more may follow, and its bytes: so much of it as [`Self::encode_long`]
    /// encodes alike whatever follows.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_begun(&self, text: &[u8]) -> Result<(Vec<u32>, usize)> {
        if let Engine::Bytes(b) = &self.0.engine {
            return Ok(b.encode_begun(text));
        }
        let begun = pieces::begun(utf8(text)?, pieces::PIECE);
        let parts = begun
            .par_iter()
            .map(|piece| self.encode(piece))
            .collect::<Result<Vec<_>>>()?;
        Ok((parts.concat(), begun.iter().map(|piece| piece.len()).sum()))
    }
}
