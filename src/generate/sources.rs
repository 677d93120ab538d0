//! Source texts as text-to-text models read them.

use super::Translator;
use super::beam::BeamConfig;
use crate::data::batch::PairItem;
use crate::error::{Error, Result};
use crate::model::LanguageModel;
use crate::task::TextToText;
use crate::tokenizer::{SpecialTokenLayout, Tokenizer};
use std::sync::atomic::Ordering;

/// Encodes sources with the tokens that the tokenizer's file puts around them.
pub(super) struct SourceEncoder<'a> {
    tokenizer: &'a Tokenizer,
    /// Maximum tokens of a source, including its edges.
    longest: usize,
    /// Tokens around a source.
    edges: SpecialTokenLayout,
}

/// Returns the fixed tokens that targets begin with: those that are read first, and the last one.
///
/// # Errors
/// If the vocabulary has no marks.
pub(super) fn forced_beginning(writes: &Tokenizer) -> Result<(Vec<u32>, u32)> {
    let mut all = writes.target_prefix()?;
    match all.pop() {
        Some(last) => Ok((all, last)),
        None => unreachable!("a mark begins a target"),
    }
}

impl<'a> SourceEncoder<'a> {
    /// Reads the tokens around a source from the tokenizer's file ([`Tokenizer::source_layout`]).
    ///
    /// # Errors
    /// If the vocabulary has no end mark.
    pub(super) fn of(tokenizer: &'a Tokenizer, longest: usize) -> Result<Self> {
        Ok(Self {
            tokenizer,
            longest,
            edges: tokenizer.source_layout()?,
        })
    }

    /// Returns the ids of a source, truncated if it is too long, and whether it was.
    ///
    /// # Errors
    /// If the tokenizer cannot encode the text.
    pub(super) fn ids(&self, text: &str) -> Result<(Vec<u32>, bool)> {
        let inside = self.tokenizer.encode(&self.tokenizer.with_masks(text))?;
        let room = self.longest.saturating_sub(self.edges.len(false));
        let cut = inside.len() > room;
        let inside = inside.into_iter().take(room).map(|id| id as i32);
        let framed = self.edges.around(&inside.collect::<Vec<i32>>());
        Ok((framed.into_iter().map(|id| id as u32).collect(), cut))
    }
}

impl Translator<'_> {
    /// Returns the tokenizers of sources and of targets.
    pub(super) fn source_and_target(&self) -> Result<(&Tokenizer, &Tokenizer)> {
        match (&self.tokenizers.text, self.tokenizers.target_tokenizer()) {
            (Some(reads), Some(writes)) => Ok((reads, writes)),
            _ => Err(Error::usage(
                "the run has no tokenizer to convert tokens to text",
            )),
        }
    }

    /// Returns the maximum number of tokens of a target with its marks, if the model has a limit.
    fn max_target_tokens(&self, source: usize) -> Option<usize> {
        match self.network {
            TextToText::EncoderDecoder(model) => model.max_len(),
            TextToText::Prefix(task) => task.model.max_len().map(|n| n.saturating_sub(source)),
            TextToText::Recurrent(_) => None,
        }
    }

    /// Encodes a source and a text for it, with their marks, as the model reads them. If `text` is absent, the model
    /// writes the text itself.
    ///
    /// # Errors
    /// If the run has no tokenizers, they cannot encode a text, a text is too long for the model, or scores are not finite.
    pub fn encode_pair(
        &self,
        source: &str,
        text: Option<&str>,
        config: &BeamConfig,
    ) -> Result<PairItem> {
        let (reads, writes) = self.source_and_target()?;
        let own = match text {
            Some(_) => Vec::new(),
            None => self.write(&[source], config)?.concat(),
        };
        let text = text.or(own.first().map(|written| written.text.as_str()));
        let framed = SourceEncoder::of(reads, self.longest())?;
        let marks = writes.marks()?;
        let begun = writes.target_prefix()?.into_iter();
        let text = writes.encode(text.unwrap_or(""))?;
        let target: Vec<u32> = begun.chain(text).chain([marks.end]).collect();
        let ids = |ids: Vec<u32>| ids.into_iter().map(|id| id as i32).collect();
        let given = own.is_empty();
        let (source, cut) = framed.ids(source)?;
        self.cut
            .fetch_add(usize::from(cut && given), Ordering::Relaxed);
        // The end mark is not read.
        let (read, room) = (target.len() - 1, self.max_target_tokens(source.len()));
        if let Some(room) = room.filter(|room| read > *room) {
            return Err(Error::usage(format!(
                "the target text has {read} tokens with its special token, but the model has positions for {room}"
            )));
        }
        Ok(PairItem {
            source: ids(source),
            target: ids(target),
        })
    }
}
