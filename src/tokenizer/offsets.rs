//! Tokens with the places that they come from.

use super::{Engine, Tokenizer};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Encodes texts with the bytes of each token. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Offsets(Arc<tokenizers::Tokenizer>);

impl Tokenizer {
    /// The same tokenizer, which says where tokens come from. It is made once.
    ///
    /// # Errors
    /// None of a tokenizer that was built or loaded.
    pub fn offsets(&self) -> Result<Offsets> {
        match &self.0.engine {
            Engine::Library(library) => Ok(Offsets(Arc::clone(library))),
            // The direct paths give ids alone.
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
