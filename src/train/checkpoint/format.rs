//! Files of weights: safetensors, whose metadata names the format and its version.
//!
//! ```text
//! {"__metadata__": {"format": "formwork", "version": "2"}, "stack.blocks.0.attention.query.weight": {…}, …}
//! ```
//!
//! Version 2 has the weights of linear maps as `[d_out, d_in]` and paths without the names of enum variants. Files
//! without metadata are of version 1, which [`legacy`](super::legacy) reads. Equal weights are equal bytes: tensors are
//! sorted by number format, then by path, and the header is written here, since the library's has its metadata in the
//! order of a hash map.

use super::legacy;
use crate::error::{Error, Result};
use burn::tensor::{DType, TensorData};
use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// The version that is written.
pub const VERSION: u32 = 2;

/// The name of the format in the metadata.
const FORMAT: &str = "formwork";

/// The key of the metadata in a header.
const METADATA: &str = "__metadata__";

/// Headers begin and end at multiples of so many bytes.
const ALIGNMENT: usize = 8;

/// Bytes of a header at most, as in the library.
const LONGEST: u64 = 100_000_000;

/// Writes tensors by their paths.
///
/// # Errors
/// When the disk refuses, and for number formats that safetensors lacks (quantised weights).
pub(super) fn write(mut tensors: Vec<(String, TensorData)>, path: &Path) -> Result<()> {
    let mut header = Map::new();
    header.insert(
        METADATA.into(),
        json!({ "format": FORMAT, "version": VERSION.to_string() }),
    );
    let mut formats = BTreeMap::new();
    for (name, data) in &tensors {
        formats.insert(name.clone(), stored(name, data.dtype())?);
    }
    tensors.sort_by(|(a, _), (b, _)| formats[b].cmp(&formats[a]).then(a.cmp(b)));
    let mut offset = 0;
    for (name, data) in &tensors {
        let end = offset + data.as_bytes().len();
        let (dtype, shape) = (formats[name], data.shape().to_vec());
        let place = json!({ "dtype": dtype, "shape": shape, "data_offsets": [offset, end] });
        header.insert(name.clone(), place);
        offset = end;
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    let write = || {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        for (_, data) in &tensors {
            file.write_all(data.as_bytes())?;
        }
        file.flush()
    };
    write().map_err(Error::io("write", path))
}

/// Writes 32-bit floats by their paths, each asked for when its turn comes, so that one of them is in memory at a time.
///
/// # Errors
/// When the disk refuses, and what `read` returns.
pub(super) fn write_floats(
    path: &Path,
    shapes: &BTreeMap<String, Vec<usize>>,
    read: &mut dyn FnMut(&str) -> Result<Vec<f32>>,
) -> Result<()> {
    let mut header = Map::new();
    header.insert(
        METADATA.into(),
        json!({ "format": FORMAT, "version": VERSION.to_string() }),
    );
    let mut offset = 0;
    for (name, shape) in shapes {
        let end = offset + size_of::<f32>() * shape.iter().product::<usize>();
        let place = json!({ "dtype": Dtype::F32, "shape": shape, "data_offsets": [offset, end] });
        header.insert(name.clone(), place);
        offset = end;
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    let io = Error::io("write", path);
    let open = || {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        Ok(file)
    };
    let mut file = open().map_err(io)?;
    for name in shapes.keys() {
        for value in read(name)? {
            file.write_all(&value.to_le_bytes())
                .map_err(Error::io("write", path))?;
        }
    }
    file.flush().map_err(Error::io("write", path))
}

/// The version of a file, from its first bytes.
///
/// # Errors
/// A file that cannot be read or is not safetensors, and versions that this program does not know.
pub(super) fn version(path: &Path) -> Result<u32> {
    let mut file = File::open(path).map_err(Error::io("read", path))?;
    let mut length = [0; ALIGNMENT];
    file.read_exact(&mut length)
        .map_err(Error::io("read", path))?;
    let length = u64::from_le_bytes(length).min(LONGEST);
    let mut header = Vec::new();
    file.take(length)
        .read_to_end(&mut header)
        .map_err(Error::io("read", path))?;
    version_of(&header, path)
}

fn version_of(header: &[u8], path: &Path) -> Result<u32> {
    let not = |why: String| {
        Error::run(format!(
            "{} is not a safetensors file: {why}",
            path.display()
        ))
    };
    let header: Value = serde_json::from_slice(header).map_err(|e| not(e.to_string()))?;
    let metadata = &header[METADATA];
    if metadata["format"] != FORMAT {
        return Ok(1);
    }
    let version = metadata["version"].as_str().unwrap_or_default();
    match version.parse() {
        Ok(version @ 1..=VERSION) => Ok(version),
        Ok(newer) if newer > VERSION => Err(Error::run(format!(
            "{} is of version {newer} of formwork's weights, and this formwork reads versions up to {VERSION}: take a \
             newer formwork",
            path.display()
        ))),
        _ => Err(not(format!(
            "{version:?} is no version of formwork's weights"
        ))),
    }
}

/// A file of weights in memory, with the paths and shapes of today.
pub(super) struct Weights<'a> {
    file: SafeTensors<'a>,
    /// The file's name of each path.
    names: BTreeMap<String, String>,
    /// Paths of matrices that the file holds the other way round.
    turned: BTreeSet<String>,
}

impl<'a> Weights<'a> {
    /// Opens the bytes of the file at `path`. `linear` gives the weights of the linear maps of the model that reads it.
    ///
    /// # Errors
    /// A file that is not safetensors, and a version that this program does not know.
    pub(super) fn open(
        bytes: &'a [u8],
        path: &Path,
        linear: impl FnOnce() -> BTreeSet<String>,
    ) -> Result<Self> {
        let not = |e| Error::run(format!("{} is not a safetensors file: {e}", path.display()));
        let (length, _) = SafeTensors::read_metadata(bytes).map_err(not)?;
        let file = SafeTensors::deserialize(bytes).map_err(not)?;
        let old = version_of(&bytes[ALIGNMENT..ALIGNMENT + length], path)? == 1;
        let names = file.names().into_iter();
        let names = match old {
            true => names.map(|n| (legacy::path(n), n.to_string())).collect(),
            false => names.map(|n| (n.to_string(), n.to_string())).collect(),
        };
        let turned = if old { linear() } else { BTreeSet::new() };
        Ok(Self {
            file,
            names,
            turned,
        })
    }

    /// The paths of its tensors.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Shape and number format of a tensor; a format without a counterpart is none.
    pub(super) fn info(&self, path: &str) -> Option<(Vec<usize>, Option<DType>)> {
        let found = self.file.tensor(self.names.get(path)?).ok()?;
        let mut shape = found.shape().to_vec();
        if self.turned.contains(path) {
            shape.reverse();
        }
        Some((shape, computed(found.dtype())))
    }

    /// A fault for each tensor with a value that is infinite or not a number; no such weights are saved.
    pub(super) fn not_finite(&self) -> Vec<String> {
        let ruined = |path: &&String| {
            let found = self.names.get(*path).map(|name| self.file.tensor(name));
            found
                .and_then(std::result::Result::ok)
                .is_some_and(|t| !finite(t.dtype(), t.data()))
        };
        let ruined = self.names.keys().filter(ruined);
        ruined
            .map(|path| format!("`{path}` holds values that are infinite or not numbers"))
            .collect()
    }

    /// The values of a tensor.
    pub(super) fn tensor(&self, path: &str) -> Option<TensorData> {
        let found = self.file.tensor(self.names.get(path)?).ok()?;
        let (bytes, shape) = (found.data().to_vec(), found.shape().to_vec());
        let data = TensorData::from_bytes_vec(bytes, shape, computed(found.dtype())?);
        Some(match self.turned.contains(path) {
            true => legacy::transposed(data),
            false => data,
        })
    }
}

/// Whether no value has an exponent of ones alone, the mark of infinities and of what is not a number.
fn finite(dtype: Dtype, data: &[u8]) -> bool {
    let is = |word: u32, ones: u32| word & ones != ones;
    let halves = |ones: u32| {
        let words = data.as_chunks::<2>().0.iter();
        words
            .map(|b| u32::from(u16::from_le_bytes(*b)))
            .all(|word| is(word, ones))
    };
    match dtype {
        Dtype::F64 => {
            let words = data.as_chunks::<8>().0.iter();
            words.map(|b| f64::from_le_bytes(*b)).all(f64::is_finite)
        }
        Dtype::F32 => {
            let words = data.as_chunks::<4>().0.iter();
            words
                .map(|b| u32::from_le_bytes(*b))
                .all(|word| is(word, 0x7f80_0000))
        }
        Dtype::F16 => halves(0x7c00),
        Dtype::BF16 => halves(0x7f80),
        // Integers.
        _ => true,
    }
}

/// The file's name of a parameter's number format.
fn stored(path: &str, dtype: DType) -> Result<Dtype> {
    Ok(match dtype {
        DType::F64 => Dtype::F64,
        DType::F32 | DType::Flex32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::I32 => Dtype::I32,
        DType::I16 => Dtype::I16,
        DType::I8 => Dtype::I8,
        DType::U64 => Dtype::U64,
        DType::U32 => Dtype::U32,
        DType::U16 => Dtype::U16,
        DType::U8 => Dtype::U8,
        DType::Bool(_) | DType::QFloat(_) => {
            return Err(Error::run(format!(
                "parameter `{path}` has the number format {dtype:?}, which safetensors lacks"
            )));
        }
    })
}

/// Burn's name of a number format of a file.
fn computed(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::I8 => DType::I8,
        Dtype::U64 => DType::U64,
        Dtype::U32 => DType::U32,
        Dtype::U16 => DType::U16,
        Dtype::U8 => DType::U8,
        // Formats without a counterpart; `Dtype` may grow.
        _ => return None,
    })
}
