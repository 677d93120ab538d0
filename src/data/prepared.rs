//! Data that is ready for training and evaluation.

use super::{Captions, Database, PerSplit, Shape, Source, Split, Texts, Tokenizers};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Prepared data.
pub struct Data {
    /// The examples of training.
    pub train: Arc<dyn Source>,
    /// In order, whole; `None` when the experiment has no such split.
    pub valid: Option<Arc<dyn Source>>,
    /// In order, whole.
    pub test: Option<Arc<dyn Source>>,
    /// The facts that a model is built for.
    pub shape: Shape,
    /// Text to ids; `None` where no text stands behind the ids.
    pub tokenizers: Tokenizers,
    /// Bytes of text that a scored token stands for on average: bits per byte = loss / ln 2 / this. `None`
    /// where tokens stand for no text.
    pub bytes_per_token: PerSplit<Option<f64>>,
    /// Tokens of each split, of pairs on both sides; 0 for generators, which have no end.
    pub tokens: PerSplit<u64>,
    /// The texts behind the pairs of a held-out split, in the order of its examples.
    pub pairs: PerSplit<Option<Arc<Texts>>>,
    /// The captions or transcripts behind a held-out split, where these are to be written.
    pub captions: PerSplit<Option<Arc<Captions>>>,
    /// Documents of the text to train on, where it is read as documents.
    pub documents: u64,
    /// Training pairs that are not trained on: an empty side, too long, too unequal.
    pub left_out: usize,
    /// Messages about examples that are not read.
    pub unread: Vec<String>,
    /// Texts of each split that are longer than the context and lack their ends.
    pub cut: PerSplit<usize>,
    /// Messages for the user about the files that were read.
    pub notes: Vec<String>,
    /// What finds the neighbours of its texts, for a model that reads them.
    pub database: Option<Arc<Database>>,
}

impl Data {
    /// Data to train on, with nothing held out and no text behind it.
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

    /// The source of a split.
    ///
    /// # Errors
    /// The data has no such split; the message says how to get one.
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
