//! `[data.retrieval]`: the database in which a retrieval-enhanced model finds neighbours of the chunks of its
//! texts (Borgeaud et al. 2022, RETRO, sections 2.1 to 2.3).
//!
//! The documents of the database are divided into chunks of m tokens, starting at the beginning of each
//! document. A query is a chunk of a text that is read: m consecutive tokens, of one document or several. Its
//! neighbours are the k chunks that are nearest to it, each with the m tokens that follow it in its document.
//! None is from a document that the query is a part of, so that no text finds itself. All chunks are
//! compared: the search is exact.

mod compare;
mod database;
mod lists;
mod terms;
mod vectors;

use super::Paths;
use crate::error::Result;
pub use compare::{CompareConfig, EncodedConfig, TermsConfig};
pub use database::Database;
pub use lists::NeighbourLists;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The configuration of the database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseConfig {
    /// Files of the database, read like those of `[data]`; the training text when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Paths>,
    /// How chunks are compared.
    pub compare: CompareConfig,
}

impl DatabaseConfig {
    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        Self {
            path: self.path.as_ref().map(|paths| paths.placed(&place)),
            compare: self.compare.with_paths(&place),
        }
    }

    /// Returns all faults of its keys.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.compare.faults();
        let empty = |p: &Paths| p.0.is_empty() || p.0.iter().any(|p| p.as_os_str().is_empty());
        if self.path.as_ref().is_some_and(empty) {
            let rule = "[data.retrieval] `path` is empty; remove it to use the training text, or name a file";
            faults.push(rule.into());
        }
        faults
    }
}

/// An encoder that embeds chunks.
pub trait ChunkEmbedder: Send + Sync {
    /// Identifies the encoder: two encoders with equal fingerprints make equal vectors.
    fn fingerprint(&self) -> &str;

    /// Returns an embedding for each of these texts, one after the other.
    ///
    /// # Errors
    /// If a text cannot be encoded.
    fn embed(&self, texts: &[String]) -> Result<Vec<f32>>;
}

/// How texts are divided into chunks, and the number of neighbours that a model reads.
#[derive(Clone)]
pub struct Chunking {
    /// Length of a chunk in tokens.
    pub chunk: usize,
    /// Number of neighbours per chunk.
    pub neighbours: usize,
    /// Encoder of the chunks, if they are compared by the embeddings of a run.
    pub embedder: Option<Arc<dyn ChunkEmbedder>>,
}
