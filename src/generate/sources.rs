//! Texts as a model reads them that writes texts for texts.

use super::Translator;
use super::beam::BeamConfig;
use crate::data::batch::PairItem;
use crate::error::{Error, Result};
use crate::model::LanguageModel;
use crate::task::TextToText;
use crate::tokenizer::Tokenizer;
use std::sync::atomic::Ordering;

/// The tokens around the sources of a model, as the file of its tokenizer says.
pub(super) struct Sources<'a> {
    tokenizer: &'a Tokenizer,
    /// Tokens of a source at most.
    longest: usize,
    /// Stands before a text, where a frame does.
    begin: Option<u32>,
    /// Stands after it.
    end: u32,
}

impl<'a> Sources<'a> {
    /// In the frame that the tokenizer's file puts around a text; where it puts none, before the end mark.
    ///
    /// # Errors
    /// A vocabulary without either.
    pub(super) fn of(tokenizer: &'a Tokenizer, longest: usize) -> Result<Self> {
        let frame = tokenizer.framing();
        Ok(Self {
            tokenizer,
            longest,
            begin: frame.map(|frame| frame.begin),
            end: match frame {
                Some(frame) => frame.end,
                None => tokenizer.marks()?.end,
            },
        })
    }

    /// The tokens that a target begins with before anything is chosen: the mark, and after another mark than the frame's the
    /// beginning of the frame, since published BART models write a text in its frame.
    pub(super) fn opening(&self, begin: u32) -> (Option<u32>, u32) {
        match self.begin {
            Some(first) if first != begin => (Some(begin), first),
            Some(_) | None => (None, begin),
        }
    }

    /// The ids of a source, cut short where it is too long, and whether it is.
    ///
    /// # Errors
    /// A text that the tokenizer cannot encode.
    pub(super) fn ids(&self, text: &str) -> Result<(Vec<u32>, bool)> {
        let inside = self.tokenizer.encode(&self.tokenizer.with_masks(text))?;
        let marks = 1 + usize::from(self.begin.is_some());
        let room = self.longest.saturating_sub(marks);
        let cut = inside.len() > room;
        let begun = self.begin.into_iter().chain(inside.into_iter().take(room));
        Ok((begun.chain([self.end]).collect(), cut))
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
        let (before, first) = framed.opening(marks.begin);
        let begun = before.into_iter().chain([first]);
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
