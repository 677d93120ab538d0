//! Converts text to token ids and back: characters, bytes, words, trained subwords, pretrained files.
//!
//! A tokenizer of any kind IS one file in the Hugging Face `tokenizers` JSON format: every
//! constructor writes that file and reads it back. So a run saves exactly what it used, and Python can load it.
//! Characters and bytes are encoded without the library, with the same ids as it would give.
//!
//! Batching, padding and document boundaries are not handled here but in `data`.

mod bpe;
mod bytes;
mod chars;
pub mod chat;
mod config;
mod format;
mod frame;
pub mod hf;
mod languages;
mod layout;
mod likelihood;
mod long_text;
mod marks;
mod merges;
pub mod offsets;
mod pieces;
mod pretrained;
pub mod sentinels;
mod spelling;
mod template;
mod unigram;
mod validate;
mod vocabulary;
mod word;
mod word_counts;
mod wordpiece;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::error::{Error, Result};
use crate::files;

pub use bpe::BpeConfig;
pub use bytes::ByteConfig;
pub use chars::CharConfig;
pub use chat::ChatTemplate;
pub use config::{KINDS, Kind, TokenizerConfig};
pub use frame::{Frame, USER_MASK};
pub use layout::SpecialTokenLayout;
pub use marks::{MarkNames, Marks, TextMarks};
pub use pretrained::{PRETRAINED_FILES, PretrainedConfig};
pub use template::TokenFraming;
pub use unigram::UnigramConfig;
pub use word::WordConfig;
pub use wordpiece::WordpieceConfig;

/// A tokenizer that is ready to use. Cloning is cheap.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    /// The file, byte for byte.
    json: Vec<u8>,
    engine: Engine,
    vocab_size: usize,
    end_of_text: Option<u32>,
    /// The tokens that begin a target, end it, separate it from its source, pad, and name its language.
    marks: [Option<u32>; 5],
    /// Ids of special tokens, in ascending order.
    specials: Vec<u32>,
    /// Messages to the user about how the files were read.
    notes: Vec<String>,
    /// Made at first use.
    spelling: OnceLock<spelling::Spelling>,
    /// The tokens that the file puts around texts, found at first use.
    edges: OnceLock<Option<SpecialTokenLayout>>,
    /// The library's tokenizer for characters and bytes, made at first use.
    offsets: OnceLock<offsets::Offsets>,
}

enum Engine {
    Chars(chars::Chars),
    Bytes(bytes::Bytes),
    Library(Arc<tokenizers::Tokenizer>),
}

impl Tokenizer {
    /// Builds the tokenizer that `config` describes; kinds that are trained learn from `texts`, in order.
    ///
    /// # Errors
    /// If the vocabulary is too small for its alphabet, the training text is empty, or a file is not a
    /// tokenizer.
    pub fn build(config: &TokenizerConfig, texts: &[&str]) -> Result<Self> {
        let faults = config.faults();
        if !faults.is_empty() {
            return Err(Error::Invalid(
                faults.into_iter().map(crate::error::Fault::new).collect(),
            ));
        }
        if config.is_trained() && texts.iter().all(|t| t.is_empty()) {
            return Err(Error::usage(format!(
                "[data] path: the training text is empty: a {} tokenizer has nothing to learn from",
                config.kind()
            )));
        }
        let json = match config {
            TokenizerConfig::Char(c) => c.train(texts),
            TokenizerConfig::Byte(c) => c.build(),
            TokenizerConfig::Word(c) => c.train(texts)?,
            TokenizerConfig::Bpe(c) => c.train(texts)?,
            TokenizerConfig::Wordpiece(c) => c.train(texts)?,
            TokenizerConfig::Unigram(c) => c.train(texts)?,
            TokenizerConfig::Pretrained(c) => return c.build(),
        };
        Self::from_json(format::to_bytes(&json)?, Path::new("tokenizer.json"))
    }

    /// Makes a character tokenizer with exactly these characters, ids in their order; `end` also ends a
    /// text.
    ///
    /// # Errors
    /// If the alphabet is empty.
    pub fn of_characters(alphabet: &str, end: Option<char>) -> Result<Self> {
        let json = chars::of_alphabet(alphabet.chars(), end);
        Self::from_json(format::to_bytes(&json)?, Path::new("tokenizer.json"))
    }

    /// Makes a tokenizer with exactly these words, separated by blanks, after BERT's special tokens;
    /// `[UNK]` stands for any other word.
    ///
    /// # Errors
    /// None that the words could cause.
    pub fn of_words(words: &[&str]) -> Result<Self> {
        let json = vocabulary::of_words(&wordpiece::SPECIALS, words, "[UNK]");
        Self::from_json(format::to_bytes(&json)?, Path::new("tokenizer.json"))
    }

    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// If the file cannot be read or is not a tokenizer.
    pub fn load(path: &Path) -> Result<Self> {
        let json = files::read(path)?;
        Self::from_json(json, path)
    }

    /// Reads the bytes of a tokenizer's file, or says why they are not a tokenizer; `path` is for messages.
    pub fn from_json(json: Vec<u8>, path: &Path) -> Result<Self> {
        let bad = |why: String| Error::run(format!("{} is not a tokenizer: {why}", path.display()));
        let value: serde_json::Value =
            serde_json::from_slice(&json).map_err(|e| bad(e.to_string()))?;
        if let Some(why) = validate::fault(&value) {
            return Err(bad(why));
        }
        let added = format::added_tokens(&value);
        let (engine, vocab_size) = if let Some(chars) = chars::Chars::read(&value, &added) {
            let size = chars.vocab_size();
            (Engine::Chars(chars), size)
        } else if let Some(bytes) = bytes::Bytes::read(&value, &added) {
            let size = bytes.vocab_size();
            (Engine::Bytes(bytes), size)
        } else {
            let mut library =
                tokenizers::Tokenizer::from_bytes(&json).map_err(|e| bad(e.to_string()))?;
            library.with_padding(None);
            let whole = library.with_truncation(None);
            whole.map_err(|e| bad(e.to_string()))?;
            let size = span(&library.get_vocab(true)).map_err(bad)?;
            (Engine::Library(Arc::new(library)), size)
        };
        if vocab_size == 0 {
            return Err(bad("its vocabulary is empty".into()));
        }
        let mut tokenizer = Inner {
            json,
            engine,
            vocab_size,
            end_of_text: None,
            marks: [None; 5],
            specials: Vec::new(),
            notes: Vec::new(),
            spelling: OnceLock::new(),
            edges: OnceLock::new(),
            offsets: OnceLock::new(),
        };
        tokenizer.end_of_text = format::end_of_text(&added, |token| tokenizer.id(token));
        tokenizer.marks = marks::find(&value, &added, |token| tokenizer.id(token));
        tokenizer.specials = marks::specials(&value, |token| tokenizer.id(token));
        Ok(Self(Arc::new(tokenizer)))
    }

    /// Encodes a text. Special tokens written in the text become their ids; nothing is added around it. A text of
    /// megabytes is encoded as by [`Self::encode_long`].
    ///
    /// # Errors
    /// If the vocabulary lacks a character or word and has no unknown token.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        match &self.0.engine {
            Engine::Chars(c) => c.encode(text),
            Engine::Bytes(b) => Ok(b.encode(text.as_bytes())),
            Engine::Library(_) if text.len() > LONG_TEXT => self.encode_long(text.as_bytes()),
            Engine::Library(l) => library_encode(l, text, false),
        }
    }

    /// Encodes a text with the tokens that the tokenizer's file puts around one text (BERT's `[CLS] … [SEP]`).
    ///
    /// # Errors
    /// The errors of [`Self::encode`].
    pub fn encode_framed(&self, text: &str) -> Result<Vec<u32>> {
        match &self.0.engine {
            Engine::Library(l) => library_encode(l, text, true),
            // The encoders of characters and bytes cannot add tokens around a text.
            Engine::Chars(_) | Engine::Bytes(_) => {
                let library = tokenizers::Tokenizer::from_bytes(&self.0.json);
                let library = library.map_err(|e| Error::run(e.to_string()))?;
                library_encode(&library, text, true)
            }
        }
    }

    /// Decodes ids to text. Ids outside the vocabulary and broken UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        match &self.0.engine {
            Engine::Chars(c) => c.decode(ids),
            Engine::Bytes(b) => b.decode(ids),
            Engine::Library(l) => l.decode(ids, false).unwrap_or_else(|_| "\u{FFFD}".into()),
        }
    }

    /// One more than the highest id.
    pub fn vocab_size(&self) -> usize {
        self.0.vocab_size
    }

    /// The token with this id, as written in the vocabulary.
    pub fn token(&self, id: u32) -> Option<String> {
        match &self.0.engine {
            Engine::Chars(c) => c.token(id),
            Engine::Bytes(b) => b.token(id),
            Engine::Library(l) => l.id_to_token(id),
        }
    }

    /// The id of a token, as written in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.0.id(token)
    }

    /// The token that ends a text or separates documents, if there is one.
    pub fn end_of_text(&self) -> Option<u32> {
        self.0.end_of_text
    }

    /// Whether tokens are bytes, so that any file is a text.
    pub fn is_bytes(&self) -> bool {
        matches!(self.0.engine, Engine::Bytes(_))
    }

    /// The bytes of the tokenizer's file.
    pub fn json(&self) -> &[u8] {
        &self.0.json
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        files::write(path, &self.0.json)
    }

    /// SHA-256 (hex) of the file without the tokens that it puts around a text, which [`Self::encode`] does not use.
    /// Equal fingerprints mean equal ids.
    pub fn fingerprint(&self) -> String {
        let bare = self.file().and_then(|mut file| {
            file["post_processor"] = serde_json::Value::Null;
            format::to_bytes(&file)
        });
        hex(&Sha256::digest(bare.as_ref().unwrap_or(&self.0.json)))
    }
}

impl Inner {
    fn id(&self, token: &str) -> Option<u32> {
        match &self.engine {
            Engine::Chars(c) => c.id(token),
            Engine::Bytes(b) => b.id(token),
            Engine::Library(l) => l.token_to_id(token),
        }
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = match self.0.engine {
            Engine::Chars(_) => "chars",
            Engine::Bytes(_) => "bytes",
            Engine::Library(_) => "library",
        };
        write!(f, "Tokenizer({engine}, {} tokens)", self.0.vocab_size)
    }
}

/// Number of unused ids that a vocabulary may have, besides one per token: published ones are padded to a round
/// number.
const MOST_GAPS: usize = 1 << 16;

/// One more than the highest id. A model has a row for every id below it, so a single stray id in a small file could
/// ask for any amount of memory.
fn span(vocab: &HashMap<String, u32>) -> Result<usize, String> {
    let highest = vocab.iter().max_by(|a, b| (a.1, a.0).cmp(&(b.1, b.0)));
    let Some((token, id)) = highest else {
        return Ok(0);
    };
    let most = (2 * vocab.len() + MOST_GAPS).min(i32::MAX as usize);
    if *id as usize >= most {
        return Err(format!(
            "the token `{token}` has the id {id}, but there are {} tokens; ids must be below {most}, without large gaps",
            vocab.len()
        ));
    }
    Ok(*id as usize + 1)
}

/// Texts longer than this are encoded in pieces; larger than any piece, so that a piece is not split again.
const LONG_TEXT: usize = 4 * pieces::PIECE;

fn library_encode(library: &tokenizers::Tokenizer, text: &str, framed: bool) -> Result<Vec<u32>> {
    library
        .encode_fast(text, framed)
        .map(|e| e.get_ids().to_vec())
        .map_err(|e| Error::run(format!("the tokenizer cannot encode the text: {e}")))
}

/// The bytes as text, or an error that gives the position of the first invalid byte.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| {
        Error::run(format!(
            "the text is not UTF-8 (byte {}); convert it, or use [tokenizer] kind = \"byte\"",
            e.valid_up_to()
        ))
    })
}
