//! Splits documents into sentences, and locates the sentences of encoded documents.
//!
//! A line break ends a sentence. Within a line, a sentence ends after a word that ends in `.`, `!` or `?`
//! (possibly followed by closing quotes or brackets) if the next word does not begin with a lower-case
//! letter. After an abbreviation (`Mr.`, `e.g.`, a single letter) it continues. A separate `.`, `!` or `?`,
//! as in tokenized text, ends a sentence whatever follows, and open quotes close with it. `。！？` end a
//! sentence anywhere. A sentence keeps the blanks before it, so that the concatenated sentences are the text
//! again. There are only rules, no model: about as good as Punkt on news and encyclopedias; text without
//! capitals or punctuation is split at its lines.

use std::ops::Range;
use std::sync::Arc;

use super::cache::TokenCache;
use super::ids::Ids;
use crate::error::Result;

/// Abbreviations whose dot does not end a sentence.
const ABBREVIATIONS: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "vs", "etc", "vol", "fig", "inc", "ltd",
    "co", "corp", "gen", "col", "capt", "lt", "sgt", "rev", "hon", "gov", "sen", "rep", "mt", "ft",
    "dept", "approx", "ca", "cf", "al", "pp", "ed", "eds", "op", "jan", "feb", "mar", "apr", "jun",
    "jul", "aug", "sep", "sept", "oct", "nov", "dec",
];
const CLOSERS: &[char] = &['"', '\'', ')', ']', '}', '”', '’', '»'];
const OPENERS: &[char] = &['"', '\'', '(', '[', '{', '“', '‘', '«'];

/// Returns the sentences of a text in order; concatenated, they are the text. White space on its own belongs
/// to the sentence before it.
pub fn cut(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut from = 0;
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        for length in lengths(line) {
            end += length;
            let blank = text[end - length..end].trim().is_empty();
            match sentences.last_mut() {
                // White space alone is not a sentence.
                Some(last) if blank => *last = &text[from..end],
                _ if blank => {}
                _ => {
                    let start = if sentences.is_empty() {
                        0
                    } else {
                        end - length
                    };
                    sentences.push(&text[start..end]);
                    from = start;
                }
            }
        }
    }
    sentences
}

/// Returns the length in bytes of each sentence of a line.
fn lengths(line: &str) -> Vec<usize> {
    let words = words(line);
    let mut lengths = Vec::new();
    let mut from = 0;
    let mut quotes = 0;
    let mut i = 0;
    while i < words.len() {
        let word = &line[words[i].clone()];
        quotes += word.matches('"').count();
        let next = words.get(i + 1).map(|next| &line[next.clone()]);
        if ends(word, next) {
            // A separate punctuation mark takes the closing quotes and brackets after it along.
            while let Some(next) = words.get(i + 1) {
                let next = &line[next.clone()];
                let closes = matches!(next, "''" | ")" | "]") || next == "\"" && quotes % 2 == 1;
                if !closes {
                    break;
                }
                quotes += usize::from(next == "\"");
                i += 1;
            }
            lengths.push(words[i].end - from);
            from = words[i].end;
            quotes = 0;
        }
        i += 1;
    }
    if from < line.len() {
        lengths.push(line.len() - from);
    }
    lengths
}

/// Returns the runs of characters between blanks; Chinese and Japanese punctuation ends a word.
fn words(line: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in line.char_indices() {
        let begin = *start.get_or_insert(at);
        if c.is_whitespace() {
            if begin < at {
                words.push(begin..at);
            }
            start = None;
        } else if matches!(c, '。' | '！' | '？') {
            words.push(begin..at + c.len_utf8());
            start = None;
        }
    }
    if let Some(begin) = start {
        words.push(begin..line.len());
    }
    words
}

fn ends(word: &str, next: Option<&str>) -> bool {
    let Some(next) = next else { return false };
    if matches!(word, "." | "!" | "?") || word.ends_with(['。', '！', '？']) {
        return true;
    }
    let core = word.trim_end_matches(CLOSERS);
    let stem = core.trim_end_matches('.');
    let marked = core.ends_with(['!', '?']) || core.len() > stem.len();
    let small = next
        .trim_start_matches(OPENERS)
        .starts_with(char::is_lowercase);
    if !marked || small {
        return false;
    }
    let stem = stem.trim_start_matches(OPENERS);
    let abbreviated = stem.contains('.')
        || stem.chars().count() == 1 && stem.chars().all(char::is_alphabetic)
        || ABBREVIATIONS.contains(&stem.to_lowercase().as_str());
    core.ends_with(['!', '?']) || !abbreviated
}

/// The sentences of encoded documents.
pub struct Sentences {
    ids: Arc<dyn Ids>,
    /// Position of the first token of each sentence, and the end of the last one.
    starts: Vec<u64>,
    /// Index of the first sentence of each document, and the end of the last one.
    documents: Vec<u32>,
}

impl Sentences {
    /// Builds the sentences of a cache that has an entry for each sentence and an empty one after each
    /// document.
    pub fn of_cache(tokens: Arc<TokenCache>) -> Self {
        let mut starts = Vec::new();
        let mut documents = vec![0];
        for entry in 0..tokens.documents() {
            let span = tokens.span(entry);
            if span.is_empty() {
                documents.push(starts.len() as u32);
            } else {
                starts.push(span.start as u64);
            }
        }
        starts.push(tokens.len() as u64);
        documents.dedup();
        Self {
            ids: tokens,
            starts,
            documents,
        }
    }

    /// Builds the sentences of ids from the start of each sentence and the first sentence of each document.
    pub fn new(ids: Arc<dyn Ids>, mut starts: Vec<u64>, mut documents: Vec<u32>) -> Self {
        documents.push(starts.len() as u32);
        starts.push(ids.len() as u64);
        Self {
            ids,
            starts,
            documents,
        }
    }

    /// Returns the number of documents that have at least one sentence.
    pub fn documents(&self) -> usize {
        self.documents.len() - 1
    }

    /// Returns the range of sentences of a document.
    pub fn of_document(&self, document: usize) -> Range<usize> {
        self.documents[document] as usize..self.documents[document + 1] as usize
    }

    /// Returns the token range of some consecutive sentences.
    pub fn tokens(&self, sentences: Range<usize>) -> Range<usize> {
        self.starts[sentences.start] as usize..self.starts[sentences.end] as usize
    }

    /// Returns the ids in a token range.
    ///
    /// # Errors
    /// As for [`Ids::window`].
    pub fn ids(&self, places: Range<usize>) -> Result<Vec<i32>> {
        self.ids.window(places.start, places.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trimmed(text: &str) -> Vec<&str> {
        let sentences = cut(text);
        assert_eq!(sentences.concat(), text);
        sentences.into_iter().map(str::trim).collect()
    }

    #[test]
    fn tokenized_text() {
        let text = " = Lobster = \n \n It is blue . H. gammarus \" eats . \" It is 0 @.@ 7 kg . so it grows ! \n";
        assert_eq!(
            trimmed(text),
            [
                "= Lobster =",
                "It is blue .",
                "H. gammarus \" eats . \"",
                "It is 0 @.@ 7 kg .",
                "so it grows !"
            ]
        );
    }

    #[test]
    fn plain_text() {
        let text = "Dr. Wu met J. Li (e.g. Monday). \"Why?\" he asked. They left at 3.5 p.m. sharp.\n\n\nNew line\nWhat?! No.";
        assert_eq!(
            trimmed(text),
            [
                "Dr. Wu met J. Li (e.g. Monday).",
                "\"Why?\" he asked.",
                "They left at 3.5 p.m. sharp.",
                "New line",
                "What?!",
                "No."
            ]
        );
        assert_eq!(trimmed("你好。再见！"), ["你好。", "再见！"]);
        assert!(cut(" \n\t").is_empty() && cut("").is_empty());
    }
}
