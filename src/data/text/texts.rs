//! The text of an experiment's files, one document after the other.
//!
//! Files are read each time they are needed, so that a corpus may be larger than memory: once to count where fractions cut
//! them, once for a tokenizer, once for the tokens of each split. A file that is one document comes in parts. A tokenizer that
//! is trained has whole documents in memory, up to `MAX_TRAINING_BYTES` bytes of them.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::cache::TokenCache;
use super::corpus_files;
use super::encoding::{Encoding, Entries};
use super::encoding_errors;
use crate::data::files::documents::{self, DocumentFormat};
use crate::data::split::{SplitCursor, Unit};
use crate::data::{Paths, PerSplit, Request, Split, TextConfig};
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::tokenizer::{Tokenizer, TokenizerConfig, utf8};

/// Maximum number of bytes of text that a tokenizer is trained on; of a larger corpus only every second document is used, or
/// every fourth, and so on.
const MAX_TRAINING_BYTES: usize = 1 << 30;

/// The files of an experiment, read when they are needed.
pub(in crate::data) struct TextCorpus<'a> {
    config: &'a TextConfig,
    unit: Unit,
    reading: DocumentFormat,
    pub(super) files: PerSplit<Vec<PathBuf>>,
    /// Notes about files that are left out.
    pub(in crate::data) notes: Vec<String>,
    /// Hash that changes with every byte of every file and with how files are read and split.
    key: String,
    /// Where the training files are cut, once they have been counted.
    cut: Option<SplitCursor>,
}

impl<'a> TextCorpus<'a> {
    /// Finds the files. Fractions count whole documents if `whole`.
    pub(in crate::data) fn find(
        config: &'a TextConfig,
        request: &Request,
        whole: bool,
    ) -> Result<Self> {
        Self::of_paths(config, ("path", &config.path), request, whole)
    }

    /// Finds the corpora that have `weights`, or all paths as one corpus. Validation and test files belong to the first one.
    pub(super) fn each(
        config: &'a TextConfig,
        request: &Request,
        whole: bool,
    ) -> Result<Vec<Self>> {
        if config.weights.is_empty() {
            return Ok(vec![Self::find(config, request, whole)?]);
        }
        let paths = config.path.0.iter().enumerate();
        paths
            .map(|(number, path)| {
                let path = Paths(vec![path.clone()]);
                let mut texts = Self::of_paths(config, ("path", &path), request, whole)?;
                if number > 0 {
                    texts.files.valid.clear();
                    texts.files.test.clear();
                }
                Ok(texts)
            })
            .collect()
    }

    /// Like [`Texts::find`], with training paths under a given key of `[data]`.
    pub(super) fn of_paths(
        config: &'a TextConfig,
        train: (&str, &Paths),
        request: &Request,
        whole: bool,
    ) -> Result<Self> {
        let bytes = match (&request.saved_tokenizers.text, request.tokenizer) {
            (Some(saved), _) => saved.is_bytes(),
            (None, tokenizer) => tokenizer.is_some_and(TokenizerConfig::is_bytes),
        };
        let found = corpus_files::find(config, train, request)?;
        let mut reading = config.reading(bytes);
        reading.plain |= request.is_from_earlier_version();
        let unit = match (whole, bytes) {
            (true, _) => Unit::Documents,
            (false, true) => Unit::Bytes,
            (false, false) => Unit::Characters,
        };
        Ok(Self {
            key: corpus_files::key(config, &found.files, &reading, unit)?,
            config,
            unit,
            reading,
            files: found.files,
            notes: found.notes,
            cut: None,
        })
    }

    /// Returns where the training files are cut into splits; the files are read and counted at first use.
    fn cut(&mut self) -> Result<SplitCursor> {
        if let Some(cut) = self.cut {
            return Ok(cut);
        }
        let (valid, test) = self.config.fractions();
        let mut total = 0;
        documents::parts(&self.files.train, &self.reading, |part, ends| {
            if ends || self.unit != Unit::Documents {
                total += self.unit.count(&part);
            }
            Ok(())
        })?;
        let cut = SplitCursor::new(total, self.unit, valid, test)?;
        self.cut = Some(cut);
        Ok(cut)
    }

    /// Calls `each` for the documents of a split.
    fn for_each_document(
        &mut self,
        split: Split,
        mut each: impl FnMut(Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut whole = Vec::new();
        self.parts(split, |part, ends| {
            documents::join(&mut whole, part);
            match ends {
                true => each(std::mem::take(&mut whole)),
                false => Ok(()),
            }
        })
    }

    /// Calls `each` for the parts of the documents of a split, and tells it whether the part ends its document.
    fn parts(
        &mut self,
        split: Split,
        mut each: impl FnMut(Vec<u8>, bool) -> Result<()>,
    ) -> Result<()> {
        let fractions = self.config.fractions();
        let share = match split {
            Split::Train => 1.0,
            Split::Valid => fractions.0,
            Split::Test => fractions.1,
        };
        if share > 0.0 && fractions == (0.0, 0.0) {
            documents::parts(&self.files.train, &self.reading, &mut each)?;
        } else if share > 0.0 {
            let mut cut = self.cut()?;
            let mut open = false;
            documents::parts(&self.files.train, &self.reading, |part, ends| {
                let mut parts = cut.split_document(part, ends);
                let part = std::mem::take(parts.get_mut(split));
                let nothing = part.is_empty() && !(open && ends);
                open = !ends && (open || !part.is_empty());
                match nothing {
                    true => Ok(()),
                    false => each(part, ends),
                }
            })?;
        }
        match split {
            Split::Train => Ok(()),
            Split::Valid | Split::Test => {
                documents::parts(self.files.get(split), &self.reading, each)
            }
        }
    }

    /// Returns the files that a split is cut from or consists of, in reading order, and how they are read.
    pub(super) fn files_of(&self, split: Split) -> (Vec<PathBuf>, &DocumentFormat) {
        let (valid, test) = self.config.fractions();
        let cut = match split {
            Split::Train => true,
            Split::Valid => valid > 0.0,
            Split::Test => test > 0.0,
        };
        let mut files = match cut {
            true => self.files.train.clone(),
            false => Vec::new(),
        };
        if split != Split::Train {
            files.extend(self.files.get(split).iter().cloned());
        }
        (files, &self.reading)
    }

    /// Returns the documents of a split, all in memory.
    pub(in crate::data) fn documents(&mut self, split: Split) -> Result<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        self.for_each_document(split, |document| {
            all.push(document);
            Ok(())
        })?;
        Ok(all)
    }

    pub(in crate::data) fn has(&self, split: Split) -> bool {
        let (valid, test) = self.config.fractions();
        match split {
            Split::Train => true,
            Split::Valid => valid > 0.0 || !self.files.valid.is_empty(),
            Split::Test => test > 0.0 || !self.files.test.is_empty(),
        }
    }

    /// Returns the tokenizer of the run, or one built from `[tokenizer]` as changed by `config`. A trained tokenizer is kept
    /// beside the token caches, since training may take longer than encoding.
    pub(in crate::data) fn tokenizer(
        &mut self,
        request: &Request,
        config: impl Fn(&TokenizerConfig) -> TokenizerConfig,
    ) -> Result<Tokenizer> {
        tokenizer(std::slice::from_mut(self), request, config)
    }

    /// Returns the tokens of a split from their cache, creating it if necessary.
    pub(in crate::data) fn encoded(
        &mut self,
        tokenizer: &Tokenizer,
        split: Split,
        entries: Entries,
        cache: &Path,
    ) -> Result<TokenCache> {
        encoded(std::slice::from_mut(self), tokenizer, split, entries, cache)
    }
}

/// Joins the keys of all corpora.
fn keys(corpora: &[TextCorpus]) -> String {
    let keys: Vec<&str> = corpora.iter().map(|texts| texts.key.as_str()).collect();
    keys.join(" ")
}

/// See [`Texts::tokenizer`].
pub(super) fn tokenizer(
    corpora: &mut [TextCorpus],
    request: &Request,
    config: impl Fn(&TokenizerConfig) -> TokenizerConfig,
) -> Result<Tokenizer> {
    let config = match (&request.saved_tokenizers.text, request.tokenizer) {
        (Some(saved), _) => return Ok(saved.clone()),
        (None, Some(tokenizer)) => config(tokenizer),
        (None, None) => {
            return Err(Error::usage("[data] kind = \"text\" needs a [tokenizer]"));
        }
    };
    let places = request.places;
    if !config.is_trained() {
        let found = config.with_path(|path| places.resolve(path))?;
        return Tokenizer::build(&found, &[]);
    }
    let description = serde_json::to_string(&config).map_err(|e| Error::run(e.to_string()))?;
    let key = Sha256::digest(format!("tokenizer 1 {} {description}", keys(corpora)));
    let path = places
        .cache()
        .join(format!("tokenizer-{}.json", &hex(&key)[..32]));
    if let Ok(tokenizer) = Tokenizer::load(&path) {
        return Ok(tokenizer);
    }
    let train = tokenizer_documents(corpora, MAX_TRAINING_BYTES)?;
    let mut train = train.iter().map(|d| utf8(d)).collect::<Result<Vec<_>>>()?;
    if train.len() > 1 && config.separates_by_line() {
        // The text that will separate the documents.
        train.push("\n");
    }
    let tokenizer = Tokenizer::build(&config, &train)?;
    if !config.trains_at_once() {
        places.create_cache()?;
        tokenizer.save(&path)?;
    }
    Ok(tokenizer)
}

/// Returns the documents to train a tokenizer on: all of them, or every 2ᵏ-th if together they have more than `most` bytes.
fn tokenizer_documents(corpora: &mut [TextCorpus], most: usize) -> Result<Vec<Vec<u8>>> {
    let mut kept: Vec<(usize, Vec<u8>)> = Vec::new();
    let (mut every, mut number, mut bytes) = (1, 0, 0);
    for texts in corpora {
        texts.for_each_document(Split::Train, |document| {
            if number % every == 0 {
                bytes += document.len();
                kept.push((number, document));
            }
            while bytes > most && kept.len() > 1 {
                every *= 2;
                kept.retain(|(number, _)| number % every == 0);
                bytes = kept.iter().map(|(_, document)| document.len()).sum();
            }
            number += 1;
            Ok(())
        })?;
    }
    Ok(kept.into_iter().map(|(_, document)| document).collect())
}

/// See [`Texts::encoded`].
pub(super) fn encoded(
    corpora: &mut [TextCorpus],
    tokenizer: &Tokenizer,
    split: Split,
    entries: Entries,
    cache: &Path,
) -> Result<TokenCache> {
    let how = match entries {
        Entries::Documents(end) if end == tokenizer.end_of_text() => String::new(),
        other => format!(" {other:?}"),
    };
    let description = format!(
        "tokens 1 {} {} {}{how}",
        keys(corpora),
        split.name(),
        tokenizer.fingerprint()
    );
    let path = cache.join(format!(
        "{}-{}.tokens",
        split.name(),
        &hex(&Sha256::digest(description))[..32]
    ));
    TokenCache::open_or_make(&path, tokenizer.vocab_size(), || {
        let separated = corpora.iter().any(|texts| texts.unit == Unit::Documents);
        let mut encoding = Encoding::new(&path, tokenizer, entries, separated)?;
        let mut encode = || -> Result<()> {
            for texts in corpora.iter_mut() {
                // Faults of a file itself already name it.
                texts.parts(split, |part, ends| {
                    encoding
                        .add(part, ends)
                        .map_err(|e| encoding_errors::with_split(e, split))
                })?;
            }
            Ok(())
        };
        let made = encode();
        let made = made.and_then(|()| {
            encoding
                .finish()
                .map_err(|e| encoding_errors::with_split(e, split))
        });
        made.map_err(|error| encoding_errors::with_location(error, corpora, tokenizer, split))
    })
}
