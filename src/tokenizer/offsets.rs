//! Tokens with the places that they come from.

use super::{Engine, Tokenizer};
use crate::error::{Error, Result};

/// Encodes texts with the bytes of each token.
#[derive(Debug)]
pub struct Offsets(Box<tokenizers::Tokenizer>);

impl Tokenizer {
    /// The same tokenizer, which says where tokens come from.
    ///
    /// # Errors
    /// None of a tokenizer that was built or loaded.
    pub fn offsets(&self) -> Result<Offsets> {
        match &self.0.engine {
            Engine::Library(library) => Ok(Offsets(library.clone())),
            // The direct paths give ids alone.
            Engine::Chars(_) | Engine::Bytes(_) => {
                let library = tokenizers::Tokenizer::from_bytes(&self.0.json);
                let library = library.map_err(|e| Error::run(e.to_string()))?;
                Ok(Offsets(Box::new(library)))
            }
        }
    }
}

impl Offsets {
    /// The ids of a text, and the bytes of it that each stands for.
    ///
    /// # Errors
    /// A character or word that the vocabulary lacks, when no unknown token is configured.
    pub fn encode(&self, text: &str) -> Result<(Vec<u32>, Vec<[usize; 2]>)> {
        let encoded = self.0.encode(text, false);
        let encoded = encoded
            .map_err(|e| Error::run(format!("the tokenizer cannot encode the text: {e}")))?;
        let whole = |at: usize| {
            (0..=at.min(text.len()))
                .rev()
                .find(|at| text.is_char_boundary(*at))
        };
        // Tokens of parts of a character have its bytes.
        let place = |(from, to): &(usize, usize)| {
            let to = (*to..=text.len()).find(|at| text.is_char_boundary(*at));
            [whole(*from).unwrap_or(0), to.unwrap_or(text.len())]
        };
        let places = encoded.get_offsets().iter().map(place).collect();
        Ok((encoded.get_ids().to_vec(), places))
    }
}
