//! Encodes long texts in pieces on all cores.

use super::{Engine, Tokenizer, pieces, utf8};
use crate::error::Result;
use rayon::prelude::*;

impl Tokenizer {
    /// Encodes a long text on all cores, in pieces of 1 to 2 MiB that end at a line end or, within a longer line, at the
    /// end of a word (`pieces`). Byte-level, character, byte and BERT-like tokenizers give the ids of [`Self::encode`].
    /// Bytes that are not UTF-8 are an error for every kind except `byte`.
    ///
    /// # Errors
    /// The errors of [`Self::encode`].
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

    /// Encodes the beginning of a text that may continue; returns the ids and the number of bytes read. Only as much is
    /// read as [`Self::encode_long`] encodes in the same way whatever follows.
    ///
    /// # Errors
    /// The errors of [`Self::encode`].
    pub fn encode_prefix(&self, text: &[u8]) -> Result<(Vec<u32>, usize)> {
        if let Engine::Bytes(b) = &self.0.engine {
            return Ok(b.encode_complete_lines(text));
        }
        let begun = pieces::stable_pieces(utf8(text)?, pieces::PIECE);
        let parts = begun
            .par_iter()
            .map(|piece| self.encode(piece))
            .collect::<Result<Vec<_>>>()?;
        Ok((parts.concat(), begun.iter().map(|piece| piece.len()).sum()))
    }
}
