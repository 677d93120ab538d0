//! How the tokens of a vocabulary are spelt: which are special, and which begin a word.
//!
//! WordPiece marks the continuation of a word (`##`), SentencePiece its beginning (`▁`); SentencePiece writes a byte that no
//! piece covers as `<0x41>`. Byte-level BPE marks only blanks (`Ġ`). There, and for characters and bytes, a word also ends
//! where letters, digits and other characters meet, and a single blank belongs to the word after it, as in GPT-2's splitting
//! rule. A character whose bytes are separate tokens counts as a letter.

use std::collections::HashMap;

use serde_json::Value;

use super::{Engine, Tokenizer, format, word};

/// The spelling of every token of a vocabulary.
pub(super) struct Spelling {
    tokens: Vec<Token>,
    rule: Rule,
    joins_blanks: bool,
}

#[derive(Clone, Copy, Default)]
struct Token {
    special: bool,
    /// Whether the token's spelling marks the beginning of a word.
    begins_word: bool,
    /// Classes of the first and the last character.
    classes: [Class; 2],
    /// Number of bytes of text that the token stands for.
    bytes: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Class {
    Blank,
    #[default]
    Letter,
    Digit,
    Other,
}

/// How a vocabulary shows where words begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Tokens mark it themselves; a blank ends a word.
    Marked,
    /// Same as `Marked`, and also wherever classes of characters meet.
    Classes,
}

/// How a vocabulary spells its tokens.
enum Writing {
    Continued(String),
    /// Characters that stand for bytes.
    Bytes(HashMap<char, u8>),
    Metaspace,
    Characters,
    /// Whole words, and the token that stands for a line break.
    Words(Option<String>),
}

fn class(c: char) -> Class {
    if c.is_whitespace() {
        Class::Blank
    } else if c.is_alphabetic() {
        Class::Letter
    } else if c.is_numeric() {
        Class::Digit
    } else {
        Class::Other
    }
}

fn class_of_byte(byte: u8) -> Class {
    if byte < 0x80 {
        class(char::from(byte))
    } else {
        Class::Letter
    }
}

/// Whether a component of the format has this type, itself or inside a sequence.
fn has_type(part: &Value, name: &str) -> bool {
    let inside = part["pretokenizers"].as_array().into_iter().flatten();
    part["type"] == name || inside.into_iter().any(|p| has_type(p, name))
}

/// Whether a normalizer, itself or inside a sequence, replaces blanks by `▁`.
fn marks_blanks(normalizer: &Value) -> bool {
    let inside = normalizer["normalizers"].as_array().into_iter().flatten();
    normalizer["type"] == "Replace" && normalizer["content"] == "▁"
        || inside.into_iter().any(marks_blanks)
}

/// Whether a token stands for a single byte, such as `<0x41>`.
fn is_byte(token: &str) -> bool {
    let digits = token
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}

fn writing(engine: &Engine, file: &Value) -> Writing {
    let (model, splitter) = (&file["model"], &file["pre_tokenizer"]);
    let bytes = || Writing::Bytes((0..=255).map(|b| (format::byte_char(b), b)).collect());
    match engine {
        Engine::Chars(_) => Writing::Characters,
        Engine::Bytes(_) => bytes(),
        Engine::Library(_) if model["type"] == "WordPiece" => {
            let prefix = model["continuing_subword_prefix"].as_str();
            Writing::Continued(prefix.unwrap_or("##").to_owned())
        }
        Engine::Library(_) if has_type(splitter, "ByteLevel") => bytes(),
        Engine::Library(_)
            if has_type(splitter, "Metaspace") || marks_blanks(&file["normalizer"]) =>
        {
            Writing::Metaspace
        }
        Engine::Library(_) => Writing::Words(word::line_break_token(file)),
    }
}

impl Spelling {
    fn new(tokenizer: &Tokenizer) -> Self {
        let file: Value = serde_json::from_slice(&tokenizer.0.json).unwrap_or_default();
        let writing = writing(&tokenizer.0.engine, &file);
        let mut tokens: Vec<Token> = (0..tokenizer.vocab_size() as u32)
            .map(|id| token_spelling(&tokenizer.token(id).unwrap_or_default(), &writing))
            .collect();
        if file["model"]["byte_fallback"] == true {
            for (id, token) in tokens.iter_mut().enumerate() {
                if is_byte(&tokenizer.token(id as u32).unwrap_or_default()) {
                    token.bytes = 1;
                }
            }
        }
        for id in tokenizer.specials() {
            if let Some(token) = tokens.get_mut(*id as usize) {
                token.special = true;
            }
        }
        let rule = match writing {
            Writing::Bytes(_) | Writing::Characters => Rule::Classes,
            Writing::Continued(_) | Writing::Metaspace | Writing::Words(_) => Rule::Marked,
        };
        // Without merges, a blank is a token of its own.
        let merged = tokens
            .iter()
            .any(|t| !t.special && t.begins_word && t.bytes > 1);
        let joins_blanks = matches!(writing, Writing::Bytes(_) | Writing::Metaspace) && merged;
        Self {
            tokens,
            rule,
            joins_blanks,
        }
    }
}

fn token_spelling(token: &str, writing: &Writing) -> Token {
    let ends = |class: &dyn Fn(char) -> Class| {
        let mut chars = token.chars();
        let first = chars.next().map(class).unwrap_or_default();
        [first, chars.next_back().map_or(first, class)]
    };
    let (begins, classes) = match writing {
        Writing::Continued(prefix) => (!token.starts_with(prefix.as_str()), ends(&class)),
        Writing::Metaspace => (token.starts_with('▁'), ends(&class)),
        Writing::Characters => (token == " ", ends(&class)),
        Writing::Words(_) => (true, ends(&class)),
        Writing::Bytes(bytes) => {
            let class = |c| bytes.get(&c).map_or(Class::Other, |b| class_of_byte(*b));
            let blank = token.chars().next().and_then(|c| bytes.get(&c)) == Some(&b' ');
            (blank, ends(&class))
        }
    };
    let bytes = match writing {
        Writing::Continued(prefix) => token.strip_prefix(prefix.as_str()).unwrap_or(token).len(),
        Writing::Bytes(bytes) => token.chars().filter(|c| bytes.contains_key(c)).count(),
        Writing::Metaspace => token.replace('▁', " ").len(),
        Writing::Words(Some(line)) if line == token => 1,
        Writing::Characters | Writing::Words(_) => token.len(),
    };
    Token {
        special: false,
        begins_word: begins,
        classes,
        bytes,
    }
}

impl Tokenizer {
    fn spelling(&self) -> &Spelling {
        self.0.spelling.get_or_init(|| Spelling::new(self))
    }

    /// Whether a token is special: an added token marked as special, or the unknown token.
    pub fn is_special(&self, id: u32) -> bool {
        let token = self.spelling().tokens.get(id as usize);
        token.is_some_and(|token| token.special)
    }

    /// The number of bytes of text that a token stands for, by its spelling; 0 for a special token.
    pub fn bytes_of(&self, id: u32) -> usize {
        let token = self.spelling().tokens.get(id as usize);
        token.map_or(0, |token| if token.special { 0 } else { token.bytes })
    }

    /// Whether the blank before a word is part of the word's token, so that a mask replaces both.
    pub fn joins_blanks(&self) -> bool {
        self.spelling().joins_blanks
    }

    /// Whether a word begins with token `id` if it follows the token `before`. A special token is a word of its
    /// own.
    pub fn begins_word(&self, before: Option<u32>, id: u32) -> bool {
        let spelling = self.spelling();
        let of = |id: u32| spelling.tokens.get(id as usize).copied();
        let (Some(token), Some(before)) = (of(id), before.and_then(of)) else {
            return true;
        };
        let [[_, last], [first, _]] = [before.classes, token.classes];
        let blank = before.begins_word && last == Class::Blank;
        token.special
            || before.special
            || token.begins_word
            || first == Class::Blank
            || !blank && (last == Class::Blank || spelling.rule == Rule::Classes && first != last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_by_their_spelling() {
        let line = "unhappy don't 3rd,\n";
        let text = line.repeat(50);
        let words = |config: &str, line: &str| -> Vec<String> {
            let config = serde_json::from_str(config).unwrap();
            let tokenizer = Tokenizer::build(&config, &[&text]).unwrap();
            let mut words: Vec<Vec<u32>> = Vec::new();
            for id in tokenizer.encode(line).unwrap() {
                let before = words.last().and_then(|w| w.last()).copied();
                match words.last_mut() {
                    Some(word) if !tokenizer.begins_word(before, id) => word.push(id),
                    _ => words.push(vec![id]),
                }
            }
            let written = words.iter().map(|w| tokenizer.decode(w).trim().to_owned());
            written.collect()
        };
        let byte = r#"{"kind": "byte"}"#;
        let expected = ["unhappy", "3", "rd", ",", "", "bé"];
        assert_eq!(words(byte, "unhappy 3rd,\nbé"), expected);
        let bpe = r#"{"kind": "bpe", "vocab_size": 262}"#;
        assert_eq!(words(bpe, "unhappy don't"), ["unhappy", "don", "'t"]);
        let wordpiece = r#"{"kind": "wordpiece", "vocab_size": 40}"#;
        assert_eq!(
            words(wordpiece, "unhappy don't"),
            ["unhappy", "don", "'", "t"]
        );
        let unigram = r#"{"kind": "unigram", "vocab_size": 40}"#;
        assert_eq!(
            words(unigram, "unhappy don't\nrd"),
            ["unhappy", "don't", "", "rd"]
        );
    }
}
