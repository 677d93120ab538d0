//! `[data.retrieval]`: the database in which a retrieval-enhanced model finds neighbours of the chunks of its texts (Borgeaud et
//! al. 2022, RETRO, sections 2.1 to 2.3).
//!
//! The documents of the database are cut into chunks of m tokens, each from its own beginning. A query is a chunk of a text that
//! is read: m tokens side by side, of one document or several. Its neighbours are the k chunks that are nearest to it, each
//! with the m tokens that continue it in its document; none is of a document that the query has a part in, so that no text finds
//! itself. All chunks are compared: the search is exact.

mod compare;
mod database;
mod lists;
mod terms;
mod vectors;

use super::Paths;
use crate::error::Result;
pub use compare::{CompareConfig, EncodedConfig, TermsConfig};
pub use database::Database;
pub use lists::Retrieving;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The knobs of the database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseConfig {
    /// The files of the database, read as those of `[data]`; the training text when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Paths>,
    /// How chunks are compared.
    pub compare: CompareConfig,
}

impl DatabaseConfig {
    /// The same with every path as `place` gives it.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        Self {
            path: self.path.as_ref().map(|paths| paths.placed(&place)),
            compare: self.compare.with_paths(&place),
        }
    }

    /// All faults of its keys.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.compare.faults();
        let empty = |p: &Paths| p.0.is_empty() || p.0.iter().any(|p| p.as_os_str().is_empty());
        if self.path.as_ref().is_some_and(empty) {
            let rule = "[data.retrieval] `path` is empty; leave it out for the training text, or name a file";
            faults.push(rule.into());
        }
        faults
    }
}

/// What makes a vector of a chunk.
pub trait EmbedsChunks: Send + Sync {
    /// Identifies the encoder: two encoders with equal fingerprints make equal vectors.
    fn fingerprint(&self) -> &str;

    /// A vector for each of these texts, one after the other.
    ///
    /// # Errors
    /// A text that cannot be encoded.
    fn embed(&self, texts: &[String]) -> Result<Vec<f32>>;
}

/// The neighbours that a model reads.
#[derive(Clone)]
pub struct Chunking {
    /// Tokens of a chunk.
    pub chunk: usize,
    /// Neighbours of a chunk.
    pub neighbours: usize,
    /// What makes vectors, where chunks are compared by those of a run.
    pub embedder: Option<Arc<dyn EmbedsChunks>>,
}
