//! Writing safetensors files tensor by tensor: first the header, which needs only shapes, then the values.
//!
//! The library's own writer needs all values at once, and writes metadata in the order of a hash map.

use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 20;

/// Number of values that are converted to bytes at a time.
const SOME: usize = 1 << 16;

/// Headers are padded to multiples of this many bytes.
const ALIGNMENT: usize = 8;

/// A file's header, which describes its tensors; their values follow in the order in which they are added.
pub struct Header {
    entries: Map<String, Value>,
    end: usize,
}

impl Header {
    /// Creates a header without tensors, with metadata of the file.
    pub fn new(metadata: Value) -> Self {
        let mut entries = Map::new();
        entries.insert("__metadata__".into(), metadata);
        Self { entries, end: 0 }
    }

    /// Adds the next tensor, of `bytes` bytes.
    pub fn add(&mut self, name: &str, dtype: impl Serialize, shape: &[usize], bytes: usize) {
        let end = self.end + bytes;
        let place = json!({ "dtype": dtype, "shape": shape, "data_offsets": [self.end, end] });
        self.entries.insert(name.into(), place);
        self.end = end;
    }

    /// Creates a file and writes the header, padded with spaces to the alignment of the values.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn create(self, path: &Path) -> Result<BufWriter<File>> {
        let mut text = Value::Object(self.entries).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(ALIGNMENT), b' ');
        let mut file = BufWriter::with_capacity(BUFFER, File::create(path)?);
        file.write_all(&(text.len() as u64).to_le_bytes())?;
        file.write_all(&text)?;
        Ok(file)
    }
}

/// Writes float32 values.
///
/// # Errors
/// If the disk fails.
pub fn write_floats(file: &mut impl Write, values: &[f32]) -> Result<()> {
    for some in values.chunks(SOME) {
        let bytes: Vec<u8> = some.iter().flat_map(|x| x.to_le_bytes()).collect();
        file.write_all(&bytes)?;
    }
    Ok(())
}
