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

/// The tokens around a text, and around two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edges {
    /// Before a text, and behind it.
    one: [Vec<i32>; 2],
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

    /// Two texts between them, and the segment of each token, 0 or 1.
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

    /// Whether they are the end mark alone, behind a text.
    pub fn are_end(&self, end: u32) -> bool {
        let [before, behind] = &self.one;
        before.is_empty() && behind[..] == [end as i32]
    }

    /// Those of [`super::Around::End`]: the end mark behind each text.
    fn of_sources(end: i32) -> Self {
        Self {
            one: [Vec::new(), vec![end]],
            two: [Vec::new(), vec![(end, 0)], vec![(end, 1)]],
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
            (None, named) => named,
        }
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
        let (one, _): (Vec<Tokens>, _) = parted(&one);
        let (two, segments) = parted(&two);
        let ids = |tokens: Tokens| -> Vec<i32> { tokens.into_iter().map(|(id, _)| id).collect() };
        let edges = Edges {
            one: <[Tokens; 2]>::try_from(one).ok()?.map(ids),
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
        // Further segments (XLNet's third) no model here has.
        let segment = i32::from(*kind > 0);
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
mod tests {
    use super::super::Around;
    use super::*;
    use serde_json::{Value, json};
    use std::path::Path;

    /// Words, with `begin` and `</s>` as special tokens.
    fn words(begin: &str) -> Value {
        let added = [begin, "</s>"].into_iter().enumerate().map(|(id, name)| {
            json!({"id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                   "special": true})
        });
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added.collect::<Vec<_>>(),
            "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
            "model": {"type": "WordLevel", "vocab": {begin: 0, "</s>": 1, "a": 2, "?": 3}, "unk_token": "?"},
        })
    }

    fn tokenizer(file: &Value) -> Tokenizer {
        Tokenizer::from_json(file.to_string().into_bytes(), Path::new("tokenizer.json")).unwrap()
    }

    #[test]
    fn the_end_of_sources_is_no_edge_where_there_is_a_frame() {
        let saved = tokenizer(&words("<s>")).reading(Around::End).unwrap();
        assert_eq!(saved.own_edges(), None);
        assert_eq!(saved.edges().unwrap().around(&[2]), [0, 2, 1]);
        let labelled = saved.reading(Around::Edges).unwrap();
        assert_eq!(labelled.framing(), saved.frame());
        // A published template with the same tokens gives all of them segment 0.
        let mut published = saved.file().unwrap();
        for part in published["post_processor"]["pair"].as_array_mut().unwrap() {
            for part in part.as_object_mut().unwrap().values_mut() {
                part["type_id"] = json!(0);
            }
        }
        let published = tokenizer(&published);
        assert_eq!(published.edges().unwrap().around(&[2]), [2, 1]);
        // Without a frame the end stands behind each text.
        let mut bare = saved.file().unwrap();
        bare["added_tokens"][0]["special"] = json!(false);
        assert_eq!(tokenizer(&bare).edges().unwrap().around(&[2]), [2, 1]);
    }

    /// A file that puts these names around a text, `A`, and around two as RoBERTa does not.
    fn putting(single: &[&str]) -> Tokenizer {
        let mut file = words("<s>");
        let part = |name: &&str| match *name {
            "A" | "B" => json!({"Sequence": {"id": name, "type_id": 0}}),
            name => json!({"SpecialToken": {"id": name, "type_id": 0}}),
        };
        let ids = [("<s>", 0), ("</s>", 1), ("a", 2)];
        let tokens = ids.map(|(name, id)| {
            let token = json!({"id": name, "ids": [id], "tokens": [name]});
            (name.to_owned(), token)
        });
        let pair = [single, &["B"]].concat();
        file["post_processor"] = json!({
            "type": "TemplateProcessing",
            "single": single.iter().map(part).collect::<Vec<_>>(),
            "pair": pair.iter().map(part).collect::<Vec<_>>(),
            "special_tokens": serde_json::Map::from_iter(tokens),
        });
        tokenizer(&file)
    }

    #[test]
    fn sources_stand_in_what_the_file_puts_around_a_text_where_it_ends_one() {
        let around = |of: &Tokenizer| of.source_edges().unwrap().around(&[3]);
        // BART, whatever stands around two texts; mBART; T5; LLaMA, whose file ends no text.
        for (single, ids) in [
            (&["<s>", "A", "</s>"][..], &[0, 3, 1][..]),
            (&["A", "</s>", "a"][..], &[3, 1, 2][..]),
            (&["A", "</s>"][..], &[3, 1][..]),
            (&["<s>", "A"][..], &[3, 1][..]),
        ] {
            let found = putting(single);
            assert_eq!(around(&found), ids, "{single:?}");
            assert_eq!(found.target_opening().unwrap(), [0], "{single:?}");
        }
        let bare = tokenizer(&words("<s>"));
        assert_eq!(around(&bare), [3, 1]);
        assert!(bare.source_edges().unwrap().are_end(1));
        assert_eq!(around(&bare.reading(Around::Frame).unwrap()), [0, 3, 1]);
        assert_eq!(around(&bare.reading(Around::End).unwrap()), [3, 1]);
    }

    #[test]
    fn another_mark_than_the_frames_opens_targets_before_it() {
        let names = crate::tokenizer::MarkNames {
            begin: Some("</s>".into()),
            ..Default::default()
        };
        let bart = putting(&["<s>", "A", "</s>"]).with_marks(&names).unwrap();
        assert_eq!(bart.target_opening().unwrap(), [1, 0]);
        let ended = putting(&["A", "</s>"]).with_marks(&names).unwrap();
        assert_eq!(ended.target_opening().unwrap(), [1]);
    }

    #[test]
    fn a_frame_has_the_same_tokens_at_its_edges() {
        for doubled in [false, true] {
            let frame = Frame {
                begin: 1,
                end: 2,
                doubled,
            };
            let edges = Edges::from(frame);
            assert_eq!(edges.around(&[7, 8]), frame.around(&[7, 8]));
            let both = edges.around_both(&[7, 8], &[9]);
            assert_eq!(both, frame.around_both(&[7, 8], &[9]));
            for pair in [false, true] {
                assert_eq!(edges.len(pair), frame.len(pair));
            }
        }
    }
}
