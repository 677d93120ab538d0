//! The tokens around the texts that a classifier or an embedding model reads, and around the sources of pairs.
//!
//! A published tokenizer's file says in its post-processor which tokens go around a text, often on one side only:
//! LLaMA (Touvron et al., arXiv:2302.13971) puts `<s>` before a text, T5 (Raffel et al., arXiv:1910.10683) `</s>` after
//! it. If the file says nothing, the [`Frame`] of the vocabulary is used, if it has one.

use super::{Engine, Frame, Tokenizer};
use crate::error::Result;
use tokenizers::{Encoding, Token};

/// Token ids, each with its segment.
type Tokens = Vec<(i32, i32)>;

/// The segment of a token after all texts that stands for them all.
const CLASS_TOKEN_SEGMENT: i32 = 2;

/// The special tokens around a text, and around two texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialTokenLayout {
    /// Before a text, and after it.
    one: [Vec<i32>; 2],
    /// The segments of the tokens in `one`, if any of them is not 0; the text itself then has segment 0.
    apart: Option<[Vec<i32>; 2]>,
    /// Before two texts, between them, and after them.
    two: [Tokens; 3],
    /// The segment of each of two texts.
    segments: [i32; 2],
}

impl SpecialTokenLayout {
    /// The number of tokens added to one text, or to two.
    pub fn len(&self, pair: bool) -> usize {
        match pair {
            false => self.one.iter().map(Vec::len).sum(),
            true => self.two.iter().map(Vec::len).sum(),
        }
    }

    /// Whether no token is added to one text.
    pub fn is_empty(&self) -> bool {
        self.len(false) == 0
    }

    /// The tokens before one text.
    pub fn before(&self) -> &[i32] {
        &self.one[0]
    }

    /// Puts the special tokens around one text.
    pub fn around(&self, text: &[i32]) -> Vec<i32> {
        let [before, behind] = &self.one;
        [&before[..], text, behind].concat()
    }

    /// The segments of a text of `text` tokens and the special tokens around it, if some of them are not 0 (XLNet).
    pub fn segments(&self, text: usize) -> Option<Vec<i32>> {
        let [before, behind] = self.apart.as_ref()?;
        Some([&before[..], &vec![0; text], behind].concat())
    }

    /// Puts the special tokens around two texts; also returns the segment of each token.
    pub fn around_both(&self, first: &[i32], second: &[i32]) -> (Vec<i32>, Vec<i32>) {
        let [before, between, behind] = &self.two;
        let [of_first, of_second] = self.segments;
        let text =
            |ids: &[i32], segment: i32| -> Tokens { ids.iter().map(|id| (*id, segment)).collect() };
        let all = [
            before.clone(),
            text(first, of_first),
            between.clone(),
            text(second, of_second),
            behind.clone(),
        ];
        all.concat().into_iter().unzip()
    }

    /// The number of tokens after two texts.
    pub fn len_after_both(&self) -> usize {
        self.two[2].len()
    }

    /// Whether the last token stands for all texts, in a segment of its own.
    pub fn has_trailing_class_token(&self) -> bool {
        self.two[2]
            .last()
            .is_some_and(|(_, segment)| *segment == CLASS_TOKEN_SEGMENT)
    }

    /// Whether the only special token is the end token, after a text.
    pub fn is_end_only(&self, end: u32) -> bool {
        let [before, behind] = &self.one;
        before.is_empty() && behind[..] == [end as i32]
    }

    /// The edges of [`super::TokenFraming::End`]: the end token after each text.
    fn end_only(end: i32) -> Self {
        Self {
            one: [Vec::new(), vec![end]],
            apart: None,
            two: [Vec::new(), vec![(end, 0)], vec![(end, 1)]],
            segments: [0, 1],
        }
    }

    /// XLNet's edges: the frame's end after each text, and its beginning after all of them, in a segment of its own (Yang et al.
    /// 2019, section 2.5).
    fn with_trailing_class(frame: Frame) -> Self {
        let (whole, end) = (frame.begin as i32, frame.end as i32);
        Self {
            one: [Vec::new(), vec![end, whole]],
            apart: Some([Vec::new(), vec![0, CLASS_TOKEN_SEGMENT]]),
            two: [
                Vec::new(),
                vec![(end, 0)],
                vec![(end, 1), (whole, CLASS_TOKEN_SEGMENT)],
            ],
            segments: [0, 1],
        }
    }

    /// Whether both put the same tokens around texts, ignoring segments.
    fn has_same_tokens(&self, other: &Self) -> bool {
        let ids = |edges: &Self| -> Vec<Vec<i32>> {
            let parts = edges.two.iter();
            parts
                .map(|part| part.iter().map(|(id, _)| *id).collect())
                .collect()
        };
        self.one == other.one && ids(self) == ids(other)
    }
}

impl From<Frame> for SpecialTokenLayout {
    fn from(frame: Frame) -> Self {
        let (begin, end) = (frame.begin as i32, frame.end as i32);
        let mut between = vec![(end, 0)];
        if frame.doubled {
            between.push((end, 1));
        }
        Self {
            one: [vec![begin], vec![end]],
            apart: None,
            two: [vec![(begin, 0)], between, vec![(end, 1)]],
            segments: [0, 1],
        }
    }
}

impl Tokenizer {
    /// The tokens that the tokenizer's file puts around texts; if it puts none, those of the vocabulary's [`Frame`].
    pub fn special_token_layout(&self) -> Option<SpecialTokenLayout> {
        let named = self.frame().map(SpecialTokenLayout::from);
        match (self.file_layout(), named) {
            // Use the segments of the frame, with which runs have been trained.
            (Some(own), Some(named)) if own.has_same_tokens(&named) => Some(named),
            (Some(own), _) => Some(own.clone()),
            (None, _) if self.has_trailing_class() => {
                self.frame().map(SpecialTokenLayout::with_trailing_class)
            }
            (None, named) => named,
        }
    }

    /// The tokens around a question and its context: those of the vocabulary's [`Frame`], or XLNet's if the file puts XLNet's
    /// around texts.
    pub fn question_layout(&self) -> Option<SpecialTokenLayout> {
        let own = self
            .special_token_layout()
            .filter(SpecialTokenLayout::has_trailing_class_token);
        own.or_else(|| self.frame().map(SpecialTokenLayout::from))
    }

    /// The tokens of the vocabulary's [`Frame`] placed after the texts; the last one stands for them all.
    pub fn trailing_class_layout(&self) -> Option<SpecialTokenLayout> {
        self.frame().map(SpecialTokenLayout::with_trailing_class)
    }

    /// The tokens that the tokenizer's file puts around texts; `None` if it puts none around a single text, or if the tokenizer
    /// is one of characters or bytes, whose files are written here. A template with an id outside of the vocabulary is ignored.
    /// So is the template of [`super::TokenFraming::End`], written by runs on pairs, if the vocabulary has a [`Frame`]: an end token
    /// after a source does not say how an encoder reads single texts. Published templates with only an end token (T5's) give both
    /// texts segment 0, which tells them apart from it.
    pub fn file_layout(&self) -> Option<&SpecialTokenLayout> {
        self.0
            .edges
            .get_or_init(|| self.read_file_layout())
            .as_ref()
    }

    /// The tokens around the source text of a pair (BART's `<s> … </s>`, mBART's `… </s> en_XX`, T5's `… </s>`): those in
    /// the tokenizer's file, if the end token is among those after the text; else only the end token.
    ///
    /// # Errors
    /// If the vocabulary has no end token.
    pub fn source_layout(&self) -> Result<SpecialTokenLayout> {
        if let Some(frame) = self.framing() {
            return Ok(frame.into());
        }
        let end = self.marks()?.end as i32;
        let own = self.file_layout().filter(|own| own.one[1].contains(&end));
        Ok(own
            .cloned()
            .unwrap_or_else(|| SpecialTokenLayout::end_only(end)))
    }

    /// The tokens that a decoder reads before it generates: the token that begins a target, followed by that of its language
    /// (`</s> de_DE …` of mBART-50). If the frame around sources begins with another token, that one follows instead, since
    /// published BART models generate a text inside its frame (`</s> <s> …`).
    ///
    /// # Errors
    /// If the vocabulary has no tokens that begin and end a target.
    pub fn target_prefix(&self) -> Result<Vec<u32>> {
        let begin = self.marks()?.begin;
        let edges = self.source_layout()?;
        let frame = self.frame().map(|frame| frame.begin);
        let frame = frame.filter(|first| edges.before() == [*first as i32]);
        let inner = self.target_language().or(frame).filter(|id| *id != begin);
        Ok([begin].into_iter().chain(inner).collect())
    }

    fn read_file_layout(&self) -> Option<SpecialTokenLayout> {
        let Engine::Library(library) = &self.0.engine else {
            return None;
        };
        // One placeholder token per text.
        let text = || Encoding::from_tokens(vec![Token::new(0, "a".into(), (0, 1))], 0);
        let one = library.post_process(text(), None, true).ok()?;
        let two = library.post_process(text(), Some(text()), true).ok()?;
        let (one, of_one) = split_encoding(&one);
        let (two, segments) = split_encoding(&two);
        let one = <[Tokens; 2]>::try_from(one).ok()?;
        let ids = |tokens: &Tokens| -> Vec<i32> { tokens.iter().map(|(id, _)| *id).collect() };
        let of = |tokens: &Tokens| -> Vec<i32> { tokens.iter().map(|(_, kind)| *kind).collect() };
        let marked = one.iter().flatten().any(|(_, kind)| *kind != 0);
        let edges = SpecialTokenLayout {
            one: one.each_ref().map(ids),
            apart: (marked && of_one == [0]).then(|| one.each_ref().map(of)),
            two: two.try_into().ok()?,
            segments: segments.try_into().ok()?,
        };
        let put = edges.two.iter().flatten().map(|(id, _)| id);
        let mut put = put.chain(edges.one.iter().flatten());
        let known = put.all(|id| (0..self.vocab_size() as i64).contains(&i64::from(*id)));
        let own = known && !edges.is_empty() && !self.is_source_layout(&edges);
        own.then_some(edges)
    }

    /// Whether these are the edges that runs on pairs write, in a vocabulary with a frame.
    fn is_source_layout(&self, edges: &SpecialTokenLayout) -> bool {
        let marks = self.frame().and_then(|_| self.marks().ok());
        marks.is_some_and(|marks| *edges == SpecialTokenLayout::end_only(marks.end as i32))
    }
}

/// The tokens before, between and after the texts of an encoding, and the segment of each text. Returns too few parts if
/// the texts are not in the order in which they were given.
fn split_encoding(encoding: &Encoding) -> (Vec<Tokens>, Vec<i32>) {
    let (mut parts, mut segments) = (Vec::new(), Vec::new());
    let mut part = Tokens::new();
    let ids = encoding.get_ids().iter().zip(encoding.get_type_ids());
    for ((id, kind), text) in ids.zip(encoding.get_sequence_ids()) {
        let segment = (*kind).min(CLASS_TOKEN_SEGMENT as u32) as i32;
        match text {
            None => part.push((*id as i32, segment)),
            Some(text) if text == segments.len() => {
                segments.push(segment);
                parts.push(std::mem::take(&mut part));
            }
            Some(_) => return (Vec::new(), Vec::new()),
        }
    }
    parts.push(part);
    (parts, segments)
}

#[cfg(test)]
mod tests;
