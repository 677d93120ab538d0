//! Turns the files of `kind = "text"` into windows of token ids.
//!
//! Files are read as documents (`documents`), split (`split`), encoded once into caches (`texts`, `cache`)
//! keyed by the SHA-256 of the files and of the tokenizer, and cut into windows (`windows`). Each document is
//! followed by the tokenizer's end-of-text token or, if there is none, by a line break if it lacks one. A
//! single document is not followed by anything. Training reads only the cache.

use std::sync::Arc;

use super::cache::TokenCache;
use super::corpus_files;
use super::corpus_notes;
use super::encoding::Entries;
use super::ids::Ids;
use super::mixture::Mixture;
use super::texts::{self, TextCorpus};
use super::windows::{Layout, TextSource};
use crate::data::retrieval::NeighbourLists;
use crate::data::{
    Chunking, Data, Database, DatabaseConfig, PerSplit, Request, Shape, Source, Split, TextConfig,
    Tokenizers, Windows,
};
use crate::error::{Error, Result};
use crate::tokenizer::{Tokenizer, TokenizerConfig};

pub(super) fn prepare(config: &TextConfig, request: &Request) -> Result<Data> {
    let mut corpora = TextCorpus::each(config, request, config.windows == Windows::Documents)?;
    corpus_files::require_plain(config, request, &corpora)?;
    let tokenizer = texts::tokenizer(&mut corpora, request, TokenizerConfig::clone)?;
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
    let mut documents = 0;
    let retrieval = RetrievalCorpus::database_config(config, request);
    let mut database = None;
    for split in Split::ALL {
        if !corpora.iter().any(|texts| texts.has(split)) {
            continue;
        }
        // Training corpora are drawn from separately; held-out texts are joined.
        let corpora_in_all = corpora.len();
        let size = if split == Split::Train {
            1
        } else {
            corpora_in_all
        };
        let mut sources = Vec::new();
        for group in corpora.chunks_mut(size) {
            let encoded = texts::encoded(group, &tokenizer, split, entries, places.cache())?;
            // The length of the training text is checked when a run begins. A resumed run reads the same text, and an
            // evaluation reads a text shorter than a window as one partial window.
            if split != Split::Train || request.run_shape.is_none() {
                require_length(&encoded, config, split)?;
            }
            if size == corpora_in_all {
                *bytes_per_token.get_mut(split) =
                    bytes_per_scored_token(&encoded, &tokenizer, config.isolates_documents())?;
            }
            *tokens.get_mut(split) += encoded.len() as u64;
            if split == Split::Train {
                documents += encoded.documents() as u64;
            }
            let encoded: Arc<dyn Ids> = Arc::new(encoded);
            if let (Split::Train, Some(retrieval)) = (split, &retrieval) {
                let found = retrieval.database(&encoded, &tokenizer, entries)?;
                found.require_same(request.run_shape)?;
                database = Some(found);
            }
            let retrieving = database
                .as_ref()
                .map(|database| NeighbourLists::of(database, encoded.as_ref(), places.cache()));
            let source = TextSource::new(
                encoded,
                config.context,
                layout(config, split, seed),
                config.isolates_documents(),
                split,
            );
            sources.push(source.with_neighbours(retrieving.transpose()?));
        }
        *data.get_mut(split) = match (sources.len(), sources.pop()) {
            (1, Some(only)) => Some(Arc::new(only)),
            (_, last) => {
                sources.extend(last);
                Some(Arc::new(Mixture::new(sources, &config.weights, seed)))
            }
        };
    }
    let Some(train) = data.train else {
        return Err(Error::run("[data] there is no text to train on"));
    };
    let shape = Shape {
        database: database.as_ref().map(|database| database.checksum()),
        ..Shape::of_text(config.context, tokenizer.vocab_size())
    };
    Ok(Data {
        valid: data.valid,
        test: data.test,
        tokenizers: Tokenizers::single(tokenizer),
        bytes_per_token,
        tokens,
        documents,
        notes: corpus_notes::notes(&corpora),
        database,
        ..Data::new(train, shape)
    })
}

/// A text with a database in which its chunks have neighbours.
struct RetrievalCorpus<'a> {
    config: &'a TextConfig,
    of: &'a DatabaseConfig,
    request: &'a Request<'a>,
    chunking: &'a Chunking,
}

impl<'a> RetrievalCorpus<'a> {
    /// Returns the retrieval of a text with a database, for a model that reads neighbours.
    fn database_config(config: &'a TextConfig, request: &'a Request<'a>) -> Option<Self> {
        Some(Self {
            config,
            of: config.retrieval.as_ref()?,
            request,
            chunking: request.retrieval.as_ref()?,
        })
    }

    /// Builds the database from the files that its keys name, read in the same way as the text, or else from
    /// the training text.
    fn database(
        &self,
        train: &Arc<dyn Ids>,
        tokenizer: &Tokenizer,
        entries: Entries,
    ) -> Result<Arc<Database>> {
        let Some(path) = &self.of.path else {
            return Database::new(train.as_ref(), self.of, self.chunking, tokenizer).map(Arc::new);
        };
        let config = TextConfig {
            path: path.clone(),
            weights: Vec::new(),
            valid_path: None,
            test_path: None,
            valid_fraction: Some(0.0),
            test_fraction: None,
            ..self.config.clone()
        };
        let whole = config.windows == Windows::Documents;
        let paths = ("retrieval.path", &config.path);
        let mut texts = TextCorpus::of_paths(&config, paths, self.request, whole)?;
        let cache = self.request.places.cache();
        let texts = std::slice::from_mut(&mut texts);
        let ids = texts::encoded(texts, tokenizer, Split::Train, entries, cache)?;
        Database::new(&ids, self.of, self.chunking, tokenizer).map(Arc::new)
    }
}

/// Returns which windows of a split are read.
fn layout(config: &TextConfig, split: Split, seed: u64) -> Layout {
    match (split, config.windows) {
        (Split::Valid | Split::Test, _) => match config.eval_stride {
            Some(stride) => Layout::Sliding { stride },
            None => Layout::Covering,
        },
        (Split::Train, Windows::Random) => Layout::Drawn { seed },
        (Split::Train, Windows::Contiguous | Windows::Documents) => Layout::Whole,
    }
}

/// Returns the bytes of text per scored token. The first token of a split is not scored, nor is that of a
/// document if attention is blocked between documents, since nothing precedes it (`windows`).
fn bytes_per_scored_token(
    tokens: &TokenCache,
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

fn require_length(tokens: &TokenCache, config: &TextConfig, split: Split) -> Result<()> {
    // Evaluation pads a partial window; training takes only whole ones.
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
