//! Reads inputs that a command is given as a model trained on the data would read them.

use super::images::sequence;
use super::labelled::examples;
use super::{DataConfig, TextItem};
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use std::path::Path;

impl DataConfig {
    /// Reads a text, or a pair of texts, as a model trained on this data does.
    ///
    /// # Errors
    /// If the tokenizer cannot encode a text, a text is empty, or a second text is given for data of single
    /// texts or missing for data of pairs.
    pub fn read_text(
        &self,
        text: &str,
        pair: Option<&str>,
        tokenizer: &Tokenizer,
    ) -> Result<TextItem> {
        match self {
            Self::LabelledText(c) => c.read(text, pair, tokenizer),
            Self::ArticleHalves(c) => c.read(text, pair, tokenizer),
            // An imported run does not say how many texts a row has.
            _ if pair.is_some()
                && !(self.is_imported() && tokenizer.special_token_layout().is_some()) =>
            {
                Err(Error::usage("the run reads single texts; remove --pair"))
            }
            _ => {
                let ids = |text: &str| -> Result<Vec<i32>> {
                    Ok(tokenizer
                        .encode(text)?
                        .into_iter()
                        .map(|id| id as i32)
                        .collect())
                };
                let pair = pair.map(ids).transpose()?;
                let edges = tokenizer.special_token_layout();
                examples::framed(ids(text)?, pair, self.context(), edges.as_ref())
            }
        }
    }

    /// Reads two texts with the special tokens of their tokenizer, cut to the context of training.
    ///
    /// # Errors
    /// If the tokenizer cannot encode a text.
    pub fn read_both(&self, first: &str, second: &str, tokenizer: &Tokenizer) -> Result<TextItem> {
        let ids = |text: &str| -> Result<Vec<i32>> {
            let ids = tokenizer.encode(text)?.into_iter();
            Ok(ids.map(|id| id as i32).collect())
        };
        let second = Some(ids(second)?);
        let edges = tokenizer.special_token_layout();
        examples::framed(ids(first)?, second, self.context(), edges.as_ref())
    }

    /// Reads a single text with the special tokens of its tokenizer, cut to the context of training, whether
    /// the data has single texts or pairs. The second value tells whether the text was cut.
    ///
    /// # Errors
    /// If the tokenizer cannot encode the text, or if it is empty and the tokenizer adds no special tokens.
    pub fn read_single(&self, text: &str, tokenizer: &Tokenizer) -> Result<(TextItem, bool)> {
        let ids = tokenizer.encode(text)?.into_iter().map(|id| id as i32);
        let (ids, edges) = (ids.collect::<Vec<i32>>(), tokenizer.special_token_layout());
        let edges = edges.as_ref();
        let whole = ids.len() + edges.map_or(0, |edges| edges.len(false));
        let item = examples::framed(ids, None, self.context(), edges)?;
        let cut = item.inputs.len() < whole;
        Ok((item, cut))
    }

    /// Reads a PNG or JPEG file as a model trained on sequences of grey values does; `None` if the data has
    /// no such sequences.
    ///
    /// # Errors
    /// If the file cannot be read or decoded.
    pub fn read_sequence(&self, file: &Path) -> Result<Option<TextItem>> {
        let size = self.sequence_image_size();
        size.map(|size| sequence::read(file, size)).transpose()
    }

    /// Returns the height and width of images that are read as sequences of grey values; `None` if the data
    /// has none.
    pub fn sequence_image_size(&self) -> Option<[usize; 2]> {
        match self {
            Self::Images(c) => c.size.filter(|_| c.sequence),
            Self::Pathfinder(c) => c.sequence.then_some([c.size; 2]),
            _ => None,
        }
    }
}
