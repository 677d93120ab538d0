//! Reads the newest samples of a run from the end of `samples.jsonl`.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Error, Result};

/// Number of newest samples shown per run.
const SAMPLES: usize = 4;
/// Number of bytes read from the end of `samples.jsonl`.
pub const SAMPLES_TAIL: u64 = 64 * 1024;

/// Reads the newest samples of a `samples.jsonl`, oldest first, each as its scalar keys and values; empty if there is no file.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn samples(path: &Path) -> Result<Vec<Vec<(String, String)>>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut file = fs::File::open(path).map_err(Error::io("read", path))?;
    let length = file.metadata().map_err(Error::io("read", path))?.len();
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(SAMPLES_TAIL)))
        .and_then(|_| file.read_to_end(&mut tail))
        .map_err(Error::io("read", path))?;
    Ok(newest(&String::from_utf8_lossy(&tail)))
}

/// Parses the newest samples from the last bytes of a `samples.jsonl`, oldest first.
pub fn newest(tail: &str) -> Vec<Vec<(String, String)>> {
    let objects = tail
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<serde_json::Map<_, _>>(line).ok());
    let mut newest: Vec<_> = objects
        .take(SAMPLES)
        .map(|object| object.into_iter().filter_map(shown).collect())
        .collect();
    newest.reverse();
    newest
}

/// Returns a sample's key with its value as text; `None` for null, lists and objects.
fn shown((key, value): (String, serde_json::Value)) -> Option<(String, String)> {
    match value {
        serde_json::Value::String(text) => Some((key, text)),
        serde_json::Value::Number(_) | serde_json::Value::Bool(_) => Some((key, value.to_string())),
        serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
            None
        }
    }
}
