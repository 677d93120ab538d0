//! Weight files: safetensors whose metadata names the format and its version.
//!
//! ```text
//! {"__metadata__": {"format": "formwork", "version": "2"}, "stack.blocks.0.attention.query.weight": {…}, …}
//! ```
//!
//! Version 2 stores the weights of linear maps as `[d_out, d_in]`, under paths without the names of enum variants.
//! Files without metadata are of version 1, which [`legacy`](super::legacy) reads. Equal weights give equal bytes:
//! tensors are sorted by number format, then by path, and the header is written here, since the library writes its
//! metadata in the order of a hash map.

use super::legacy;
use crate::error::{Error, Result};
use crate::files::tensors::{self, Header};
use burn::tensor::{DType, TensorData};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Version that this program writes.
pub const VERSION: u32 = 2;

/// Name of the format in the metadata.
const FORMAT: &str = "formwork";

/// Key of the metadata in a header.
const METADATA: &str = "__metadata__";

/// Headers begin and end at multiples of this many bytes.
const ALIGNMENT: usize = 8;

/// Maximum length of a header in bytes, as in the library.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Writes tensors keyed by path.
///
/// # Errors
/// If the disk cannot be written, or a number format is missing in safetensors (quantised weights).
pub(super) fn write(mut tensors: Vec<(String, TensorData)>, path: &Path) -> Result<()> {
    let mut formats = BTreeMap::new();
    for (name, data) in &tensors {
        formats.insert(name.clone(), safetensors_dtype(name, data.dtype())?);
    }
    tensors.sort_by(|(a, _), (b, _)| formats[b].cmp(&formats[a]).then(a.cmp(b)));
    let mut header = header();
    for (name, data) in &tensors {
        let bytes = data.as_bytes().len();
        header.add(name, formats[name], data.shape(), bytes);
    }
    let write = || {
        let mut file = header.create(path)?;
        for (_, data) in &tensors {
            file.write_all(data.as_bytes())?;
        }
        file.flush()
    };
    write().map_err(Error::io("write", path))
}

/// Writes 32-bit floats keyed by path. Each tensor is read just before it is written, so that only one is in memory at a time.
///
/// # Errors
/// If the disk cannot be written, and errors of `read`.
pub(super) fn write_floats(
    path: &Path,
    shapes: &BTreeMap<String, Vec<usize>>,
    read: &mut dyn FnMut(&str) -> Result<Vec<f32>>,
) -> Result<()> {
    let mut header = header();
    for (name, shape) in shapes {
        let bytes = size_of::<f32>() * shape.iter().product::<usize>();
        header.add(name, Dtype::F32, shape, bytes);
    }
    let io = || Error::io("write", path);
    let mut file = header.create(path).map_err(io())?;
    for name in shapes.keys() {
        tensors::write_floats(&mut file, &read(name)?).map_err(io())?;
    }
    file.flush().map_err(io())
}

fn header() -> Header {
    Header::new(json!({ "format": FORMAT, "version": VERSION.to_string() }))
}

/// Reads the version of a file from its header.
///
/// # Errors
/// If the file cannot be read, is not safetensors, or has a version that this program does not know.
pub(super) fn version(path: &Path) -> Result<u32> {
    let mut file = File::open(path).map_err(Error::io("read", path))?;
    let mut length = [0; ALIGNMENT];
    file.read_exact(&mut length)
        .map_err(Error::io("read", path))?;
    let length = u64::from_le_bytes(length).min(MAX_HEADER_BYTES);
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
            "{} has version {newer} of formwork's weights, but this formwork reads versions up to {VERSION}; use a newer \
             formwork",
            path.display()
        ))),
        _ => Err(not(format!(
            "{version:?} is not a version of formwork's weights"
        ))),
    }
}

/// An open weight file, with current paths and shapes; its values are read one tensor at a time, so that a model is not
/// in memory twice.
pub(super) struct WeightFile<'a> {
    path: &'a Path,
    file: File,
    /// Offset in bytes at which the values begin.
    start: u64,
    header: Metadata,
    /// Name in the file of each path.
    names: BTreeMap<String, String>,
    /// Paths of matrices that the file holds transposed.
    transposed: BTreeSet<String>,
}

impl<'a> WeightFile<'a> {
    /// Opens the file at `path`. `linear` returns the weights of the linear maps of the model that reads it.
    ///
    /// # Errors
    /// If the file cannot be read, is not safetensors, or has a version that this program does not know.
    pub(super) fn open(path: &'a Path, linear: impl FnOnce() -> BTreeSet<String>) -> Result<Self> {
        let io = || Error::io("read", path);
        let not = |why: String| {
            Error::run(format!(
                "{} is not a safetensors file: {why}",
                path.display()
            ))
        };
        let mut file = File::open(path).map_err(io())?;
        let length = file.metadata().map_err(io())?.len();
        let mut size = [0; ALIGNMENT];
        file.read_exact(&mut size)
            .map_err(|_| not("it is shorter than 8 bytes".into()))?;
        let start = u64::from_le_bytes(size).saturating_add(ALIGNMENT as u64);
        if start > length.min(MAX_HEADER_BYTES) {
            return Err(not("the stated length of its header is too large".into()));
        }
        let mut text = vec![0; start as usize - ALIGNMENT];
        file.read_exact(&mut text).map_err(io())?;
        let header: Metadata = serde_json::from_slice(&text).map_err(|e| not(e.to_string()))?;
        let described = start.saturating_add(header.data_len() as u64);
        if described != length {
            return Err(not(format!(
                "it has {length} bytes, but its header describes {described}"
            )));
        }
        let old = version_of(&text, path)? == 1;
        let found = header.tensors().into_keys();
        let names = match old {
            true => found.map(|n| (legacy::convert_path(&n), n)).collect(),
            false => found.map(|n| (n.clone(), n)).collect(),
        };
        let turned = if old { linear() } else { BTreeSet::new() };
        Ok(Self {
            path,
            file,
            start,
            header,
            names,
            transposed: turned,
        })
    }

    /// Returns the paths of its tensors.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Returns the shape and number format of a tensor; the format is `None` if Burn has no counterpart.
    pub(super) fn info(&self, path: &str) -> Option<(Vec<usize>, Option<DType>)> {
        let found = self.header.info(self.names.get(path)?)?;
        let mut shape = found.shape.clone();
        if self.transposed.contains(path) {
            shape.reverse();
        }
        Some((shape, burn_dtype(found.dtype)))
    }

    /// Returns a fault for each tensor with a value that is infinite or NaN; such weights are never saved.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn non_finite_faults(&self) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for path in self.paths() {
            if let Some((info, bytes)) = self.bytes(path)?
                && !all_finite(info.dtype, &bytes)
            {
                faults.push(format!(
                    "`{path}` contains values that are infinite or not numbers"
                ));
            }
        }
        Ok(faults)
    }

    /// Reads the values of a tensor.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn tensor(&self, path: &str) -> Result<Option<TensorData>> {
        let Some((info, bytes)) = self.bytes(path)? else {
            return Ok(None);
        };
        let shape = info.shape.clone();
        let data =
            burn_dtype(info.dtype).map(|dtype| TensorData::from_bytes_vec(bytes, shape, dtype));
        Ok(data.map(|data| match self.transposed.contains(path) {
            true => legacy::transpose(data),
            false => data,
        }))
    }

    /// Reads a tensor's header entry and its bytes.
    fn bytes(&self, path: &str) -> Result<Option<(&TensorInfo, Vec<u8>)>> {
        let info = self.names.get(path).and_then(|name| self.header.info(name));
        let Some(info) = info else {
            return Ok(None);
        };
        let (begin, end) = info.data_offsets;
        let mut bytes = vec![0; end - begin];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.start + begin as u64))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(Error::io("read", self.path))?;
        Ok(Some((info, bytes)))
    }
}

/// Whether no value has an exponent of all ones, which marks infinities and NaN.
fn all_finite(dtype: Dtype, data: &[u8]) -> bool {
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

/// Returns the safetensors format of a parameter's number format.
fn safetensors_dtype(path: &str, dtype: DType) -> Result<Dtype> {
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
                "parameter `{path}` has the number format {dtype:?}, which safetensors does not support"
            )));
        }
    })
}

/// Returns Burn's format of a safetensors number format.
fn burn_dtype(dtype: Dtype) -> Option<DType> {
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
        // Formats without a counterpart; `Dtype` may gain variants.
        _ => return None,
    })
}
