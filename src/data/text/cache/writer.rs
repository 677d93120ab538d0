//! Writes a token cache.

use std::io::{BufWriter, IntoInnerError, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{HEADER, MAGIC};
use crate::error::{Error, Result};
use crate::files::PartialFile;

/// Writes a cache part by part. Several writers may write the same cache at once.
pub struct Writer {
    path: PathBuf,
    file: BufWriter<PartialFile>,
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
    /// If the folder or the file cannot be created.
    pub fn new(path: &Path, vocab_size: usize) -> Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(unwritable(folder))?;
        }
        let part = PartialFile::beside(path).map_err(unwritable(path))?;
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

    /// Adds a document of `text_bytes` bytes of text.
    ///
    /// # Errors
    /// If the disk cannot be written to.
    pub fn document(&mut self, ids: &[u32], text_bytes: usize) -> Result<()> {
        self.starts.push(self.len);
        self.append(ids, text_bytes)
    }

    /// Adds to the last document.
    ///
    /// # Errors
    /// If the disk cannot be written to.
    pub fn append(&mut self, ids: &[u32], text_bytes: usize) -> Result<()> {
        self.len += ids.len() as u64;
        self.text_bytes += text_bytes as u64;
        let bytes: Vec<u8> = if self.wide {
            ids.iter().flat_map(|id| id.to_le_bytes()).collect()
        } else {
            ids.iter()
                .flat_map(|id| (*id as u16).to_le_bytes())
                .collect()
        };
        self.write_bytes(&bytes)
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(unwritable(&self.path))
    }

    /// Completes the file and moves it into place.
    ///
    /// # Errors
    /// If the disk cannot be written to.
    pub fn finish(mut self) -> Result<()> {
        let starts: Vec<u8> = self.starts.iter().flat_map(|s| s.to_le_bytes()).collect();
        self.write_bytes(&starts)?;
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
            .and_then(PartialFile::persist)
            .map_err(unwritable(&path))
    }
}

fn unwritable(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |e| {
        Error::run(format!(
            "cannot write the token cache {}: {e}; set FORMWORK_CACHE to another folder for caches",
            path.display()
        ))
    }
}
