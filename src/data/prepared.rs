//! Data that is ready for training and evaluation.

use super::{Captions, Database, PerSplit, Shape, Source, Split, Texts, Tokenizers};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Prepared data.
pub struct Data {
    /// Training examples.
    pub train: Arc<dyn Source>,
    /// Validation examples, all of them in order; `None` if the experiment has no such split.
    pub valid: Option<Arc<dyn Source>>,
    /// Test examples, all of them in order; `None` if the experiment has no such split.
    pub test: Option<Arc<dyn Source>>,
    /// The facts that a model is built for.
    pub shape: Shape,
    /// Tokenizers that turn text into ids; absent if the ids do not stand for text.
    pub tokenizers: Tokenizers,
    /// Average bytes of text per scored token: bits per byte = loss / ln 2 / this. `None` if tokens do not
    /// stand for text.
    pub bytes_per_token: PerSplit<Option<f64>>,
    /// Number of tokens in each split (of pairs, on both sides); 0 for generators, which have no end.
    pub tokens: PerSplit<u64>,
    /// Texts of the pairs of a held-out split, in the order of its examples.
    pub pairs: PerSplit<Option<Arc<Texts>>>,
    /// Captions or transcripts of a held-out split, if the model is to generate them.
    pub captions: PerSplit<Option<Arc<Captions>>>,
    /// Number of documents in the training text, if it is read as documents.
    pub documents: u64,
    /// Number of training pairs that are left out: an empty side, too long, too unequal in length.
    pub left_out: usize,
    /// Messages about examples that are not read.
    pub unread: Vec<String>,
    /// Number of texts in each split that are longer than the context and were cut.
    pub cut: PerSplit<usize>,
    /// Messages for the user about the files that were read.
    pub notes: Vec<String>,
    /// Database that finds the neighbours of texts, for a model that reads neighbours.
    pub database: Option<Arc<Database>>,
}

impl Data {
    /// Builds data with only training examples, which do not stand for text.
    pub fn new(train: Arc<dyn Source>, shape: Shape) -> Self {
        Self {
            train,
            valid: None,
            test: None,
            shape,
            tokenizers: Tokenizers::default(),
            bytes_per_token: PerSplit::default(),
            tokens: PerSplit::default(),
            pairs: PerSplit::default(),
            captions: PerSplit::default(),
            documents: 0,
            left_out: 0,
            unread: Vec::new(),
            cut: PerSplit::default(),
            notes: Vec::new(),
            database: None,
        }
    }

    /// Returns the source of a split.
    ///
    /// # Errors
    /// If the data has no such split; the message says how to get one.
    pub fn source(&self, split: Split) -> Result<&Arc<dyn Source>> {
        let source = match split {
            Split::Train => Some(&self.train),
            Split::Valid => self.valid.as_ref(),
            Split::Test => self.test.as_ref(),
        };
        source.ok_or_else(|| {
            let name = split.name();
            Error::usage(format!(
                "[data] has no {name} split; set {name}_path or {name}_fraction (generators: {name}_items)"
            ))
        })
    }
}
