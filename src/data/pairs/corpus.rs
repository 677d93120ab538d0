//! Reads the files of `kind = "pairs"` and encodes them to pairs of token ids.
//!
//! Files are read as [`Texts`] (`read`), split, and encoded once into a cache for each side, keyed by the SHA-256 of the files
//! and of the tokenizer. Fractions take pairs by a permutation that is the same for every seed, so that compared runs are
//! validated on the same pairs. Held-out texts stay in memory, since BLEU and ROUGE are computed on them; training texts only
//! while the tokenizer or the cache is made.

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::super::{Data, Paths, PerSplit, Request, Shape, Source, Split, View};
use super::framing::{Framing, framings, is_framed};
use super::notes::{self, PairNotes};
use super::read::{Fields, SplitFiles, Texts, read};
use super::source::{Limits, PairSource, Side, bytes_per_scored_token};
use super::tokenizers::tokenizers;
use super::{Files, PairsConfig};
use crate::data::DataSet;
use crate::data::files::documents;
use crate::data::parts::path_key;
use crate::data::split::SPLIT_SEED;
use crate::data::text::cache::{TokenCache, Writer};
use crate::digest::hex;
use crate::error::{Error, Result, printable};
use crate::rng::Permutation;
use crate::tokenizer::Tokenizer;

/// The files of an experiment, read when they are needed.
pub(super) struct Corpus<'a> {
    pub(super) config: &'a PairsConfig,
    /// Whether the files are read for a new run.
    is_new: bool,
    files: PerSplit<SplitFiles>,
    /// Hash that changes with every byte of every file and with how files are read and split.
    pub(super) key: String,
    texts: PerSplit<Option<Arc<Texts>>>,
}

/// One side of the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairSide {
    Source,
    Target,
}

impl<'a> Corpus<'a> {
    fn find(config: &'a PairsConfig, request: &Request) -> Result<Self> {
        let all = |paths: &Paths| {
            let found = paths.0.iter().map(|path| request.places.resolve(path));
            found.collect::<Result<Vec<_>>>()
        };
        let find = |split: Split, files: &Files<'_>| -> Result<SplitFiles> {
            Ok(SplitFiles {
                source: all(files.source)?,
                target: all(files.target)?,
                both: request.files(path_key(split), &all(files.both)?, |_| true)?,
            })
        };
        let wanted = config.files();
        let files = PerSplit {
            train: find(Split::Train, &wanted.train)?,
            valid: find(Split::Valid, &wanted.valid)?,
            test: find(Split::Test, &wanted.test)?,
        };
        let mut key = Sha256::new();
        let read_by = (&config.source_field, &config.target_field, &config.header);
        key.update(format!("pairs 2 {read_by:?} {:?}", config.fractions()));
        for split in Split::ALL {
            let found = files.get(split);
            for files in [&found.source, &found.target, &found.both] {
                key.update(format!("{} {}", split.name(), files.len()));
                for (file, digest) in files.iter().zip(documents::digests(files)?) {
                    // The format of a table depends on its name.
                    key.update(file.file_name().unwrap_or_default().as_encoded_bytes());
                    key.update(digest);
                }
            }
        }
        Ok(Self {
            config,
            is_new: request.run_shape.is_none(),
            files,
            key: hex(&key.finalize()),
            texts: PerSplit::default(),
        })
    }

    /// Returns where the tables of a split have their sides.
    fn fields(&self, split: Split) -> Fields {
        Fields {
            source: self.config.source_field.clone(),
            target: self.config.target_field.clone(),
            header: self.config.header.is_in(split),
            strict: self.is_new,
        }
    }

    /// Returns the texts of a split, which are read at first use.
    pub(super) fn texts(&mut self, split: Split) -> Result<Arc<Texts>> {
        if let Some(texts) = self.texts.get(split) {
            return Ok(Arc::clone(texts));
        }
        let own = self.files.get(split);
        let from_train = own.source.is_empty() && own.both.is_empty();
        if from_train || split == Split::Train {
            self.split_held_out()?;
        } else {
            let texts = read(own, &self.fields(split))?;
            *self.texts.get_mut(split) = Some(Arc::new(texts));
        }
        let texts = self.texts.get(split).as_ref().map(Arc::clone);
        let name = split.name();
        let few = format!(
            "[data] there are too few pairs for a {name} split; set {name}_source and {name}_target"
        );
        texts.ok_or_else(|| Error::usage(few))
    }

    /// Reads the training files and takes the held-out fractions from them.
    fn split_held_out(&mut self) -> Result<()> {
        let all = read(&self.files.train, &self.fields(Split::Train))?;
        self.config.require_texts(&all)?;
        let (valid, test) = self.config.fractions();
        let count = |share: f64| (all.len() as f64 * share).round() as usize;
        let (valid, test) = (count(valid), count(test));
        if valid + test == 0 {
            self.texts.train = Some(Arc::new(all));
            return Ok(());
        }
        let permutation = Permutation::new(SPLIT_SEED, 0, all.len() as u64);
        let mut parts = PerSplit::<Vec<usize>>::default();
        for pair in 0..all.len() {
            let place = permutation.at(pair as u64) as usize;
            let split = if place < valid {
                Split::Valid
            } else if place < valid + test {
                Split::Test
            } else {
                Split::Train
            };
            parts.get_mut(split).push(pair);
        }
        for (split, count) in [
            (Split::Train, 1),
            (Split::Valid, valid),
            (Split::Test, test),
        ] {
            if count > 0 {
                let part = all.at(parts.get(split));
                *self.texts.get_mut(split) = Some(Arc::new(part));
            }
        }
        Ok(())
    }
}

pub(super) fn prepare(config: &PairsConfig, request: &Request) -> Result<Data> {
    let mut corpus = Corpus::find(config, request)?;
    let tokenizers = tokenizers(&mut corpus, request)?;
    let (Some(reads), Some(writes)) = (&tokenizers.text, tokenizers.target_tokenizer()) else {
        return Err(Error::usage("[data] kind = \"pairs\" needs a [tokenizer]"));
    };
    // Two tokenizers over one vocabulary may share its embedding table.
    let separate = config.separate_vocabularies || tokenizers.has_two_vocabularies();
    let shape = Shape {
        context: config.max_len,
        vocab_size: writes.vocab_size(),
        source_vocab_size: separate.then(|| reads.vocab_size()),
        framed: is_framed([reads, writes], request.view).map_err(in_data_section)?,
        ..Shape::default()
    };
    let limits = Limits {
        max_len: config.max_len,
        max_target_len: config.longest_target(),
        truncate: config.truncate,
        max_ratio: config.max_ratio,
    };
    let framings = framings([reads, writes], request.view).map_err(in_data_section)?;
    let mut sources = PerSplit::<Option<Arc<dyn Source>>>::default();
    let mut pairs = PerSplit::default();
    let mut tokens = PerSplit::default();
    let mut bytes_per_token = PerSplit::default();
    let (mut left_out, mut notes, mut unread) = (0, Vec::new(), Vec::new());
    for split in Split::ALL {
        if !config.has(split) {
            continue;
        }
        let mut side = |tokenizer: &Tokenizer, which, framing: Framing| -> Result<Side> {
            Ok(Side {
                tokens: encoded(&mut corpus, tokenizer, split, which, request.places.cache())?,
                framing,
            })
        };
        let [source, target] = framings.clone();
        let source = side(reads, PairSide::Source, source)?;
        let target = side(writes, PairSide::Target, target)?;
        // Texts that are only encoded have no scored tokens.
        if *request.view != View::EncodedSeparately {
            *bytes_per_token.get_mut(split) =
                bytes_per_scored_token(&target, writes, config.longest_target())?;
        }
        let source = PairSource::new(source, target, limits, split);
        // An existing run has already been told, and all its texts may be in the cache.
        if corpus.is_new && source.has_gaps() {
            let texts = corpus.texts(split)?;
            let told = PairNotes {
                config,
                texts: &texts,
                split,
            };
            notes.extend(told.empty(&source));
            unread.extend(told.left_out(&source));
        }
        if source.is_empty() {
            return Err(empty(config, split, &source));
        }
        *tokens.get_mut(split) = source.tokens();
        if split == Split::Train {
            left_out = source.all() - source.len();
        } else {
            *pairs.get_mut(split) = Some(corpus.texts(split)?);
        }
        *sources.get_mut(split) = Some(Arc::new(source));
    }
    let Some(train) = sources.train else {
        return Err(Error::run("[data] there is no pair to train on"));
    };
    Ok(Data {
        valid: sources.valid,
        test: sources.test,
        tokenizers,
        bytes_per_token,
        tokens,
        pairs,
        left_out,
        notes,
        unread,
        ..Data::new(train, shape)
    })
}

/// Adds the section to faults of a vocabulary, so that the message can point to the place in the experiment file.
fn in_data_section(error: Error) -> Error {
    let Error::Invalid(mut faults) = error else {
        return error;
    };
    for fault in &mut faults {
        if !fault.message.starts_with('[') {
            fault.message.insert_str(0, "[data] ");
        }
    }
    Error::Invalid(faults)
}

fn empty(config: &PairsConfig, split: Split, source: &PairSource) -> Error {
    let (name, all) = (split.name(), source.all());
    Error::usage(if all == 0 && split == Split::Train {
        "[data] there is no pair to train on; use more texts".into()
    } else if all == 0 {
        format!("[data] the {name} split has no pair; use more texts, or a larger {name}_fraction")
    } else {
        format!(
            "[data] none of the {all} pair(s) is used: {}; raise the limits, or set truncate = true",
            notes::reasons(config, source, |_| None)
        )
    })
}

impl PairSide {
    pub(super) fn of<'t>(self, pair: &(&'t str, &'t str)) -> &'t str {
        match self {
            Self::Source => pair.0,
            Self::Target => pair.1,
        }
    }
}

/// Returns the tokens of one side of a split from their cache, creating it if necessary. The cache has no special tokens around
/// texts.
fn encoded(
    corpus: &mut Corpus<'_>,
    tokenizer: &Tokenizer,
    split: Split,
    side: PairSide,
    cache: &Path,
) -> Result<TokenCache> {
    let all = split == Split::Train && corpus.config.all_references;
    let key = format!(
        "pairs 1 {} {} {side:?} {all} {}",
        corpus.key,
        split.name(),
        tokenizer.fingerprint()
    );
    let name = &hex(&Sha256::digest(key))[..32];
    let path = cache.join(format!("{}-{name}.tokens", split.name()));
    TokenCache::open_or_make(&path, tokenizer.vocab_size(), || {
        let texts = corpus.texts(split)?;
        let mut writer = Writer::new(&path, tokenizer.vocab_size())?;
        // Texts are encoded in groups, to bound the ids in memory.
        for group in texts.examples(all).chunks(GROUP) {
            let encoded = group
                .par_iter()
                .map(|pair| {
                    let text = side.of(pair);
                    let ids = tokenizer.encode(text);
                    let ids = ids.map_err(|e| in_split(e, split, side, text))?;
                    Ok((ids, text.len()))
                })
                .collect::<Result<Vec<_>>>()?;
            for (ids, bytes) in encoded {
                writer.document(&ids, bytes)?;
            }
        }
        writer.finish()
    })
}

/// Number of texts that are encoded together.
const GROUP: usize = 1 << 16;

/// Number of characters of a text that an error shows.
const SHOWN: usize = 60;

fn in_split(error: Error, split: Split, side: PairSide, text: &str) -> Error {
    let side = match side {
        PairSide::Source => "sources",
        PairSide::Target => "targets",
    };
    let begins: String = text.chars().take(SHOWN).collect();
    let more = if begins.len() < text.len() {
        " …"
    } else {
        ""
    };
    match error {
        Error::Run(message) => Error::Run(format!(
            "the {} {side}, in `{}{more}`: {message}",
            split.name(),
            printable(&begins)
        )),
        other => other,
    }
}
