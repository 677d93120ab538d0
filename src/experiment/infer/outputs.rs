//! The output file of `infer`: safetensors, written row by row to a temporary file beside its target and renamed when complete.

use crate::error::{Error, Result};
use crate::files::PartialFile;
use burn::tensor::TensorData;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Size of a value in bytes.
const WIDTH: usize = size_of::<f32>();
/// Alignment in bytes of the header's length, so that the values after it are aligned.
const ALIGNMENT: usize = 8;

/// A file of arrays being written; if it is dropped before [`finish`](Self::finish), nothing is left on disk.
#[derive(Debug)]
pub struct Outputs {
    path: PathBuf,
    file: PartialFile,
    /// Names and shapes of the arrays that exist once for all rows.
    global_shapes: Vec<(String, Vec<usize>)>,
    /// Position of each array by name, known once the first rows are.
    slots: BTreeMap<String, ArraySlot>,
}

#[derive(Clone, Debug)]
struct ArraySlot {
    shape: Vec<usize>,
    begin: u64,
}

impl Outputs {
    /// Starts a file that will be moved to `path`; links are followed.
    ///
    /// # Errors
    /// If the path is a folder or cannot be written to.
    pub fn create(path: &Path) -> Result<Self> {
        let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if target.exists() && !target.is_file() {
            return Err(Error::usage(format!(
                "{} is not a file; name a file for the outputs",
                path.display()
            )));
        }
        Ok(Self {
            path: path.to_path_buf(),
            file: PartialFile::beside(&target).map_err(Error::io("write", path))?,
            global_shapes: Vec::new(),
            slots: BTreeMap::new(),
        })
    }

    /// Returns the names and shapes of the arrays, once rows were written.
    pub fn shapes(&self) -> impl Iterator<Item = (&str, &[usize])> {
        let places = self.slots.iter();
        places.map(|(name, place)| (name.as_str(), place.shape.as_slice()))
    }

    /// Reserves space for arrays that exist once for all rows; must be called before the first rows are written.
    pub(super) fn reserve_global(&mut self, whole: Vec<(String, Vec<usize>)>) {
        self.global_shapes = whole;
    }

    /// Writes the range `rows` of `all` rows; every call passes the same arrays.
    pub(super) fn write_rows(
        &mut self,
        all: usize,
        rows: Range<usize>,
        arrays: Vec<(String, TensorData)>,
    ) -> Result<()> {
        if self.slots.is_empty() {
            let shapes = arrays.iter().map(|(name, data)| {
                let mut shape = data.shape().to_vec();
                shape[0] = all;
                (name.clone(), shape)
            });
            let shapes = shapes
                .chain(std::mem::take(&mut self.global_shapes))
                .collect();
            self.begin(shapes).map_err(Error::io("write", &self.path))?;
        }
        for (name, data) in arrays {
            let row: usize = data.shape()[1..].iter().product();
            self.put(&name, rows.start * row, &data)?;
        }
        Ok(())
    }

    /// Writes an array that exists once for all rows.
    pub(super) fn write_global(&mut self, name: &str, data: &TensorData) -> Result<()> {
        self.put(name, 0, data)
    }

    /// Moves the complete file to its path.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(self) -> Result<()> {
        self.file.persist().map_err(Error::io("write", &self.path))
    }

    /// Assigns each array its position and writes the header.
    fn begin(&mut self, shapes: Vec<(String, Vec<usize>)>) -> io::Result<()> {
        let (mut end, mut infos) = (0, Vec::new());
        let shapes: BTreeMap<String, Vec<usize>> = shapes.into_iter().collect();
        for (name, shape) in shapes {
            let count = shape.iter().try_fold(WIDTH, |n, d| n.checked_mul(*d));
            let next = count.and_then(|bytes| bytes.checked_add(end));
            let next = next.ok_or_else(|| io::Error::other("the arrays are too large"))?;
            let place = ArraySlot {
                shape: shape.clone(),
                begin: end as u64,
            };
            self.slots.insert(name.clone(), place);
            let info = TensorInfo {
                dtype: Dtype::F32,
                shape,
                data_offsets: (end, next),
            };
            infos.push((name, info));
            end = next;
        }
        let header = Metadata::new(None, infos).map_err(io::Error::other)?;
        let mut header = serde_json::to_vec(&header)?;
        header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
        self.file.write_all(&(header.len() as u64).to_le_bytes())?;
        self.file.write_all(&header)?;
        let first = (ALIGNMENT + header.len()) as u64;
        for place in self.slots.values_mut() {
            place.begin += first;
        }
        Ok(())
    }

    /// Writes values of an array, starting at its value number `first`.
    fn put(&mut self, name: &str, first: usize, data: &TensorData) -> Result<()> {
        let Some(place) = self.slots.get(name) else {
            unreachable!("every batch gives the same arrays")
        };
        let at = place.begin + (first * WIDTH) as u64;
        let bytes: Vec<u8> = data.iter::<f32>().flat_map(f32::to_le_bytes).collect();
        self.file
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.file.write_all(&bytes))
            .map_err(Error::io("write", &self.path))
    }
}
