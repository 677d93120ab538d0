//! Encodes texts with the byte offsets of each token.

use super::{Engine, Tokenizer};
use crate::error::{Error, Result};
use std::sync::Arc;

/// An encoder that also gives the byte range of each token. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Offsets(Arc<tokenizers::Tokenizer>);

impl Tokenizer {
    /// Returns an encoder with byte offsets. It is made once.
    ///
    /// # Errors
    /// None for a tokenizer that was built or loaded.
    pub fn offsets(&self) -> Result<Offsets> {
        match &self.0.engine {
            Engine::Library(library) => Ok(Offsets(Arc::clone(library))),
            // The encoders of characters and bytes give only ids.
            Engine::Chars(_) | Engine::Bytes(_) => {
                if let Some(made) = self.0.offsets.get() {
                    return Ok(made.clone());
                }
                let library = tokenizers::Tokenizer::from_bytes(&self.0.json);
                let library = Arc::new(library.map_err(|e| Error::run(e.to_string()))?);
                Ok(self.0.offsets.get_or_init(|| Offsets(library)).clone())
            }
        }
    }
}

impl Offsets {
    /// Encodes a text; returns the ids and the byte range `from..to` of each token.
    ///
    /// # Errors
    /// If the vocabulary lacks a character or word and has no unknown token.
    pub fn encode(&self, text: &str) -> Result<(Vec<u32>, Vec<[usize; 2]>)> {
        let encoded = self.0.encode(text, false);
        let encoded = encoded
            .map_err(|e| Error::run(format!("the tokenizer cannot encode the text: {e}")))?;
        let whole = |at: usize| {
            (0..=at.min(text.len()))
                .rev()
                .find(|at| text.is_char_boundary(*at))
        };
        // A token that covers part of a character gets the bytes of the whole character.
        let place = |(from, to): &(usize, usize)| {
            let to = (*to..=text.len()).find(|at| text.is_char_boundary(*at));
            [whole(*from).unwrap_or(0), to.unwrap_or(text.len())]
        };
        let places = encoded.get_offsets().iter().map(place).collect();
        Ok((encoded.get_ids().to_vec(), places))
    }
}
