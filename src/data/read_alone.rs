//! Inputs that a command is given, as a model that was trained on the data reads them.

use super::images::sequence;
use super::labelled::examples;
use super::{DataConfig, TextItem};
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use std::path::Path;

impl DataConfig {
    /// A text, or a pair of texts, as a model that was trained on it reads it.
    ///
    /// # Errors
    /// A text that the tokenizer cannot encode, an empty one, a second text where the data has single ones, and the
    /// other way round.
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
            _ if pair.is_some() && !(self.is_imported() && tokenizer.edges().is_some()) => {
                Err(Error::usage("the run reads single texts: leave --pair out"))
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
                let edges = tokenizer.edges();
                examples::framed(ids(text)?, pair, self.context(), edges.as_ref())
            }
        }
    }

    /// Two texts in the marks of their tokenizer, cut to the length of training's.
    ///
    /// # Errors
    /// A text that the tokenizer cannot encode.
    pub fn read_both(&self, first: &str, second: &str, tokenizer: &Tokenizer) -> Result<TextItem> {
        let ids = |text: &str| -> Result<Vec<i32>> {
            let ids = tokenizer.encode(text)?.into_iter();
            Ok(ids.map(|id| id as i32).collect())
        };
        let second = Some(ids(second)?);
        let edges = tokenizer.edges();
        examples::framed(ids(first)?, second, self.context(), edges.as_ref())
    }

    /// A single text in the marks of its tokenizer, cut to the length of training's, whether the data has single texts or
    /// pairs; and whether it is cut.
    ///
    /// # Errors
    /// A text that the tokenizer cannot encode; an empty one, where no mark stands around it.
    pub fn read_alone(&self, text: &str, tokenizer: &Tokenizer) -> Result<(TextItem, bool)> {
        let ids = tokenizer.encode(text)?.into_iter().map(|id| id as i32);
        let (ids, edges) = (ids.collect::<Vec<i32>>(), tokenizer.edges());
        let edges = edges.as_ref();
        let whole = ids.len() + edges.map_or(0, |edges| edges.len(false));
        let item = examples::framed(ids, None, self.context(), edges)?;
        let cut = item.inputs.len() < whole;
        Ok((item, cut))
    }

    /// A PNG or JPEG file as a model that was trained on sequences of grey values reads it; nothing where the data has
    /// none.
    ///
    /// # Errors
    /// A file that cannot be read or decoded.
    pub fn read_sequence(&self, file: &Path) -> Result<Option<TextItem>> {
        let size = self.sequence();
        size.map(|size| sequence::read(file, size)).transpose()
    }

    /// Height and width of images that are read as sequences of grey values; nothing where the data has none.
    pub fn sequence(&self) -> Option<[usize; 2]> {
        match self {
            Self::Images(c) => c.size.filter(|_| c.sequence),
            Self::Pathfinder(c) => c.sequence.then_some([c.size; 2]),
            _ => None,
        }
    }
}
