//! The neighbours of all chunks of a text, found once and stored on disk beside the token caches for every
//! run.
//!
//! `magic · chunks · neighbours of each · SHA-256 of the rest · numbers of chunks of the database`,
//! little-endian. The name of a file is a function of the text, of the database and of how chunks are
//! compared. A damaged file is made again.

use super::Database;
use super::database::{Identity, identities};
use crate::data::text::ids::Ids;
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::files;
use crate::nn::neighbours::{Neighbours, Retriever};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const MAGIC: &[u8; 8] = b"FWNEIGH1";
const HEADER: usize = 56;
/// Marks a missing neighbour.
const NONE: u32 = u32::MAX;
/// How long a process waits for another one that makes the same lists before it makes them itself.
const LOCK_TIMEOUT: Duration = Duration::from_secs(6 * 3600);
/// Number of queries that are searched at once.
const GROUP: usize = 4096;

/// A text with the neighbours of its chunks.
#[derive(Clone, Debug)]
pub struct NeighbourLists {
    database: Arc<Database>,
    /// Indices of database chunks for each complete chunk of the text, padded with [`NONE`].
    lists: Arc<[u32]>,
}

impl NeighbourLists {
    /// Returns the neighbours of the chunks of `text`: from the folder `cache`, or found by search and stored
    /// there. One process makes them while others that need the same wait.
    ///
    /// # Errors
    /// If the text cannot be read or the folder cannot be written to.
    pub fn of(database: &Arc<Database>, text: &dyn Ids, cache: &Path) -> Result<Self> {
        let description = format!(
            "neighbours 1 {} {}",
            text.fingerprint(),
            database.fingerprint()
        );
        let name = hex(&Sha256::digest(description));
        let path = cache.join(format!("{}.neighbours", &name[..32]));
        let sizes = [text.len() / database.chunk(), database.count()];
        let made = |lists: Vec<u32>| Self {
            database: database.clone(),
            lists: lists.into(),
        };
        let found = || read(&path, sizes, database.len());
        if let Some(lists) = found() {
            return Ok(made(lists));
        }
        let unwritable = |e: std::io::Error| {
            Error::run(format!(
                "cannot write the neighbours {}: {e}; set FORMWORK_CACHE to another folder for caches",
                path.display()
            ))
        };
        std::fs::create_dir_all(cache).map_err(unwritable)?;
        // Without locks, two processes may make the same file; the later one replaces it.
        let lock = files::open_lock(&path.with_extension("lock")).ok();
        if let Some(lock) = &lock
            && files::lock_within(lock, LOCK_TIMEOUT).is_ok()
            && let Some(lists) = found()
        {
            return Ok(made(lists));
        }
        let lists = search(database, text)?;
        files::write(&path, &to_bytes(&lists, sizes))?;
        Ok(made(lists))
    }

    /// Returns the neighbours of the chunks of a window of `tokens` tokens, which must begin with a chunk. An
    /// incomplete chunk at the end of the text has no neighbours.
    pub fn of_window(&self, from: usize, tokens: usize) -> Neighbours {
        let (m, count) = (self.database.chunk(), self.database.count());
        assert!(from.is_multiple_of(m), "a window begins with a chunk");
        let mut found = Neighbours::empty(m, count);
        for chunk in from / m..(from + tokens) / m {
            let list = self.lists.get(chunk * count..(chunk + 1) * count);
            for place in 0..count {
                let number = list.map_or(NONE, |list| list[place]);
                let tokens = match number {
                    NONE => &[][..],
                    number => self.database.tokens(number, found.width),
                };
                found.push(tokens);
            }
        }
        found
    }
}

/// Finds the neighbours of all complete chunks of a text.
fn search(database: &Database, text: &dyn Ids) -> Result<Vec<u32>> {
    let (m, count) = (database.chunk(), database.count());
    let ids = text.window(0, text.len())?;
    let documents = identities(text)?;
    let of_chunk = |chunk: usize| -> Vec<Identity> {
        let (first, last) = (chunk * m, chunk * m + m - 1);
        (text.document(first)..=text.document(last))
            .map(|d| documents[d])
            .collect()
    };
    let queries = ids.chunks_exact(m).enumerate();
    let queries: Vec<(&[i32], Vec<Identity>)> = queries
        .map(|(chunk, tokens)| (tokens, of_chunk(chunk)))
        .collect();
    let mut lists = Vec::with_capacity(queries.len() * count);
    for group in queries.chunks(GROUP) {
        for list in database.search(group)? {
            let end = lists.len() + count;
            lists.extend(list);
            lists.resize(end, NONE);
        }
    }
    Ok(lists)
}

/// Returns the bytes of a file.
fn to_bytes(lists: &[u32], [chunks, count]: [usize; 2]) -> Vec<u8> {
    let numbers: Vec<u8> = lists
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let mut bytes = MAGIC.to_vec();
    bytes.extend((chunks as u64).to_le_bytes());
    bytes.extend((count as u64).to_le_bytes());
    bytes.extend(Sha256::digest(&numbers));
    bytes.extend(numbers);
    bytes
}

/// Reads the lists of a file; `None` unless it is complete and of these sizes.
fn read(path: &Path, [chunks, count]: [usize; 2], database: usize) -> Option<Vec<u32>> {
    files::require_regular(path).ok()?;
    let bytes = std::fs::read(path).ok()?;
    let (header, numbers) = bytes.split_at_checked(HEADER)?;
    let size = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
    let right = &header[..8] == MAGIC
        && [size(8), size(16)] == [chunks as u64, count as u64]
        && numbers.len() == 4 * chunks * count
        && Sha256::digest(numbers).as_slice() == &header[24..];
    let (numbers, _) = numbers.as_chunks::<4>();
    let numbers: Vec<u32> = numbers.iter().map(|n| u32::from_le_bytes(*n)).collect();
    let known = |number: &u32| *number == NONE || (*number as usize) < database;
    (right && numbers.iter().all(known)).then_some(numbers)
}
