//! From the files of `kind = "text"` to windows of token ids.
//!
//! Files are read as documents (`documents`), split (`split`), encoded once into caches (`cache`)
//! keyed by the SHA-256 of the files and of the tokenizer, and cut into windows (`windows`).
//! Documents are followed by the tokenizer's end-of-text token; without one, by a line break where
//! they lack it. A single document stands alone. Preparing reads a whole text into memory once;
//! training reads only the cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::cache::Tokens;
use super::encoding::{self, Entries};
use super::windows::{Layout, TextSource};
use crate::data::files::documents::{self, Reading};
use crate::data::split::{self, Parts, Unit};
use crate::data::{
    Data, Paths, PerSplit, Request, Shape, Source, Split, TextConfig, Tokenizers, Windows,
};
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::tokenizer::{Tokenizer, TokenizerConfig, utf8};

/// The files of an experiment, read when something must be made of them.
pub(in crate::data) struct Texts<'a> {
    config: &'a TextConfig,
    unit: Unit,
    reading: Reading,
    files: PerSplit<Vec<PathBuf>>,
    /// Changes with every byte of every file and with how it is read and split.
    key: String,
    parts: Option<Parts>,
}

impl<'a> Texts<'a> {
    /// Looks for the files. Fractions count whole documents when `whole` says so.
    pub(in crate::data) fn find(
        config: &'a TextConfig,
        request: &Request,
        whole: bool,
    ) -> Result<Self> {
        let places = request.places;
        let bytes = match (&request.saved.text, request.tokenizer) {
            (Some(saved), _) => saved.is_bytes(),
            (None, tokenizer) => tokenizer.is_some_and(TokenizerConfig::is_bytes),
        };
        let find = |paths: Option<&Paths>| -> Result<Vec<PathBuf>> {
            let paths = paths.map(|p| p.0.as_slice()).unwrap_or_default();
            let found = paths
                .iter()
                .map(|p| places.resolve(p))
                .collect::<Result<Vec<_>>>()?;
            documents::files(&found)
        };
        let files = PerSplit {
            train: find(Some(&config.path))?,
            valid: find(config.valid_path.as_ref())?,
            test: find(config.test_path.as_ref())?,
        };
        let reading = config.reading(bytes);
        let unit = match (whole, bytes) {
            (true, _) => Unit::Documents,
            (false, true) => Unit::Bytes,
            (false, false) => Unit::Characters,
        };
        let mut key = Sha256::new();
        key.update(format!("{reading:?} {unit:?} {:?}", config.fractions()));
        for split in Split::ALL {
            key.update(split.name());
            // Whether a file is read as JSON lines depends on its name.
            for (file, digest) in files
                .get(split)
                .iter()
                .zip(documents::digests(files.get(split))?)
            {
                key.update(file.extension().unwrap_or_default().as_encoded_bytes());
                key.update(digest);
            }
        }
        Ok(Self {
            config,
            unit,
            reading,
            files,
            key: hex(&key.finalize()),
            parts: None,
        })
    }

    /// The documents of each split, read at first use.
    pub(in crate::data) fn parts(&mut self) -> Result<&Parts> {
        if self.parts.is_none() {
            let reading = &self.reading;
            let all = documents::read(&self.files.train, reading)?;
            let (valid, test) = self.config.fractions();
            let mut parts = split::cut(all, self.unit, valid, test)?;
            parts
                .valid
                .extend(documents::read(&self.files.valid, reading)?);
            parts
                .test
                .extend(documents::read(&self.files.test, reading)?);
            self.parts = Some(parts);
        }
        Ok(self.parts.get_or_insert_with(Parts::default))
    }

    pub(in crate::data) fn has(&self, split: Split) -> bool {
        let (valid, test) = self.config.fractions();
        match split {
            Split::Train => true,
            Split::Valid => valid > 0.0 || !self.files.valid.is_empty(),
            Split::Test => test > 0.0 || !self.files.test.is_empty(),
        }
    }

    /// The tokenizer of the run, or one that is made as `config` turns `[tokenizer]`; one that is trained is kept
    /// beside the token caches, for it may take longer than encoding.
    pub(in crate::data) fn tokenizer(
        &mut self,
        request: &Request,
        config: impl Fn(&TokenizerConfig) -> TokenizerConfig,
    ) -> Result<Tokenizer> {
        let config = match (&request.saved.text, request.tokenizer) {
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
        let key = Sha256::digest(format!("tokenizer 1 {} {description}", self.key));
        let path = places
            .cache()
            .join(format!("tokenizer-{}.json", &hex(&key)[..32]));
        if let Ok(tokenizer) = Tokenizer::load(&path) {
            return Ok(tokenizer);
        }
        let train = &self.parts()?.train;
        let mut train = train.iter().map(|d| utf8(d)).collect::<Result<Vec<_>>>()?;
        if train.len() > 1 && config.separates_by_line() {
            // What will separate the documents.
            train.push("\n");
        }
        let tokenizer = Tokenizer::build(&config, &train)?;
        if !config.trains_at_once() {
            std::fs::create_dir_all(places.cache()).map_err(Error::io("create", places.cache()))?;
            tokenizer.save(&path)?;
        }
        Ok(tokenizer)
    }

    /// The tokens of a split, from its cache or into it.
    pub(in crate::data) fn encoded(
        &mut self,
        tokenizer: &Tokenizer,
        split: Split,
        entries: Entries,
        cache: &Path,
    ) -> Result<Tokens> {
        let how = match entries {
            Entries::Documents(end) if end == tokenizer.end_of_text() => String::new(),
            other => format!(" {other:?}"),
        };
        let description = format!(
            "tokens 1 {} {} {}{how}",
            self.key,
            split.name(),
            tokenizer.fingerprint()
        );
        let path = cache.join(format!(
            "{}-{}.tokens",
            split.name(),
            &hex(&Sha256::digest(description))[..32]
        ));
        Tokens::open_or_make(&path, tokenizer.vocab_size(), || {
            let separated = self.unit == Unit::Documents;
            let documents = self.parts()?.get(split);
            let separated = separated || documents.len() > 1;
            encoding::write(&path, documents, tokenizer, entries, separated)
                .map_err(|e| in_split(e, split))
        })
    }
}

pub(super) fn prepare(config: &TextConfig, request: &Request) -> Result<Data> {
    let mut texts = Texts::find(config, request, config.windows == Windows::Documents)?;
    let tokenizer = texts.tokenizer(request, |config| config.clone())?;
    let (places, seed) = (request.places, request.seed);
    let entries = Entries::Documents(tokenizer.end_of_text());
    if config.windows == Windows::Documents && tokenizer.end_of_text().is_none() {
        return Err(Error::usage(
            "[data] windows = \"documents\" needs a token between documents; set [tokenizer] end_of_text = \
             \"<|endoftext|>\"",
        ));
    }
    let mut data = PerSplit::<Option<Arc<dyn Source>>>::default();
    let mut bytes_per_token = PerSplit::default();
    let mut tokens = PerSplit::default();
    for split in Split::ALL {
        if texts.has(split) {
            let encoded = texts.encoded(&tokenizer, split, entries, places.cache())?;
            // The length of the training text is checked when a run begins. A resumed run reads the same text, and an
            // evaluation reads a text shorter than a window as one partial window.
            if split != Split::Train || request.run.is_none() {
                long_enough(&encoded, config, split)?;
            }
            *bytes_per_token.get_mut(split) =
                bytes_per_scored_token(&encoded, &tokenizer, config.blocked())?;
            *tokens.get_mut(split) = encoded.len() as u64;
            let layout = match (split, config.windows) {
                (Split::Valid | Split::Test, _) => match config.eval_stride {
                    Some(stride) => Layout::Sliding { stride },
                    None => Layout::Covering,
                },
                (Split::Train, Windows::Random) => Layout::Drawn { seed },
                (Split::Train, Windows::Contiguous | Windows::Documents) => Layout::Whole,
            };
            let source = TextSource::new(
                Arc::new(encoded),
                config.context,
                layout,
                config.blocked(),
                split,
            );
            *data.get_mut(split) = Some(Arc::new(source));
        }
    }
    let Some(train) = data.train else {
        return Err(Error::run("[data] there is no text to train on"));
    };
    let shape = Shape::of_text(config.context, tokenizer.vocab_size());
    Ok(Data {
        valid: data.valid,
        test: data.test,
        tokenizers: Tokenizers::one(tokenizer),
        bytes_per_token,
        tokens,
        ..Data::new(train, shape)
    })
}

/// Bytes of text behind the scored tokens, over their number: nothing precedes the first token of a split, or that of
/// a document where attention is blocked between documents, so that neither is scored (`windows`).
fn bytes_per_scored_token(
    tokens: &Tokens,
    tokenizer: &Tokenizer,
    blocked: bool,
) -> Result<Option<f64>> {
    let documents = match blocked {
        true => tokens.documents(),
        false => tokens.documents().min(1),
    };
    let spans = (0..documents).map(|number| tokens.span(number));
    let firsts: Vec<usize> = spans
        .filter(|span| !span.is_empty())
        .map(|span| span.start)
        .collect();
    let mut unscored = 0;
    for at in &firsts {
        for id in tokens.window(*at, 1)? {
            unscored += tokenizer.bytes_of(id as u32);
        }
    }
    let scored = tokens.len().saturating_sub(firsts.len());
    let bytes = (tokens.text_bytes() as usize).saturating_sub(unscored);
    Ok((scored > 0).then(|| bytes as f64 / scored as f64))
}

fn long_enough(tokens: &Tokens, config: &TextConfig, split: Split) -> Result<()> {
    // Evaluation fills up a partial window; training takes whole ones only.
    let least = if split == Split::Train {
        config.context + 1
    } else {
        2
    };
    if tokens.len() < least {
        return Err(Error::usage(format!(
            "[data] the {} split has {} token(s), and context = {} needs at least {least}; use more text, a larger \
             fraction or a smaller context",
            split.name(),
            tokens.len(),
            config.context
        )));
    }
    Ok(())
}

fn in_split(error: Error, split: Split) -> Error {
    match error {
        Error::Run(message) => Error::Run(format!("the {} text: {message}", split.name())),
        other => other,
    }
}
