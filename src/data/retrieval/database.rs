//! The chunks of a database, and the search for those that are nearest to a query.

use super::terms::Terms;
use super::vectors::Vectors;
use super::{ChunkEmbedder, Chunking, CompareConfig, DatabaseConfig};
use crate::data::Shape;
use crate::data::text::ids::Ids;
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::nn::neighbours::{Neighbours, Retriever};
use crate::tokenizer::Tokenizer;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Number of chunks that are embedded at once.
const GROUP: usize = 64;

/// The identity of a document: a part of the SHA-256 of its tokens, so that copies of a document have the
/// same identity.
pub(super) type Identity = [u8; 16];

/// Returns the identities of all documents.
pub(super) fn identities(ids: &dyn Ids) -> Result<Vec<Identity>> {
    let documents = 0..ids.documents();
    let each = documents.map(|document| {
        let span = ids.span(document);
        let mut hash = Sha256::new();
        for id in ids.window(span.start, span.len())? {
            hash.update(id.to_le_bytes());
        }
        let mut identity = Identity::default();
        let length = identity.len();
        identity.copy_from_slice(&hash.finalize()[..length]);
        Ok(identity)
    });
    each.collect()
}

/// A chunk of the database.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Position of its first token.
    start: usize,
    /// End position of its document.
    end: usize,
    /// Index of its document.
    document: usize,
}

/// The search index over the chunks of a database.
enum Index {
    /// Index of the terms of each chunk.
    Terms(Terms),
    /// Embeddings of the chunks, and the encoder that embeds queries.
    Vectors(Vectors, Arc<dyn ChunkEmbedder>),
}

/// The documents in which neighbours are found.
pub struct Database {
    ids: Vec<i32>,
    chunks: Vec<Chunk>,
    documents: Vec<Identity>,
    config: CompareConfig,
    chunking: Chunking,
    tokenizer: Tokenizer,
    /// Changes with the content and with how chunks are compared.
    fingerprint: String,
    /// Built at the first search.
    index: OnceLock<Index>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Database of {} chunks, {}",
            self.chunks.len(),
            self.fingerprint
        )
    }
}

impl Database {
    /// Builds the database of these documents.
    ///
    /// # Errors
    /// If documents cannot be read, or there is only one, in which no part of a text may find another.
    pub fn new(
        ids: &dyn Ids,
        config: &DatabaseConfig,
        chunking: &Chunking,
        tokenizer: &Tokenizer,
    ) -> Result<Self> {
        if ids.documents() < 2 {
            return Err(Error::usage(
                "[data.retrieval] the database is a single document, but a text has no neighbours in its own document; separate documents with \
                 [data] documents, document_separator or field, or name several files",
            ));
        }
        let m = chunking.chunk;
        let spans = (0..ids.documents()).map(|document| (document, ids.span(document)));
        let chunks = spans.flat_map(|(document, span)| {
            let end = span.end;
            let chunk = move |start| Chunk {
                start,
                end,
                document,
            };
            span.step_by(m).map(chunk)
        });
        let chunks: Vec<Chunk> = chunks.collect();
        if chunks.len() >= u32::MAX as usize {
            return Err(Error::usage(
                "[data.retrieval] the database has too many chunks; use longer chunks",
            ));
        }
        let by = match (&config.compare, &chunking.embedder) {
            (CompareConfig::TfIdf(c), _) => format!("{c:?}"),
            (CompareConfig::Encoded(_), Some(embedder)) => embedder.fingerprint().to_string(),
            (CompareConfig::Encoded(_), None) => {
                return Err(Error::run(
                    "[data.retrieval] the run that embeds chunks is not open",
                ));
            }
        };
        Ok(Self {
            fingerprint: format!("{} {m} {} {by}", ids.fingerprint(), chunking.neighbours),
            ids: ids.window(0, ids.len())?,
            documents: identities(ids)?,
            chunks,
            config: config.compare.clone(),
            chunking: chunking.clone(),
            tokenizer: tokenizer.clone(),
            index: OnceLock::new(),
        })
    }

    /// Returns a string that changes with the content, the chunk and list sizes, and how chunks are compared.
    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the number of chunks.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether there are no chunks.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the tokens of a chunk and those that follow it in its document, at most `tokens` in all.
    pub(super) fn tokens(&self, chunk: u32, tokens: usize) -> &[i32] {
        let Chunk { start, end, .. } = self.chunks[chunk as usize];
        &self.ids[start..end.min(start + tokens)]
    }

    /// Returns the tokens of all chunks in this range.
    fn chunk_tokens(&self, range: Range<usize>) -> Vec<&[i32]> {
        let m = self.chunking.chunk;
        range.map(|chunk| self.tokens(chunk as u32, m)).collect()
    }

    /// Returns the embeddings of chunks.
    fn embedded(&self, by: &dyn ChunkEmbedder, chunks: &[&[i32]]) -> Result<Vec<f32>> {
        let text = |chunk: &&[i32]| -> String {
            let ids: Vec<u32> = chunk.iter().map(|id| *id as u32).collect();
            self.tokenizer.decode(&ids)
        };
        let mut all = Vec::new();
        for group in chunks.chunks(GROUP) {
            let texts: Vec<String> = group.iter().map(text).collect();
            all.extend(by.embed(&texts)?);
        }
        Ok(all)
    }

    /// Returns the index, which is built at first use.
    ///
    /// # Errors
    /// If the run that computes embeddings cannot encode a chunk.
    fn index(&self) -> Result<&Index> {
        if let Some(made) = self.index.get() {
            return Ok(made);
        }
        let all = self.chunk_tokens(0..self.len());
        let made = match (&self.config, &self.chunking.embedder) {
            (CompareConfig::Encoded(_), Some(by)) => {
                let vectors = self.embedded(by.as_ref(), &all)?;
                Index::Vectors(Vectors::new(vectors, self.len()), by.clone())
            }
            (CompareConfig::TfIdf(c), _) => Index::Terms(Terms::new(&all, c.ngram)),
            (CompareConfig::Encoded(_), None) => {
                unreachable!("a database without what makes vectors is refused")
            }
        };
        Ok(self.index.get_or_init(|| made))
    }

    /// Returns the nearest chunks of each query, nearest first, excluding chunks of documents that the query
    /// is a part of.
    ///
    /// # Errors
    /// If the run that computes embeddings cannot encode a chunk.
    pub(super) fn search(&self, queries: &[(&[i32], Vec<Identity>)]) -> Result<Vec<Vec<u32>>> {
        let count = self.chunking.neighbours;
        let allowed = |own: &[Identity], chunk: usize| {
            !own.contains(&self.documents[self.chunks[chunk].document])
        };
        match self.index()? {
            Index::Terms(terms) => Ok(queries
                .par_iter()
                .map(|(query, own)| terms.nearest(query, count, &|chunk| allowed(own, chunk)))
                .collect()),
            Index::Vectors(vectors, by) => {
                let texts: Vec<&[i32]> = queries.iter().map(|(query, _)| *query).collect();
                let embedded = self.embedded(by.as_ref(), &texts)?;
                let width = (embedded.len() / queries.len().max(1)).max(1);
                Ok(embedded
                    .par_chunks(width)
                    .zip(queries)
                    .map(|(vector, (_, own))| {
                        vectors.nearest(vector, count, &|chunk| allowed(own, chunk))
                    })
                    .collect())
            }
        }
    }

    /// Returns an error if a run began with another database; `run` is the stored shape of the run's data.
    pub(crate) fn require_same(&self, run: Option<&Shape>) -> Result<()> {
        let before = run.and_then(|run| run.database.as_ref());
        match before.is_none_or(|before| *before == self.checksum()) {
            true => Ok(()),
            false => Err(Error::usage(
                "[data.retrieval] the database differs from the one that the run began with: its texts or the run that embeds chunks changed; \
                 restore them, or begin a new run",
            )),
        }
    }

    /// Returns the checksum of everything that neighbours depend on, as a run stores it.
    pub(crate) fn checksum(&self) -> String {
        hex(&Sha256::digest(&self.fingerprint))
    }
}

impl Retriever for Database {
    fn chunk(&self) -> usize {
        self.chunking.chunk
    }

    fn count(&self) -> usize {
        self.chunking.neighbours
    }

    fn retrieve(&self, chunk: &[i32], found: &mut Neighbours) {
        // A chunk that cannot be encoded has no neighbours.
        let lists = self.search(&[(chunk, Vec::new())]).unwrap_or_default();
        let chunks = lists.first().map(Vec::as_slice).unwrap_or_default();
        for place in 0..self.count() {
            let tokens = chunks
                .get(place)
                .map(|chunk| self.tokens(*chunk, found.width));
            found.push(tokens.unwrap_or_default());
        }
    }
}

/// Returns the indices of the `count` highest scores for which `allowed` is true, highest first; equal scores
/// keep their order.
pub(super) fn nearest(
    scores: impl Iterator<Item = Option<f32>>,
    count: usize,
    allowed: &dyn Fn(usize) -> bool,
) -> Vec<u32> {
    let mut best: Vec<(f32, u32)> = Vec::with_capacity(count + 1);
    for (chunk, score) in scores.enumerate() {
        let Some(score) = score.filter(|score| !score.is_nan()) else {
            continue;
        };
        let full = best.len() == count;
        if (full && best.last().is_some_and(|(worst, _)| score <= *worst)) || !allowed(chunk) {
            continue;
        }
        let place = best.partition_point(|(better, _)| *better >= score);
        best.insert(place, (score, chunk as u32));
        best.truncate(count);
    }
    best.into_iter().map(|(_, chunk)| chunk).collect()
}
