//! Reads the files of a folder from elsewhere: their size is bounded, and faults name the file.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{Error, Fault, Result};
use crate::files::json;

/// Largest file that is read, in bytes. The largest published tokenizer.json (Gemma 3, 262,000 tokens) has 33 MB.
const MOST_BYTES: u64 = 1 << 29;

/// A folder of tokenizer files.
#[derive(Clone, Copy)]
pub struct Folder<'a>(pub &'a Path);

impl Folder<'_> {
    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Whether the folder has a file of this name.
    pub fn has(&self, name: &str) -> bool {
        self.path(name).is_file()
    }

    /// The first of these names that the folder has.
    pub fn first(&self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().copied().find(|name| self.has(name))
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is larger than any tokenizer.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.path(name);
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&path).map_err(Error::io("read", &path))?;
        file.take(MOST_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(Error::io("read", &path))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(fault(
                &path,
                format!(
                    "is larger than {} MiB, the limit for a tokenizer file",
                    MOST_BYTES >> 20
                ),
            ));
        }
        Ok(bytes)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The errors of [`Self::bytes`]; and if the bytes are not UTF-8, with the line.
    pub fn text(&self, name: &str) -> Result<String> {
        String::from_utf8(self.bytes(name)?).map_err(|e| {
            let before = e.utf8_error().valid_up_to();
            let line = 1 + e.as_bytes()[..before]
                .iter()
                .filter(|b| **b == b'\n')
                .count();
            let message = "is not UTF-8; is the file damaged?";
            Error::Invalid(vec![Fault::at(self.path(name), line, message)])
        })
    }

    /// Reads the JSON object in a file; `None` if there is no such file.
    ///
    /// # Errors
    /// The errors of [`Self::bytes`]; and if the file is not a JSON object.
    pub fn object(&self, name: &str) -> Result<Option<Map<String, Value>>> {
        if !self.has(name) {
            return Ok(None);
        }
        let object = serde_json::from_slice(&json::encode_infinity(self.bytes(name)?));
        let wrong =
            |e: serde_json::Error| fault(&self.path(name), format!("is not a JSON object: {e}"));
        object.map(Some).map_err(wrong)
    }
}

/// An error with one fault of a file.
pub fn fault(path: &Path, message: impl Into<String>) -> Error {
    Error::Invalid(vec![Fault {
        file: Some(path.to_path_buf()),
        line: None,
        message: message.into(),
    }])
}

/// The tokens of a vocabulary with their ids, in the order of the ids.
///
/// # Errors
/// If an id is not a 32-bit number, or two tokens have the same id; the message names `path`.
pub fn numbered(path: &Path, vocab: &Map<String, Value>) -> Result<Vec<(String, u32)>> {
    let mut tokens = Vec::with_capacity(vocab.len());
    for (token, id) in vocab {
        match id.as_u64().and_then(|id| u32::try_from(id).ok()) {
            Some(id) => tokens.push((token.clone(), id)),
            None => {
                let message = format!(
                    "the token `{token}` has the id {id}, which is not an integer below 2^32"
                );
                return Err(fault(path, message));
            }
        }
    }
    tokens.sort_by_key(|(_, id)| *id);
    for pair in tokens.windows(2) {
        let [(a, id), (b, next)] = pair else { continue };
        if id == next {
            return Err(fault(
                path,
                format!("the tokens `{a}` and `{b}` both have the id {id}"),
            ));
        }
    }
    Ok(tokens)
}
