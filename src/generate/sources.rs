//! Texts as a model reads them that writes texts for texts.

use crate::error::Result;
use crate::tokenizer::Tokenizer;

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
