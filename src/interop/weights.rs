//! The weights of an HF folder: `model.safetensors` or `pytorch_model.bin`, or the shards that an index names.
//!
//! Headers are read when the folder is opened. A tensor is read, and cast to 32-bit floats, only when it is asked for,
//! so that a model larger than half of the memory can be imported.

use super::{LISTED, pickled, shards};
use crate::error::{Error, Result};
use burn::tensor::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The names of weight files, in the order in which they are looked for; the list of the shards of each is
/// `NAME.index.json`.
const NAMES: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];
/// Headers above this size are refused (the format's own limit).
const MAX_HEADER: u64 = 100_000_000;

/// Values of a tensor in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Length of each dimension.
    pub shape: Vec<usize>,
    /// Values in row-major order.
    pub values: Vec<f32>,
}

impl Array {
    /// Moves the rows of a matrix so that row `from` becomes row `to`: the rows before it are dropped, new rows are 0.
    pub fn move_rows(&mut self, from: usize, to: usize) {
        let width: usize = self.shape.iter().skip(1).product();
        let gone = (from * width).min(self.values.len());
        let new = std::iter::repeat_n(0.0, to * width);
        drop(self.values.splice(..gone, new));
        if let Some(rows) = self.shape.first_mut() {
            *rows = rows.saturating_sub(from) + to;
        }
    }
}

/// The shape of a tensor, and where it lies.
#[derive(Clone, Debug)]
struct Entry {
    file: usize,
    shape: Vec<usize>,
    place: Place,
}

/// The location of a tensor's data.
#[derive(Clone, Debug)]
enum Place {
    /// In a safetensors file.
    Bytes {
        dtype: Dtype,
        start: u64,
        bytes: usize,
    },
    /// In a PyTorch file.
    Pickled(pytorch_reader::Tensor),
}

/// The weights of a folder, by their HF names.
#[derive(Debug)]
pub struct Weights {
    dir: PathBuf,
    files: Vec<PathBuf>,
    entries: BTreeMap<String, Entry>,
    /// Names of entries in PyTorch files that are not tensors.
    others: Vec<String>,
}

impl Weights {
    /// Reads the headers of the weight files in `dir`.
    ///
    /// # Errors
    /// If there is no weight file, a shard is missing, a header is damaged, or a name is in two shards.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::open_named(dir, NAMES)
    }

    /// [`Self::open`] for other file names: safetensors files, or PyTorch files if the name ends in `.bin`.
    ///
    /// # Errors
    /// The errors of [`Self::open`].
    pub fn open_named(dir: &Path, names: [&str; 2]) -> Result<Self> {
        let mut weights = Self {
            dir: dir.to_path_buf(),
            files: Vec::new(),
            entries: BTreeMap::new(),
            others: Vec::new(),
        };
        let found = shards::files(dir, names)?;
        for file in found.files {
            weights.add(file)?;
        }
        if let Some((index, map)) = found.index {
            weights.require_indexed(&index, &map)?;
        }
        Ok(weights)
    }

    /// Checks that every tensor is in the shard that the index names.
    fn require_indexed(&self, index: &Path, map: &BTreeMap<String, String>) -> Result<()> {
        let mut wrong = Vec::new();
        for (name, shard) in map {
            let held = self.file(&current(name)).and_then(Path::file_name);
            if held.is_some_and(|held| held == shard.as_str()) {
                continue;
            }
            let where_to = held.map_or("no shard contains it".into(), |held| {
                format!("it is in {}", held.to_string_lossy())
            });
            wrong.push(format!(
                "says that the tensor `{name}` is in {shard}, but {where_to}"
            ));
        }
        match wrong.len() {
            0 => return Ok(()),
            n if n > LISTED => {
                wrong.truncate(LISTED);
                wrong.push(format!(
                    "and {} more tensors that are not in the shard that it names",
                    n - LISTED
                ));
            }
            _ => {}
        }
        let faults = wrong.into_iter().map(|text| super::fault(index, text));
        Err(Error::Invalid(faults.collect()))
    }

    /// The names of entries in PyTorch files that are not tensors: counts, settings.
    pub fn others(&self) -> &[String] {
        &self.others
    }

    /// Finds a tensor by its full name or by its name without `prefix`; returns the name that the weights have.
    pub fn find(&self, prefix: &str, name: &str) -> Option<&str> {
        let short = name.strip_prefix(prefix).unwrap_or(name);
        let names = [name, short].into_iter();
        let mut found = names.filter_map(|name| self.entries.get_key_value(name));
        found.next().map(|(name, _)| name.as_str())
    }

    /// The file of a tensor, or the folder if there is no such tensor; named in faults of the tensor.
    pub fn place(&self, name: &str) -> PathBuf {
        self.file(name).unwrap_or(&self.dir).to_path_buf()
    }

    /// The names of the tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.entries.get(name).map(|e| e.shape.as_slice())
    }

    /// The file that holds a tensor.
    pub fn file(&self, name: &str) -> Option<&Path> {
        self.entries.get(name).map(|e| self.files[e.file].as_path())
    }

    /// Reads one tensor as 32-bit floats.
    ///
    /// # Errors
    /// If there is no such tensor, a file cannot be read, or the numbers are not 16-, 32- or 64-bit floats.
    pub fn read(&self, name: &str) -> Result<Array> {
        let entry = self
            .entries
            .get(name)
            .ok_or_else(|| Error::run(format!("the weights have no tensor `{name}`")))?;
        let path = &self.files[entry.file];
        let values = match &entry.place {
            Place::Pickled(tensor) => pickled::floats(tensor, path, name)?,
            Place::Bytes {
                dtype,
                start,
                bytes,
            } => {
                let mut file = File::open(path).map_err(Error::io("open", path))?;
                let mut read = vec![0; *bytes];
                file.seek(SeekFrom::Start(*start))
                    .and_then(|_| file.read_exact(&mut read))
                    .map_err(Error::io("read", path))?;
                floats(&read, *dtype).ok_or_else(|| {
                    let message = format!(
                        "tensor `{name}` is {dtype:?}; F64, F32, F16 and BF16 can be imported"
                    );
                    invalid(path, message)
                })?
            }
        };
        Ok(Array {
            shape: entry.shape.clone(),
            values,
        })
    }

    fn add(&mut self, path: PathBuf) -> Result<()> {
        if path.extension().is_some_and(|end| end == "bin") {
            let found = pickled::read(&path)?;
            self.others.extend(found.others);
            for (name, tensor) in found.tensors {
                let (shape, place) = (tensor.shape().to_vec(), Place::Pickled(tensor));
                self.insert(&path, &name, shape, place)?;
            }
            self.files.push(path);
            return Ok(());
        }
        let (header_end, header) = header(&path)?;
        for (name, info) in header.tensors() {
            let (start, end) = info.data_offsets;
            let place = Place::Bytes {
                dtype: info.dtype,
                start: header_end + start as u64,
                bytes: end - start,
            };
            self.insert(&path, &name, info.shape.clone(), place)?;
        }
        self.files.push(path);
        Ok(())
    }

    /// Adds a tensor of the file `path`, which will be the next in `files`.
    fn insert(&mut self, path: &Path, name: &str, shape: Vec<usize>, place: Place) -> Result<()> {
        let file = self.files.len();
        let name = current(name);
        let entry = Entry { file, shape, place };
        match self.entries.insert(name.clone(), entry) {
            None => Ok(()),
            Some(before) => {
                let other = self.files.get(before.file).map_or(path, PathBuf::as_path);
                let message = format!("tensor `{name}` is also in {}", other.display());
                Err(invalid(path, message))
            }
        }
    }
}

/// The current form of a name: the first BERT files call the weights of norms gamma and beta.
fn current(name: &str) -> String {
    for (old, new) in [("gamma", "weight"), ("beta", "bias")] {
        if let Some(norm) = name.strip_suffix(old).filter(|n| n.ends_with("LayerNorm.")) {
            return format!("{norm}{new}");
        }
    }
    name.to_string()
}

/// An error about one file.
pub(super) fn invalid(path: &Path, message: String) -> Error {
    Error::Invalid(vec![super::fault(path, message)])
}

/// Reads the header of a safetensors file and checks the file's length against it; also returns the offset of the data.
///
/// # Errors
/// If the file cannot be read, or is damaged.
pub fn header(path: &Path) -> Result<(u64, Metadata)> {
    crate::files::require_regular(path)?;
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let length = file.metadata().map_err(Error::io("read", path))?.len();
    let mut size = [0; 8];
    let damaged = |what: &str| invalid(path, format!("is not a safetensors file: {what}"));
    file.read_exact(&mut size)
        .map_err(|_| damaged("it is shorter than 8 bytes"))?;
    let size = u64::from_le_bytes(size);
    if size > MAX_HEADER || size + 8 > length {
        return Err(damaged("its header is longer than the file"));
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact(&mut bytes)
        .map_err(Error::io("read", path))?;
    if let Some(twice) = duplicate_key(&bytes) {
        return Err(damaged(&format!("its header has `{twice}` twice")));
    }
    let metadata: Metadata = serde_json::from_slice(&bytes)
        .map_err(|e| damaged(&format!("its header cannot be read: {e}")))?;
    let described = (size + 8).saturating_add(metadata.data_len() as u64);
    if described != length {
        let message = format!(
            "is {length} bytes long but its header describes {described}; the file is truncated or damaged"
        );
        return Err(invalid(path, message));
    }
    Ok((size + 8, metadata))
}

/// Finds a key that a JSON object has twice: JSON readers silently take the last one.
pub(super) fn duplicate_key(bytes: &[u8]) -> Option<String> {
    // Bytes that are not a JSON object are reported by their own reader.
    let Names(mut names) = serde_json::from_slice(bytes).ok()?;
    names.sort_unstable();
    let pair = names.windows(2).find(|pair| pair[0] == pair[1])?;
    Some(pair[0].clone())
}

/// The keys of an object, with repetitions.
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Names;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// Converts little-endian numbers to 32-bit floats; `None` for a format that is not a float.
fn floats(bytes: &[u8], dtype: Dtype) -> Option<Vec<f32>> {
    fn each<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|b| number(*b)).collect()
    }
    match dtype {
        Dtype::F32 => Some(each(bytes, f32::from_le_bytes)),
        Dtype::F64 => Some(each(bytes, |b| f64::from_le_bytes(b) as f32)),
        Dtype::F16 => Some(each(bytes, |b| f16::from_le_bytes(b).to_f32())),
        Dtype::BF16 => Some(each(bytes, |b| bf16::from_le_bytes(b).to_f32())),
        _ => None,
    }
}
