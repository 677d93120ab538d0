//! Texts as a model reads them that writes texts for texts.

use super::Translator;
use super::beam::BeamConfig;
use crate::data::batch::PairItem;
use crate::error::{Error, Result};
use crate::model::LanguageModel;
use crate::task::TextToText;
use crate::tokenizer::{Edges, Tokenizer};
use std::sync::atomic::Ordering;

/// The tokens around the sources of a model, as the file of its tokenizer says.
pub(super) struct Sources<'a> {
    tokenizer: &'a Tokenizer,
    /// Tokens of a source at most.
    longest: usize,
    /// Stand around it.
    edges: Edges,
}

/// The tokens that targets begin with before anything is chosen: those that are read first, and the one behind them.
///
/// # Errors
/// A vocabulary without marks.
pub(super) fn opening(writes: &Tokenizer) -> Result<(Vec<u32>, u32)> {
    let mut all = writes.target_opening()?;
    match all.pop() {
        Some(last) => Ok((all, last)),
        None => unreachable!("a mark begins a target"),
    }
}

impl<'a> Sources<'a> {
    /// In what the tokenizer's file puts around a text ([`Tokenizer::source_edges`]).
    ///
    /// # Errors
    /// A vocabulary without an end mark.
    pub(super) fn of(tokenizer: &'a Tokenizer, longest: usize) -> Result<Self> {
        Ok(Self {
            tokenizer,
            longest,
            edges: tokenizer.source_edges()?,
        })
    }

    /// The ids of a source, cut short where it is too long, and whether it is.
    ///
    /// # Errors
    /// A text that the tokenizer cannot encode.
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
    /// The tokenizers of sources and of targets.
    pub(super) fn both(&self) -> Result<(&Tokenizer, &Tokenizer)> {
        match (&self.tokenizers.text, self.tokenizers.of_targets()) {
            (Some(reads), Some(writes)) => Ok((reads, writes)),
            _ => Err(Error::usage(
                "the run has no tokenizer: its tokens stand for no text",
            )),
        }
    }

    /// Tokens that a target may have with its marks, where the model has a limit.
    fn room_beside(&self, source: usize) -> Option<usize> {
        match self.network {
            TextToText::EncoderDecoder(model) => model.max_len(),
            TextToText::Prefix(task) => task.model.max_len().map(|n| n.saturating_sub(source)),
            TextToText::Recurrent(_) => None,
        }
    }

    /// A source and a text for it, in their marks, as the model reads them; the text is the one that the model writes itself
    /// when absent.
    ///
    /// # Errors
    /// A run without tokenizers, a text that they cannot encode or the model cannot place, scores that are not numbers.
    pub fn pair(&self, source: &str, text: Option<&str>, config: &BeamConfig) -> Result<PairItem> {
        let (reads, writes) = self.both()?;
        let own = match text {
            Some(_) => Vec::new(),
            None => self.write(&[source], config)?.concat(),
        };
        let text = text.or(own.first().map(|written| written.text.as_str()));
        let framed = Sources::of(reads, self.longest())?;
        let marks = writes.marks()?;
        let begun = writes.target_opening()?.into_iter();
        let text = writes.encode(text.unwrap_or(""))?;
        let target: Vec<u32> = begun.chain(text).chain([marks.end]).collect();
        let ids = |ids: Vec<u32>| ids.into_iter().map(|id| id as i32).collect();
        let given = own.is_empty();
        let (source, cut) = framed.ids(source)?;
        self.cut
            .fetch_add(usize::from(cut && given), Ordering::Relaxed);
        // The end mark is not read.
        let (read, room) = (target.len() - 1, self.room_beside(source.len()));
        if let Some(room) = room.filter(|room| read > *room) {
            return Err(Error::usage(format!(
                "the text beside the source has {read} tokens with its mark; the model can place {room}"
            )));
        }
        Ok(PairItem {
            source: ids(source),
            target: ids(target),
        })
    }
}
