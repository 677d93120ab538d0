//! Files that may be packed with gzip or Zstandard, recognised by their first bytes rather than by their
//! names.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::Utf8Error;

use crate::error::{Error, Result};

/// File name endings of packed files.
pub const ENDINGS: [&str; 2] = [".gz", ".zst"];

/// Maximum ratio of unpacked to packed size. Text packs 3 to 5 times, repetitive tables and logs a few tens
/// of times; zeros pack 1000 times and more, so that ten megabytes of them would fill the memory.
const MOST_UNPACKED: u64 = 100;
/// Unpacked size in bytes that any packed file may have.
const ALWAYS_UNPACKED: u64 = 64 << 20;
/// Byte-order mark that some programs write before UTF-8.
const BOM: char = '\u{FEFF}';
/// Number of bytes read at once.
const BLOCK: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Plain,
    Gzip,
    Zstandard,
}

impl Packing {
    fn of(first: &[u8]) -> Self {
        match first {
            [0x1F, 0x8B, ..] => Self::Gzip,
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Self::Zstandard,
            _ => Self::Plain,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstandard => "Zstandard",
        }
    }
}

/// The content of a file, unpacked while it is read.
pub struct Unpacked {
    reader: Box<dyn Read>,
    packing: Packing,
    size: u64,
    /// Number of bytes that may still be unpacked.
    remaining: u64,
}

impl Unpacked {
    /// Opens a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        crate::files::require_regular(path)?;
        let file = File::open(path).map_err(Error::io("read", path))?;
        let size = file.metadata().map_err(Error::io("read", path))?.len();
        let mut file = BufReader::with_capacity(BLOCK, file);
        let first = file.fill_buf().map_err(Error::io("read", path))?;
        let packing = Packing::of(first);
        let reader: Box<dyn Read> = match packing {
            Packing::Plain => Box::new(file),
            Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
            Packing::Zstandard => {
                let decoder = zstd::stream::read::Decoder::with_buffer(file);
                Box::new(decoder.map_err(Error::io("read", path))?)
            }
        };
        Ok(Self {
            reader,
            packing,
            size,
            remaining: match packing {
                Packing::Plain => u64::MAX,
                _ => size.saturating_mul(MOST_UNPACKED).max(ALWAYS_UNPACKED),
            },
        })
    }

    /// Returns the error that a command reports for a failed read.
    pub fn fault(path: &Path, e: io::Error) -> Error {
        match e.get_ref().and_then(|inner| inner.downcast_ref::<Fault>()) {
            Some(Fault(why)) => Error::run(format!("{} {why}", path.display())),
            None => Error::io("read", path)(e),
        }
    }
}

/// The reason why a packed file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Fault(String);

impl Read for Unpacked {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = match (self.reader.read(bytes), self.packing) {
            (Ok(count), _) => count,
            (Err(e), Packing::Plain) => return Err(e),
            (Err(e), _) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
            (Err(e), packing) => {
                let why = format!("is a damaged {} file: {e}", packing.name());
                return Err(io::Error::other(Fault(why)));
            }
        };
        self.remaining = match self.remaining.checked_sub(count as u64) {
            Some(left) => left,
            None => {
                let most = self.size.saturating_mul(MOST_UNPACKED).max(ALWAYS_UNPACKED);
                let why = format!(
                    "has {} bytes but unpacks to more than {most}, which is unlikely for data; if it is correct, \
                     unpack it manually",
                    self.size
                );
                return Err(io::Error::other(Fault(why)));
            }
        };
        Ok(count)
    }
}

/// Returns the content of a file, unpacked if it is packed.
///
/// # Errors
/// If the file cannot be read, is cut short or damaged, or unpacks to suspiciously many bytes.
pub fn content(path: &Path) -> Result<Vec<u8>> {
    let mut file = Unpacked::open(path)?;
    let expected = match file.packing {
        Packing::Plain => file.size,
        _ => file.size.saturating_mul(4).min(ALWAYS_UNPACKED),
    };
    let mut plain = Vec::with_capacity(expected as usize);
    file.read_to_end(&mut plain)
        .map_err(|e| Unpacked::fault(path, e))?;
    Ok(plain)
}

/// Returns the content of a file as text, unpacked if it is packed, without a byte-order mark.
///
/// # Errors
/// As for [`content`]; also if the file is not UTF-8, with the line.
pub(in crate::data) fn text(path: &Path) -> Result<String> {
    let content = content(path)?;
    crate::files::refuse_utf16(path.display(), &content)?;
    let mut text =
        String::from_utf8(content).map_err(|e| not_text(path, e.as_bytes(), e.utf8_error()))?;
    if text.starts_with(BOM) {
        text.drain(..BOM.len_utf8());
    }
    Ok(text)
}

/// Returns the error of a table whose content is not UTF-8, with the line of its first invalid byte.
fn not_text(path: &Path, content: &[u8], wrong: Utf8Error) -> Error {
    let before = &content[..wrong.valid_up_to()];
    let line = before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    let begins = before.iter().rposition(|byte| *byte == b'\n');
    not_text_at(path, line, before.len() - begins.map_or(0, |at| at + 1))
}

/// Returns the error of a line that is not UTF-8; `byte` is the position of the first invalid byte, from 0.
pub(in crate::data) fn not_text_at(path: &Path, line: u64, byte: usize) -> Error {
    Error::run(format!(
        "{}:{line}: the line is not UTF-8 (byte {byte} of it); convert the file",
        path.display()
    ))
}

/// Returns the name of a file in lower case without the ending of its packing: `Train.JSONL.gz` becomes
/// `train.jsonl`.
pub fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    strip_ending(&name.to_lowercase()).to_owned()
}

/// Returns a name without the ending of its packing.
pub fn strip_ending(name: &str) -> &str {
    let plain = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
    plain.unwrap_or(name)
}

/// Returns the path if it exists, otherwise the packed file of a plain path, or the plain file of a packed
/// path.
pub fn existing_variant(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return Some(path.to_path_buf());
    }
    let packed = ENDINGS.iter().map(|ending| {
        let mut packed = path.as_os_str().to_owned();
        packed.push(ending);
        PathBuf::from(packed)
    });
    let name = path.to_string_lossy();
    let plain = ENDINGS.iter().filter(|ending| name.ends_with(*ending));
    let plain = plain.map(|_| path.with_extension(""));
    packed.chain(plain).find(|candidate| candidate.is_file())
}
