//! The `[tokenizer]` table of an experiment: one kind, each with its own keys.

pub use crate::kind::Kind;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BpeConfig, ByteConfig, CharConfig, PretrainedConfig, UnigramConfig, WordConfig, WordpieceConfig,
};
use crate::error::Result;

/// `[tokenizer]` of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TokenizerConfig {
    /// One token per character.
    Char(CharConfig),
    /// One token per byte.
    Byte(ByteConfig),
    /// One token per word of the training text.
    Word(WordConfig),
    /// Byte-level byte-pair encoding, trained on the training text.
    Bpe(BpeConfig),
    /// WordPiece, trained on the training text.
    Wordpiece(WordpieceConfig),
    /// A unigram language model over pieces, trained on the training text.
    Unigram(UnigramConfig),
    /// A tokenizer that was trained elsewhere.
    Pretrained(PretrainedConfig),
}

/// Every kind of tokenizer.
pub const KINDS: &[Kind] = &[
    Kind {
        kind: "char",
        summary: "one token per character of the training text",
        source: "Karpathy, char-rnn, 2015",
        example: "[tokenizer]\nkind = \"char\"",
    },
    Kind {
        kind: "byte",
        summary: "one token per byte: 256 tokens, no unknown input",
        source: "Graves, arXiv:1308.0850; Al-Rfou et al., arXiv:1808.04444",
        example: "[tokenizer]\nkind = \"byte\"",
    },
    Kind {
        kind: "word",
        summary: "one token per word between white space, <eos> for each end of line, <unk> for rare words",
        source: "Merity et al., arXiv:1609.07843; Dai et al., arXiv:1901.02860",
        example: "[tokenizer]\nkind = \"word\"\nmin_count = 3",
    },
    Kind {
        kind: "bpe",
        summary: "byte-level byte-pair encoding, trained on the training text",
        source: "Sennrich et al., arXiv:1508.07909; Radford et al. (GPT-2), 2019",
        example: "[tokenizer]\nkind = \"bpe\"\nvocab_size = 8192",
    },
    Kind {
        kind: "wordpiece",
        summary: "BERT's WordPiece, trained on the training text",
        source: "Schuster and Nakajima, 2012; Devlin et al., arXiv:1810.04805",
        example: "[tokenizer]\nkind = \"wordpiece\"\nvocab_size = 8192\nlowercase = true",
    },
    Kind {
        kind: "unigram",
        summary: "unigram language model over pieces, trained on the training text",
        source: "Kudo, arXiv:1804.10959",
        example: "[tokenizer]\nkind = \"unigram\"\nvocab_size = 8192",
    },
    Kind {
        kind: "pretrained",
        summary: "tokenizer.json, vocab.json + merges.txt, vocab.txt, or a SentencePiece model",
        source: "the Hugging Face tokenizers format",
        example: "[tokenizer]\nkind = \"pretrained\"\npath = \"tokenizers/gpt2\"",
    },
];

/// Maximum size of a trained vocabulary: four times the million tokens of XLM-V (arXiv:2301.10472), the largest
/// published.
const MOST_TOKENS: usize = 4_000_000;

impl TokenizerConfig {
    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Char(_) => "char",
            Self::Byte(_) => "byte",
            Self::Word(_) => "word",
            Self::Bpe(_) => "bpe",
            Self::Wordpiece(_) => "wordpiece",
            Self::Unigram(_) => "unigram",
            Self::Pretrained(_) => "pretrained",
        }
    }

    /// Whether building the tokenizer reads the training text.
    pub fn is_trained(&self) -> bool {
        !matches!(self, Self::Byte(_) | Self::Pretrained(_))
    }

    /// A character tokenizer without special tokens.
    pub fn characters() -> Self {
        Self::Char(CharConfig::default())
    }

    /// Whether tokens are bytes.
    pub fn is_bytes(&self) -> bool {
        matches!(self, Self::Byte(_))
    }

    /// Whether tokens are characters or bytes, with which a text works well enough without special tokens around it.
    pub fn has_plain_tokens(&self) -> bool {
        matches!(self, Self::Char(_) | Self::Byte(_))
    }

    /// Whether documents are separated by a line break, which must then be in the vocabulary, because there is no
    /// end-of-text token.
    pub fn separates_by_line(&self) -> bool {
        matches!(self, Self::Char(c) if c.end_of_text.is_none())
    }

    /// Whether training the tokenizer is as fast as reading its file.
    pub fn trains_at_once(&self) -> bool {
        matches!(self, Self::Char(_))
    }

    /// All semantic faults, each with its remedy; empty if the tokenizer can be built.
    pub fn faults(&self) -> Vec<String> {
        let (mut faults, wanted) = match self {
            Self::Char(c) => (c.faults(), None),
            Self::Byte(c) => (c.faults(), None),
            Self::Word(c) => (c.faults(), c.vocab_size),
            Self::Bpe(c) => (c.faults(), Some(c.vocab_size)),
            Self::Wordpiece(c) => (c.faults(), Some(c.vocab_size)),
            Self::Unigram(c) => (c.faults(), Some(c.vocab_size)),
            Self::Pretrained(c) => (c.faults(), None),
        };
        if let Some(size) = wanted.filter(|size| *size > MOST_TOKENS) {
            faults.push(format!(
                "[tokenizer] vocab_size = {size} must be at most {MOST_TOKENS}"
            ));
        }
        faults
    }

    /// The file that the tokenizer is read from, if any.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Pretrained(c) => Some(&c.path),
            Self::Char(_)
            | Self::Byte(_)
            | Self::Word(_)
            | Self::Bpe(_)
            | Self::Wordpiece(_)
            | Self::Unigram(_) => None,
        }
    }

    /// The same configuration, with the path of its file, if it has one, replaced by the result of `find`.
    ///
    /// # Errors
    /// The errors of `find`.
    pub fn with_path(&self, find: impl Fn(&Path) -> Result<PathBuf>) -> Result<Self> {
        match self {
            Self::Pretrained(c) => Ok(Self::Pretrained(PretrainedConfig {
                path: find(&c.path)?,
                ..c.clone()
            })),
            Self::Char(_)
            | Self::Byte(_)
            | Self::Word(_)
            | Self::Bpe(_)
            | Self::Wordpiece(_)
            | Self::Unigram(_) => Ok(self.clone()),
        }
    }
}
