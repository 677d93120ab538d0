//! The tokens at the edges of the texts that a classifier or an embedder reads, and of the sources of pairs.
//!
//! A published tokenizer says in its file what stands around a text, in a post-processor, and often on one side alone:
//! LLaMA's (Touvron et al., arXiv:2302.13971) puts `<s>` before a text, T5's (Raffel et al., arXiv:1910.10683) `</s>` behind
//! it. A file that says nothing has the [`Frame`] of its vocabulary, where that has one.

use super::{Engine, Frame, Tokenizer};
use crate::error::Result;
use tokenizers::{Encoding, Token};

/// Tokens, each with its segment.
type Tokens = Vec<(i32, i32)>;

/// The segment of a token that stands for all texts behind them.
const WHOLE: i32 = 2;

/// The tokens around a text, and around two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edges {
    /// Before a text, and behind it.
    one: [Vec<i32>; 2],
    /// The segment of each of these, where one of them is not 0; that of the text is 0 then.
    apart: Option<[Vec<i32>; 2]>,
    /// Before two texts, between them, and behind them.
    two: [Tokens; 3],
    /// Of each of two texts.
    segments: [i32; 2],
}

impl Edges {
    /// Tokens that they add to one text, or to two.
    pub fn len(&self, pair: bool) -> usize {
        match pair {
            false => self.one.iter().map(Vec::len).sum(),
            true => self.two.iter().map(Vec::len).sum(),
        }
    }

    /// Whether they add no token to one text.
    pub fn is_empty(&self) -> bool {
        self.len(false) == 0
    }

    /// The tokens before one text.
    pub fn before(&self) -> &[i32] {
        &self.one[0]
    }

    /// A text between them.
    pub fn around(&self, text: &[i32]) -> Vec<i32> {
        let [before, behind] = &self.one;
        [&before[..], text, behind].concat()
    }

    /// The segment of each token of a text of so many tokens between them, where some are not of the first (XLNet).
    pub fn segments(&self, text: usize) -> Option<Vec<i32>> {
        let [before, behind] = self.apart.as_ref()?;
        Some([&before[..], &vec![0; text], behind].concat())
    }

    /// Two texts between them, and the segment of each token.
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

    /// Tokens behind two texts.
    pub fn behind_both(&self) -> usize {
        self.two[2].len()
    }

    /// Whether the token that stands for all texts stands last, in a segment of its own.
    pub fn stands_last(&self) -> bool {
        self.two[2]
            .last()
            .is_some_and(|(_, segment)| *segment == WHOLE)
    }

    /// Whether they are the end mark alone, behind a text.
    pub fn are_end(&self, end: u32) -> bool {
        let [before, behind] = &self.one;
        before.is_empty() && behind[..] == [end as i32]
    }

    /// Those of [`super::Around::End`]: the end mark behind each text.
    fn of_sources(end: i32) -> Self {
        Self {
            one: [Vec::new(), vec![end]],
            apart: None,
            two: [Vec::new(), vec![(end, 0)], vec![(end, 1)]],
            segments: [0, 1],
        }
    }

    /// Those of XLNet: the end of a frame behind each text, and its beginning behind all, in a segment of its own (Yang et al.
    /// 2019, section 2.5).
    fn behind(frame: Frame) -> Self {
        let (whole, end) = (frame.begin as i32, frame.end as i32);
        Self {
            one: [Vec::new(), vec![end, whole]],
            apart: Some([Vec::new(), vec![0, WHOLE]]),
            two: [Vec::new(), vec![(end, 0)], vec![(end, 1), (whole, WHOLE)]],
            segments: [0, 1],
        }
    }

    /// Whether both put the same tokens around texts, whatever their segments.
    fn reads_as(&self, other: &Self) -> bool {
        let ids = |edges: &Self| -> Vec<Vec<i32>> {
            let parts = edges.two.iter();
            parts
                .map(|part| part.iter().map(|(id, _)| *id).collect())
                .collect()
        };
        self.one == other.one && ids(self) == ids(other)
    }
}

impl From<Frame> for Edges {
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
    /// The tokens that its file puts around texts; where it puts none, those of the [`Frame`] that the vocabulary has.
    pub fn edges(&self) -> Option<Edges> {
        let named = self.frame().map(Edges::from);
        match (self.own_edges(), named) {
            // Segments of a frame are those that runs have been trained with.
            (Some(own), Some(named)) if own.reads_as(&named) => Some(named),
            (Some(own), _) => Some(own.clone()),
            (None, _) if self.reads_behind() => self.frame().map(Edges::behind),
            (None, named) => named,
        }
    }

    /// The tokens around a question and its context: the [`Frame`] of the vocabulary, or XLNet's where its file puts that around texts.
    pub fn edges_of_questions(&self) -> Option<Edges> {
        let own = self.edges().filter(Edges::stands_last);
        own.or_else(|| self.frame().map(Edges::from))
    }

    /// The marks of the [`Frame`] of the vocabulary behind texts, of which the last one stands for them.
    pub fn edges_behind(&self) -> Option<Edges> {
        self.frame().map(Edges::behind)
    }

    /// The tokens that its file puts around texts; `None` where it puts none around a single one, or where the tokenizer is
    /// one of characters or bytes, which runs make themselves. A template with an id beyond the vocabulary counts as none, and so
    /// does that of [`super::Around::End`], which runs of pairs write, where the vocabulary has a [`Frame`]: the end behind
    /// a source says nothing of texts that an encoder reads alone. Published templates with one end (T5's) give both texts
    /// segment 0, and are told from it by that.
    pub fn own_edges(&self) -> Option<&Edges> {
        self.0.edges.get_or_init(|| self.written_edges()).as_ref()
    }

    /// The tokens around a text that becomes another one (BART's `<s> … </s>`, mBART's `… </s> en_XX`, T5's `… </s>`): those
    /// that its file puts there, where the end mark stands among those behind the text; else the end mark alone.
    ///
    /// # Errors
    /// A vocabulary without an end mark.
    pub fn source_edges(&self) -> Result<Edges> {
        if let Some(frame) = self.framing() {
            return Ok(frame.into());
        }
        let end = self.marks()?.end as i32;
        let own = self.own_edges().filter(|own| own.one[1].contains(&end));
        Ok(own.cloned().unwrap_or_else(|| Edges::of_sources(end)))
    }

    /// The tokens that a decoder reads before those that it writes: the mark that begins a target and that of its language
    /// (`</s> de_DE …` of mBART-50) or, where the frame around sources begins with another token, that one, since published BART
    /// models write a text in its frame (`</s> <s> …`).
    ///
    /// # Errors
    /// A vocabulary without marks.
    pub fn target_opening(&self) -> Result<Vec<u32>> {
        let begin = self.marks()?.begin;
        let edges = self.source_edges()?;
        let frame = self.frame().map(|frame| frame.begin);
        let frame = frame.filter(|first| edges.before() == [*first as i32]);
        let inner = self.target_language().or(frame).filter(|id| *id != begin);
        Ok([begin].into_iter().chain(inner).collect())
    }

    fn written_edges(&self) -> Option<Edges> {
        let Engine::Library(library) = &self.0.engine else {
            return None;
        };
        // One token stands for each text.
        let text = || Encoding::from_tokens(vec![Token::new(0, "a".into(), (0, 1))], 0);
        let one = library.post_process(text(), None, true).ok()?;
        let two = library.post_process(text(), Some(text()), true).ok()?;
        let (one, of_one) = parted(&one);
        let (two, segments) = parted(&two);
        let one = <[Tokens; 2]>::try_from(one).ok()?;
        let ids = |tokens: &Tokens| -> Vec<i32> { tokens.iter().map(|(id, _)| *id).collect() };
        let of = |tokens: &Tokens| -> Vec<i32> { tokens.iter().map(|(_, kind)| *kind).collect() };
        let marked = one.iter().flatten().any(|(_, kind)| *kind != 0);
        let edges = Edges {
            one: one.each_ref().map(ids),
            apart: (marked && of_one == [0]).then(|| one.each_ref().map(of)),
            two: two.try_into().ok()?,
            segments: segments.try_into().ok()?,
        };
        let put = edges.two.iter().flatten().map(|(id, _)| id);
        let mut put = put.chain(edges.one.iter().flatten());
        let known = put.all(|id| (0..self.vocab_size() as i64).contains(&i64::from(*id)));
        let own = known && !edges.is_empty() && !self.is_of_sources(&edges);
        own.then_some(edges)
    }

    /// Whether these are the edges that runs of pairs write, in a vocabulary with a frame.
    fn is_of_sources(&self, edges: &Edges) -> bool {
        let marks = self.frame().and_then(|_| self.marks().ok());
        marks.is_some_and(|marks| *edges == Edges::of_sources(marks.end as i32))
    }
}

/// The tokens before, between and behind the texts of an encoding, and the segment of each text. Texts in another order than
/// they were given in have too few parts.
fn parted(encoding: &Encoding) -> (Vec<Tokens>, Vec<i32>) {
    let (mut parts, mut segments) = (Vec::new(), Vec::new());
    let mut part = Tokens::new();
    let ids = encoding.get_ids().iter().zip(encoding.get_type_ids());
    for ((id, kind), text) in ids.zip(encoding.get_sequence_ids()) {
        let segment = (*kind).min(WHOLE as u32) as i32;
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
