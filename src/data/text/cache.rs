//! Token ids on disk, read on demand: a text is encoded once and used by every run.
//!
//! `magic · bytes per id · tokens · documents · bytes of text · SHA-256 of the rest · ids · document starts`,
//! little-endian. A file is written under another name and renamed into place. It is only used if its length
//! and checksum are right; otherwise it is made again.
//!
//! Files are read and not memory-mapped: if another process truncates a mapped file, or a server takes it
//! away, the process dies with SIGBUS, and this program could not prevent that. With reads it is an error. A
//! file that is replaced stays readable, on a local file system and mostly over NFS. A file that is written
//! to is noticed by its length and modification time, and then by its checksum. Changes within one tick of
//! the file system's clock go unnoticed, but ids beyond those that were there at opening are never returned.

mod writer;

pub use writer::Writer;

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::digest;
use crate::error::{Error, Result};
use crate::files;

const MAGIC: &[u8; 8] = b"FWTOKEN1";
const HEADER: usize = 72;

/// Number of bytes read at a time; a multiple of the size of an id and of a start.
const BLOCK: usize = 1 << 20;

/// How long a process waits for another one that encodes the same text before it does so itself.
const LOCK_TIMEOUT: Duration = Duration::from_secs(6 * 3600);

/// An open token cache.
pub struct TokenCache {
    file: File,
    path: PathBuf,
    /// Stamp of the file when its checksum was last verified.
    stamp: Mutex<Stamp>,
    checksum: [u8; 32],
    wide: bool,
    len: usize,
    /// Position of the first token of each document.
    starts: Vec<u64>,
    text_bytes: u64,
    /// Highest id in the cache.
    highest: u32,
}

/// File metadata that reveals whether a file was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl From<Metadata> for Stamp {
    fn from(about: Metadata) -> Self {
        Self {
            bytes: about.len(),
            modified: about.modified().ok(),
        }
    }
}

impl TokenCache {
    /// Opens a cache file.
    ///
    /// # Errors
    /// If the file is damaged or not a cache; the caller makes it again.
    pub fn open(path: &Path) -> Result<Self> {
        files::require_regular(path)?;
        let mut file = File::open(path).map_err(Error::io("read", path))?;
        let about = file.metadata().map_err(Error::io("read", path))?;
        let bad = |why: &str| {
            Error::run(format!(
                "the token cache {} is damaged: {why}",
                path.display()
            ))
        };
        let mut header = [0; HEADER];
        file.read_exact(&mut header).map_err(|_| bad("no header"))?;
        if &header[..8] != MAGIC {
            return Err(bad("no header"));
        }
        let number = |at: usize| u64_at(&header, at);
        let (width, len, documents, text_bytes) = (number(8), number(16), number(24), number(32));
        let ids = len.checked_mul(width);
        let expected = ids
            .and_then(|n| n.checked_add(documents.checked_mul(8)?))
            .and_then(|n| n.checked_add(HEADER as u64));
        let (Some(ids), true) = (ids, expected == Some(about.len())) else {
            return Err(bad("wrong length"));
        };
        if !matches!(width, 2 | 4) {
            return Err(bad("wrong length"));
        }
        let (mut hash, mut highest) = (Sha256::new(), 0);
        let mut starts = Vec::new();
        let read = in_blocks(&file, HEADER as u64, ids, |block| {
            hash.update(block);
            highest = block
                .chunks_exact(width as usize)
                .map(id_of)
                .fold(highest, u32::max);
        });
        let read = read.and_then(|()| {
            in_blocks(&file, HEADER as u64 + ids, 8 * documents, |block| {
                hash.update(block);
                starts.extend(block.chunks_exact(8).map(|start| u64_at(start, 0)));
            })
        });
        read.map_err(Error::io("read", path))?;
        let mut sum = [0; 32];
        sum.copy_from_slice(&header[40..]);
        if hash.finalize().as_slice() != sum {
            return Err(bad("wrong checksum"));
        }
        if !starts.is_sorted() || starts.last().is_some_and(|start| *start > len) {
            return Err(bad("the documents are not in order"));
        }
        Ok(Self {
            file,
            path: path.to_path_buf(),
            stamp: Mutex::new(about.into()),
            checksum: sum,
            wide: width == 4,
            len: len as usize,
            starts,
            text_bytes,
            highest,
        })
    }

    /// Opens the cache at `path` if all its ids are below `vocab_size`; otherwise calls `make` to write it
    /// first. One process makes it while others that need the same wait.
    ///
    /// # Errors
    /// As for `make`; also if the file that it wrote cannot be opened.
    pub fn open_or_make(
        path: &Path,
        vocab_size: usize,
        make: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let found = || {
            Self::open(path)
                .ok()
                .filter(|t| (t.highest as usize) < vocab_size.max(1))
        };
        if let Some(tokens) = found() {
            return Ok(tokens);
        }
        // Without locks, two processes may make the same file; the later one replaces it.
        let lock = path
            .parent()
            .and_then(|folder| std::fs::create_dir_all(folder).ok())
            .and_then(|()| files::open_lock(&path.with_extension("lock")).ok());
        if let Some(lock) = &lock
            && files::lock_within(lock, LOCK_TIMEOUT).is_ok()
            && let Some(tokens) = found()
        {
            return Ok(tokens);
        }
        make()?;
        Self::open(path)
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of documents.
    pub fn documents(&self) -> usize {
        self.starts.len()
    }

    /// Returns the token range of a document.
    pub fn span(&self, document: usize) -> std::ops::Range<usize> {
        let start = |document: usize| self.starts.get(document).map(|start| *start as usize);
        let Some(first) = start(document) else {
            unreachable!("document {document} of {}", self.documents())
        };
        first..start(document + 1).unwrap_or(self.len)
    }

    /// Returns the checksum of the content, in hexadecimal.
    pub fn fingerprint(&self) -> String {
        digest::hex(&self.checksum)
    }

    /// Returns the number of bytes of the encoded text.
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Returns tokens `from..from + count`.
    ///
    /// # Errors
    /// If the file can no longer be read or has changed.
    pub fn window(&self, from: usize, count: usize) -> Result<Vec<i32>> {
        let inside = from.checked_add(count).is_some_and(|end| end <= self.len);
        assert!(inside, "{count} tokens from {from} of {}", self.len);
        let width = if self.wide { 4 } else { 2 };
        let mut bytes = vec![0; count * width];
        read_at(&self.file, &mut bytes, (HEADER + from * width) as u64)
            .map_err(|e| self.changed(&e.to_string()))?;
        self.require_unchanged()?;
        let ids = bytes.chunks_exact(width).map(id_of);
        ids.map(|id| match id <= self.highest {
            true => Ok(id as i32),
            false => Err(self.changed("it contains an unexpected id")),
        })
        .collect()
    }

    /// Returns the index of the document that token `at` belongs to.
    pub fn document(&self, at: usize) -> usize {
        let begun = self.starts.partition_point(|start| *start <= at as u64);
        begun.saturating_sub(1)
    }

    /// Returns an error if the file has changed since it was opened.
    fn require_unchanged(&self) -> Result<()> {
        let about = self
            .file
            .metadata()
            .map_err(|e| self.changed(&e.to_string()))?;
        let now = Stamp::from(about);
        let mut known = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == now {
            return Ok(());
        }
        let mut hash = Sha256::new();
        let len = now.bytes.saturating_sub(HEADER as u64);
        in_blocks(&self.file, HEADER as u64, len, |block| hash.update(block))
            .map_err(|e| self.changed(&e.to_string()))?;
        if now.bytes != known.bytes || hash.finalize().as_slice() != self.checksum {
            return Err(self.changed("its content changed"));
        }
        // Only its modification time has changed.
        *known = now;
        Ok(())
    }

    fn changed(&self, why: &str) -> Error {
        Error::run(format!(
            "the token cache {} was changed by another process while it was read: {why}; continue the run to create it again",
            self.path.display()
        ))
    }
}

/// Calls `each` for `len` bytes from position `at`, block by block.
fn in_blocks(file: &File, mut at: u64, len: u64, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut block = vec![0; len.min(BLOCK as u64) as usize];
    let end = at + len;
    while at < end {
        let part = &mut block[..(end - at).min(BLOCK as u64) as usize];
        read_at(file, part, at)?;
        each(part);
        at += part.len() as u64;
    }
    Ok(())
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => (bytes, at) = (&mut bytes[n..], at + n as u64),
        }
    }
    Ok(())
}

/// Decodes an id of two or four bytes.
fn id_of(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |id, byte| id << 8 | u32::from(*byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests;
