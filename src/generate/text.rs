//! Generated tokens as a stream of text: only settled text is returned, and the cost per token does not depend on the
//! length of the text.
//!
//! A token's text depends on its neighbours (bytes of one character, spaces between words), so the newest tokens are
//! decoded together with a few earlier ones, and the difference is the new text. Tokenizers with byte fallback decode a
//! whole run of bytes to replacement characters while its last character is incomplete, so a window neither begins nor
//! ends inside a character.

use crate::tokenizer::Tokenizer;

/// Maximum tokens that are decoded together.
const WINDOW: usize = 32;
/// The same maximum while the last character stays incomplete.
const MAX_WINDOW_TOKENS: usize = 4 * WINDOW;
/// Number of earlier tokens that a new token's text may depend on.
const CONTEXT_TOKENS: usize = 8;

/// Decodes a text token by token.
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    window: Vec<u32>,
    /// Text of the window that was already returned.
    emitted: String,
    /// Whether the window ends inside a character.
    is_incomplete: bool,
}

impl<'a> TextStream<'a> {
    /// Starts a stream after `prompt`, whose own text is not returned.
    pub fn new(tokenizer: &'a Tokenizer, prompt: &[u32]) -> Self {
        let window = newest(tokenizer, prompt).to_vec();
        Self {
            emitted: tokenizer.decode(&window),
            tokenizer,
            window,
            is_incomplete: false,
        }
    }

    /// Returns the text that `token` adds; an incomplete character is held back until its last token.
    pub fn push(&mut self, token: u32) -> String {
        if self.window.len()
            >= if self.is_incomplete {
                MAX_WINDOW_TOKENS
            } else {
                WINDOW
            }
        {
            self.window = newest(self.tokenizer, &self.window).to_vec();
            self.emitted = complete_characters(&self.tokenizer.decode(&self.window)).into();
        }
        self.window.push(token);
        let text = self.tokenizer.decode(&self.window);
        self.is_incomplete = text.ends_with(char::REPLACEMENT_CHARACTER);
        let shown = complete_characters(&text);
        match self.is_incomplete && !shown.starts_with(&self.emitted) {
            // Characters that were complete become so again with the bytes to come.
            true => String::new(),
            false => self.give(shown),
        }
    }

    /// Returns the text that is still held back when no token follows.
    pub fn finish(&mut self) -> String {
        let text = self.tokenizer.decode(&self.window);
        if !self.is_incomplete || text.starts_with(&self.emitted) {
            return self.give(&text);
        }
        let count = self.window.len();
        let without = |bytes| {
            self.tokenizer
                .decode(&self.window[..count.saturating_sub(bytes)])
        };
        // Bytes that break off inside a character do not retract the characters before them.
        let mut whole = (1..=MAX_INCOMPLETE_BYTES).map(without);
        match whole.find(|text| text.starts_with(&self.emitted)) {
            Some(whole) => self.give(&(whole + "\u{FFFD}")),
            None => self.give(&text),
        }
    }

    fn give(&mut self, text: &str) -> String {
        let new = after_common(&self.emitted, text).to_string();
        self.emitted = text.into();
        new
    }
}

/// Returns the newest few tokens, starting at the beginning of a character.
fn newest<'t>(tokenizer: &Tokenizer, tokens: &'t [u32]) -> &'t [u32] {
    let from = |before: usize| &tokens[tokens.len().saturating_sub(CONTEXT_TOKENS + before)..];
    let whole = |tokens: &&[u32]| {
        !tokenizer
            .decode(tokens)
            .starts_with(char::REPLACEMENT_CHARACTER)
    };
    let mut windows = (0..=MAX_INCOMPLETE_BYTES).map(from);
    windows.find(whole).unwrap_or(from(0))
}

/// Maximum bytes of an incomplete character.
const MAX_INCOMPLETE_BYTES: usize = 3;

/// Returns the text without an incomplete last character: tokenizers with byte fallback decode each of its bytes to a
/// replacement character.
fn complete_characters(text: &str) -> &str {
    (0..MAX_INCOMPLETE_BYTES).fold(text, |text, _| {
        text.strip_suffix(char::REPLACEMENT_CHARACTER)
            .unwrap_or(text)
    })
}

/// Returns the part of `new` after its common prefix with `old`.
fn after_common<'t>(old: &str, new: &'t str) -> &'t str {
    let same = old.chars().zip(new.chars()).take_while(|(a, b)| a == b);
    &new[same.map(|(c, _)| c.len_utf8()).sum()..]
}

/// Ends a text before the first occurrence of a stop text; holds back text that may be the beginning of one.
pub struct StopTexts {
    texts: Vec<String>,
    /// Number of bytes held back, which may begin a stop text.
    held: usize,
    text: String,
    shown: usize,
}

impl StopTexts {
    /// Builds a filter that stops at any of `texts`, none of which is empty.
    pub fn new(texts: &[String]) -> Self {
        Self {
            held: texts
                .iter()
                .map(|t| t.len().saturating_sub(1))
                .max()
                .unwrap_or(0),
            texts: texts.to_vec(),
            text: String::new(),
            shown: 0,
        }
    }

    /// Adds `new`; returns the text that may be shown, and whether a stop text was found.
    pub fn push(&mut self, new: &str) -> (&str, bool) {
        let from = floor(&self.text, self.text.len().saturating_sub(self.held)).max(self.shown);
        self.text.push_str(new);
        let tail = &self.text[from..];
        let found = self.texts.iter().filter_map(|t| tail.find(t)).min();
        let end = match found {
            Some(at) => from + at,
            None => floor(&self.text, self.text.len().saturating_sub(self.held)),
        };
        (self.show(end), found.is_some())
    }

    /// Returns the text that was held back but is not a stop text.
    pub fn finish(&mut self) -> &str {
        self.show(self.text.len())
    }

    fn show(&mut self, end: usize) -> &str {
        let begin = self.shown;
        self.shown = end.max(begin);
        &self.text[begin..self.shown]
    }
}

/// Returns the last character boundary at or before `at`.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{ByteConfig, TokenizerConfig};

    fn bytes() -> Tokenizer {
        let config = TokenizerConfig::Byte(ByteConfig::default());
        Tokenizer::build(&config, &[]).unwrap()
    }

    #[test]
    fn pieces_add_up_to_the_text_and_characters_come_whole() {
        let tokenizer = bytes();
        let text = "naïve – 日本語 ".repeat(20);
        let prompt = tokenizer.encode("ü").unwrap();
        let mut stream = TextStream::new(&tokenizer, &prompt);
        let mut whole = String::new();
        for token in tokenizer.encode(&text).unwrap() {
            let piece = stream.push(token);
            assert!(!piece.contains('\u{FFFD}'), "{piece:?}");
            whole += &piece;
        }
        assert_eq!(whole + &stream.finish(), text);
    }

    #[test]
    fn bytes_of_a_character_wait_for_each_other() {
        for (text, shown) in [
            ("a\u{FFFD}", "a"),
            ("a\u{FFFD}\u{FFFD}\u{FFFD}", "a"),
            ("\u{FFFD}b", "\u{FFFD}b"),
        ] {
            assert_eq!(complete_characters(text), shown);
        }
    }

    /// Tokenizer with a token for each byte and some words, like LLaMA's vocabulary with byte fallback.
    fn falling_back() -> Tokenizer {
        let bytes = (0..256u32).map(|byte| (format!("<0x{byte:02X}>"), byte));
        let words = ["a", "\u{2581}b", "<unk>"].into_iter().zip(256..);
        let words = words.map(|(word, id)| (word.to_owned(), id));
        let vocab: std::collections::BTreeMap<String, u32> = bytes.chain(words).collect();
        let file = serde_json::json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": null, "post_processor": null,
            "decoder": { "type": "Sequence", "decoders": [
                { "type": "Replace", "pattern": { "String": "\u{2581}" }, "content": " " },
                { "type": "ByteFallback" }, { "type": "Fuse" },
            ] },
            "model": {
                "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "vocab": vocab, "merges": [],
            },
        });
        Tokenizer::from_json(file.to_string().into_bytes(), "tokenizer.json".as_ref()).unwrap()
    }

    #[test]
    fn characters_of_byte_tokens_stay_whole_beside_each_other() {
        let tokenizer = falling_back();
        let ids = |text: &str| text.bytes().map(u32::from).collect::<Vec<u32>>();
        // Longer than a window, with characters of one to four bytes, and words between some of them.
        let runs = "\u{5b57}\u{8a9e}\u{1f600}\u{e9}".repeat(12);
        let tokens = [ids(&runs), vec![256, 257], ids(&runs), vec![257]].concat();
        for before in ["", "\u{8a9e}\u{8a9e}\u{8a9e}\u{8a9e}\u{1f600}"] {
            let mut stream = TextStream::new(&tokenizer, &ids(before));
            let pieces: Vec<String> = tokens.iter().map(|token| stream.push(*token)).collect();
            let whole = pieces.concat() + &stream.finish();
            assert_eq!(whole, format!("{runs}a b{runs} b"), "behind {before:?}");
            assert!(
                pieces.iter().all(|piece| piece.chars().count() <= 2),
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn a_broken_character_takes_none_back_that_was_shown() {
        let tokenizer = falling_back();
        let mut stream = TextStream::new(&tokenizer, &[]);
        let tokens = "\u{5b57}\u{8a9e}\u{1f600}".bytes().map(u32::from);
        let shown: String = tokens.take(9).map(|token| stream.push(token)).collect();
        assert_eq!(shown, "\u{5b57}\u{8a9e}");
        assert_eq!(stream.finish(), "\u{FFFD}");
    }

    #[test]
    fn broken_bytes_are_shown_in_the_end() {
        let tokenizer = bytes();
        let tokens: Vec<u32> = "é".repeat(100).bytes().map(u32::from).collect();
        let mut stream = TextStream::new(&tokenizer, &[]);
        let firsts = tokens.iter().step_by(2);
        let shown: String = firsts.map(|t| stream.push(*t)).collect();
        assert_eq!(shown.chars().count(), 97, "the last may go on");
        assert_eq!((shown + &stream.finish()).chars().count(), 100);
    }

    #[test]
    fn a_stop_text_is_never_shown_in_part() {
        let mut stops = StopTexts::new(&["END".into(), "é!".into()]);
        assert_eq!(stops.push("a E"), ("a", false));
        assert_eq!(stops.push("N"), (" ", false));
        assert_eq!(stops.push("X E"), ("ENX", false));
        assert_eq!(stops.push("ND more"), (" ", true));
        let mut stops = StopTexts::new(&["é!".into()]);
        assert_eq!(stops.push("xé"), ("x", false));
        assert_eq!(stops.finish(), "é");
        assert_eq!(StopTexts::new(&[]).push("all"), ("all", false));
    }
}
