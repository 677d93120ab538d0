//! Token ids on disk, mapped into memory: encoded once, read by every run.
//!
//! `magic · bytes per id · tokens · documents · bytes of text · SHA-256 of the rest · ids ·
//! document starts`, little-endian. A file is written aside and renamed into place, and believed
//! only when its length and checksum are right; otherwise it is made again.

use std::io::{BufWriter, IntoInnerError, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::files::Partial;

const MAGIC: &[u8; 8] = b"FWTOKEN1";
const HEADER: usize = 72;

/// An open cache.
pub struct Tokens {
    map: Mmap,
    wide: bool,
    len: usize,
    documents: usize,
    text_bytes: u64,
}

impl Tokens {
    /// Opens a cache file.
    ///
    /// # Errors
    /// A damaged or foreign file; the caller makes it again.
    #[allow(unsafe_code)]
    pub fn open(path: &Path) -> Result<Self> {
        let file = std::fs::File::open(path).map_err(Error::io("read", path))?;
        // SAFETY: the map is read only, and caches are never changed in place: writers make a new
        // file and rename.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::io("map", path))?;
        let bad = |why: &str| {
            Error::run(format!(
                "the token cache {} is damaged: {why}",
                path.display()
            ))
        };
        if map.len() < HEADER || &map[..8] != MAGIC {
            return Err(bad("no header"));
        }
        let number = |at: usize| u64_at(&map, at);
        let (width, len, documents, text_bytes) = (number(8), number(16), number(24), number(32));
        let expected = len
            .checked_mul(width)
            .and_then(|n| n.checked_add(documents.checked_mul(8)?))
            .and_then(|n| n.checked_add(HEADER as u64));
        if !matches!(width, 2 | 4) || expected != Some(map.len() as u64) {
            return Err(bad("wrong length"));
        }
        if Sha256::digest(&map[HEADER..]).as_slice() != &map[40..72] {
            return Err(bad("wrong checksum"));
        }
        Ok(Self {
            wide: width == 4,
            len: len as usize,
            documents: documents as usize,
            text_bytes,
            map,
        })
    }

    /// Tokens in all.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Documents in all.
    pub fn documents(&self) -> usize {
        self.documents
    }

    /// Where the tokens of a document are.
    pub fn span(&self, document: usize) -> std::ops::Range<usize> {
        assert!(
            document < self.documents,
            "document {document} of {}",
            self.documents
        );
        let end = if document + 1 == self.documents {
            self.len
        } else {
            self.start(document + 1)
        };
        self.start(document)..end
    }

    /// Where a document begins.
    fn start(&self, document: usize) -> usize {
        let starts = HEADER + self.len * if self.wide { 4 } else { 2 };
        u64_at(&self.map, starts + 8 * document) as usize
    }

    /// Bytes of the text that was encoded.
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Token `at`.
    pub fn get(&self, at: usize) -> i32 {
        assert!(at < self.len, "token {at} of {}", self.len);
        if self.wide {
            let bytes = &self.map[HEADER + 4 * at..][..4];
            i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        } else {
            let bytes = &self.map[HEADER + 2 * at..][..2];
            i32::from(u16::from_le_bytes([bytes[0], bytes[1]]))
        }
    }

    /// Tokens `from..from + count`.
    pub fn window(&self, from: usize, count: usize) -> Vec<i32> {
        (from..from + count).map(|at| self.get(at)).collect()
    }

    /// The number of the document that token `at` belongs to.
    pub fn document(&self, at: usize) -> usize {
        let (mut low, mut high) = (0, self.documents);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.start(middle) <= at {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low.saturating_sub(1)
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Writes a cache, part by part. Several may write the same one at once.
pub struct Writer {
    path: PathBuf,
    file: BufWriter<Partial>,
    hash: Sha256,
    wide: bool,
    len: u64,
    starts: Vec<u64>,
    text_bytes: u64,
}

impl Writer {
    /// Begins a file for ids below `vocab_size`.
    ///
    /// # Errors
    /// A folder or file that cannot be made.
    pub fn new(path: &Path, vocab_size: usize) -> Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(unwritable(folder))?;
        }
        let part = Partial::beside(path).map_err(unwritable(path))?;
        let mut file = BufWriter::with_capacity(1 << 20, part);
        file.write_all(&[0; HEADER]).map_err(unwritable(path))?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            hash: Sha256::new(),
            wide: vocab_size > 1 << 16,
            len: 0,
            starts: Vec::new(),
            text_bytes: 0,
        })
    }

    /// Adds a document of so many bytes of text.
    ///
    /// # Errors
    /// The disk's.
    pub fn document(&mut self, ids: &[u32], text_bytes: usize) -> Result<()> {
        self.starts.push(self.len);
        self.len += ids.len() as u64;
        self.text_bytes += text_bytes as u64;
        let bytes: Vec<u8> = if self.wide {
            ids.iter().flat_map(|id| id.to_le_bytes()).collect()
        } else {
            ids.iter()
                .flat_map(|id| (*id as u16).to_le_bytes())
                .collect()
        };
        self.put(&bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(unwritable(&self.path))
    }

    /// Completes the file and puts it into place.
    ///
    /// # Errors
    /// The disk's.
    pub fn finish(mut self) -> Result<()> {
        let starts: Vec<u8> = self.starts.iter().flat_map(|s| s.to_le_bytes()).collect();
        self.put(&starts)?;
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(MAGIC);
        let width: u64 = if self.wide { 4 } else { 2 };
        for number in [width, self.len, self.starts.len() as u64, self.text_bytes] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        header.extend_from_slice(&self.hash.clone().finalize());
        let Self { path, mut file, .. } = self;
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(&header))
            .and_then(|()| file.into_inner().map_err(IntoInnerError::into_error))
            .and_then(Partial::place)
            .map_err(unwritable(&path))
    }
}

fn unwritable(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |e| {
        Error::run(format!(
            "cannot write the token cache {}: {e}; FORMWORK_CACHE names another folder for caches",
            path.display()
        ))
    }
}
