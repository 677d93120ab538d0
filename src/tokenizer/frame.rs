//! The tokens around a text, the mask token, and the blank before a mask: what encoders need beyond token ids.
//!
//! BERT reads `[CLS] a [SEP]` and `[CLS] a [SEP] b [SEP]` (Devlin et al., arXiv:1810.04805); RoBERTa `<s> a </s>` and `<s>
//! a </s> </s> b </s>` (Liu et al., arXiv:1907.11692); CLIP `<|startoftext|> a <|endoftext|>`. The tokens are found by
//! these names.

use super::format::MASKS;
use super::{Engine, Tokenizer, TokenizerConfig};

/// The special tokens around a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Token before the text; its last hidden state represents the whole text.
    pub begin: u32,
    /// Token after a text, and between two texts.
    pub end: u32,
    /// Whether `end` occurs twice between two texts.
    pub doubled: bool,
}

/// Names of `begin` and `end` in published tokenizers, and whether `end` is doubled between two texts.
const FRAMES: [(&str, &str, bool); 4] = [
    ("[CLS]", "[SEP]", false),
    // XLNet. Listed before `<s>` and `</s>`, because its vocabulary has those tokens as well.
    ("<cls>", "<sep>", false),
    ("<s>", "</s>", true),
    ("<|startoftext|>", "<|endoftext|>", true),
];
const PADS: [&str; 2] = ["[PAD]", "<pad>"];

/// How users write a mask, whatever the tokenizer calls it.
pub const USER_MASK: &str = "[MASK]";

impl Frame {
    /// The number of tokens added to one text, or to two.
    pub fn len(&self, pair: bool) -> usize {
        match (pair, self.doubled) {
            (false, _) => 2,
            (true, false) => 3,
            (true, true) => 4,
        }
    }

    /// Puts a text into the frame.
    pub fn around(&self, text: &[i32]) -> Vec<i32> {
        let mut ids = Vec::with_capacity(text.len() + 2);
        ids.push(self.begin as i32);
        ids.extend_from_slice(text);
        ids.push(self.end as i32);
        ids
    }

    /// Puts two texts into the frame; also returns the segment of each token: 0 up to the first end, then 1.
    pub fn around_both(&self, first: &[i32], second: &[i32]) -> (Vec<i32>, Vec<i32>) {
        let mut ids = self.around(first);
        let mut segments = vec![0; ids.len()];
        if self.doubled {
            ids.push(self.end as i32);
        }
        ids.extend_from_slice(second);
        ids.push(self.end as i32);
        segments.resize(ids.len(), 1);
        (ids, segments)
    }
}

impl Tokenizer {
    /// The special tokens around a text, if the vocabulary has them.
    pub fn frame(&self) -> Option<Frame> {
        FRAMES.iter().find_map(|(begin, end, doubled)| {
            Some(Frame {
                begin: self.special(begin)?,
                end: self.special(end)?,
                doubled: *doubled,
            })
        })
    }

    /// The mask token.
    pub fn mask(&self) -> Option<u32> {
        MASKS.iter().find_map(|name| self.special(name))
    }

    /// Rewrites the masks in a text, written `[MASK]` or by the vocabulary's own name, as the vocabulary's mask token; returns
    /// the text unchanged if there is none. If tokens include the blank before a word and the file says so of the mask
    /// (`lstrip`), the blank before a mask is removed.
    pub fn with_masks(&self, text: &str) -> String {
        let mask = self.mask();
        let Some((mask, name)) = mask.and_then(|mask| Some((mask, self.token(mask)?))) else {
            return text.to_owned();
        };
        let text = text.replace(&name, USER_MASK);
        let parts: Vec<&str> = text.split(USER_MASK).collect();
        let last = parts.len() - 1;
        let blanks = self.joins_blanks() && self.strips_left(mask);
        let before = |(number, part): (usize, &&str)| match blanks && number < last {
            true => part.trim_end().to_owned(),
            false => (*part).to_owned(),
        };
        let parts: Vec<String> = parts.iter().enumerate().map(before).collect();
        parts.join(&name)
    }

    /// Whether the file says that a special token includes the blank before it.
    fn strips_left(&self, id: u32) -> bool {
        match &self.0.engine {
            Engine::Library(library) => {
                let added = library.get_added_vocabulary().get_added_tokens_decoder();
                added.get(&id).is_some_and(|token| token.lstrip)
            }
            Engine::Chars(_) | Engine::Bytes(_) => false,
        }
    }

    /// The padding token.
    pub fn pad(&self) -> Option<u32> {
        PADS.iter().find_map(|name| self.special(name))
    }

    fn special(&self, name: &str) -> Option<u32> {
        self.id(name).filter(|id| self.is_special(*id))
    }
}

impl TokenizerConfig {
    /// Adds the tokens of a frame that the vocabulary lacks, and a mask token if `mask` is set: `[CLS]` …
    /// for characters and bytes, `<s>` … as in RoBERTa for words, BPE and Unigram. WordPiece has them already; `pretrained`
    /// stays as it is.
    #[must_use]
    pub fn with_frame(&self, mask: bool) -> Self {
        let mut config = self.clone();
        let bert = ["[PAD]", "[CLS]", "[SEP]", "[MASK]"];
        let roberta = ["<s>", "<pad>", "</s>", "<mask>"];
        let (names, wanted, special_tokens) = match (self, &mut config) {
            (Self::Char(c), Self::Char(new)) => (c.names(), bert, &mut new.special_tokens),
            (Self::Byte(c), Self::Byte(new)) => (c.names(), bert, &mut new.special_tokens),
            (Self::Word(c), Self::Word(new)) => (c.names(), roberta, &mut new.special_tokens),
            (Self::Bpe(c), Self::Bpe(new)) => (c.names(), roberta, &mut new.special_tokens),
            (Self::Unigram(c), Self::Unigram(new)) => (c.names(), roberta, &mut new.special_tokens),
            _ => return config,
        };
        let lacking = wanted
            .into_iter()
            .filter(|name| (mask || !MASKS.contains(name)) && !names.contains(name));
        special_tokens.extend(lacking.map(String::from));
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vocabulary whose tokens include the blank before a word, as its file says.
    #[test]
    fn a_mask_takes_the_blank_before_it_where_the_file_says_so() {
        let config = TokenizerConfig::Bpe(crate::tokenizer::BpeConfig {
            vocab_size: 300,
            special_tokens: vec!["<mask>".into()],
            ..crate::tokenizer::BpeConfig::default()
        });
        let text = "the cat sat on the mat and the dog sat there too ".repeat(8);
        let own = Tokenizer::build(&config, &[&text]).unwrap();
        assert_eq!(own.with_masks("the [MASK] sat"), "the<mask> sat");
        let mut file: serde_json::Value = serde_json::from_slice(own.json()).unwrap();
        for entry in file["added_tokens"].as_array_mut().unwrap() {
            entry["lstrip"] = false.into();
        }
        let other = Tokenizer::from_json(file.to_string().into_bytes(), "t.json".as_ref()).unwrap();
        assert_eq!(other.with_masks("the [MASK] sat"), "the <mask> sat");
    }

    #[test]
    fn two_texts_have_two_segments() {
        let mut frame = Frame {
            begin: 1,
            end: 2,
            doubled: false,
        };
        let (ids, segments) = frame.around_both(&[7, 8], &[9]);
        assert_eq!(ids, [1, 7, 8, 2, 9, 2]);
        assert_eq!(segments, [0, 0, 0, 0, 1, 1]);
        assert_eq!(ids.len(), 3 + frame.len(true));
        frame.doubled = true;
        let (ids, segments) = frame.around_both(&[7], &[9]);
        assert_eq!(ids, [1, 7, 2, 2, 9, 2]);
        assert_eq!(segments, [0, 0, 0, 1, 1, 1]);
        assert_eq!(frame.around(&[5]), [1, 5, 2]);
    }
}
