//! Files of safetensors that are written tensor by tensor: the header first, which needs shapes alone, then the numbers.
//!
//! The library's own writer wants all numbers at once, and has metadata in the order of a hash map.

use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

/// Bytes that are kept before they go to the disk.
const BUFFER: usize = 1 << 20;

/// Numbers that are turned into bytes at a time.
const SOME: usize = 1 << 16;

/// Headers end at multiples of so many bytes.
const ALIGNMENT: usize = 8;

/// What a file says of its tensors, which lie behind it in the order in which they are added.
pub struct Header {
    entries: Map<String, Value>,
    end: usize,
}

impl Header {
    /// No tensors, and what is said of the file.
    pub fn new(metadata: Value) -> Self {
        let mut entries = Map::new();
        entries.insert("__metadata__".into(), metadata);
        Self { entries, end: 0 }
    }

    /// The next tensor, of so many bytes.
    pub fn add(&mut self, name: &str, dtype: impl Serialize, shape: &[usize], bytes: usize) {
        let end = self.end + bytes;
        let place = json!({ "dtype": dtype, "shape": shape, "data_offsets": [self.end, end] });
        self.entries.insert(name.into(), place);
        self.end = end;
    }

    /// A file that begins with this header, blanks behind it up to where numbers may begin.
    ///
    /// # Errors
    /// The disk's.
    pub fn create(self, path: &Path) -> Result<BufWriter<File>> {
        let mut text = Value::Object(self.entries).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(ALIGNMENT), b' ');
        let mut file = BufWriter::with_capacity(BUFFER, File::create(path)?);
        file.write_all(&(text.len() as u64).to_le_bytes())?;
        file.write_all(&text)?;
        Ok(file)
    }
}

/// Writes 32-bit floats.
///
/// # Errors
/// The disk's.
pub fn write_floats(file: &mut impl Write, values: &[f32]) -> Result<()> {
    for some in values.chunks(SOME) {
        let bytes: Vec<u8> = some.iter().flat_map(|x| x.to_le_bytes()).collect();
        file.write_all(&bytes)?;
    }
    Ok(())
}
