//! Writes files of embeddings: safetensors, NumPy arrays, JSON lines. Each is written to a temporary file beside its target and
//! moved there when complete.

use super::Vectors;
use crate::error::{Error, Result, suggestion};
use crate::files::PartialFile;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Magic bytes of NumPy files of version 1.0.
const NUMPY: &[u8] = b"\x93NUMPY\x01\x00";
/// Alignment in bytes of the data that follows NumPy's header.
const NUMPY_ALIGNMENT: usize = 64;
/// Alignment in bytes of the data in safetensors files.
const ALIGNMENT: usize = 8;

/// The format of a file of embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A tensor `embeddings`, and a tensor `lengths` if there is a vector for each position.
    Safetensors,
    /// A single array.
    Numpy,
    /// One JSON object per line.
    JsonLines,
}

impl Format {
    /// Returns the format for a file name's extension.
    ///
    /// # Errors
    /// If the extension is unknown.
    pub fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        match ending {
            "safetensors" => Ok(Self::Safetensors),
            "npy" => Ok(Self::Numpy),
            "jsonl" => Ok(Self::JsonLines),
            other => Err(Error::usage(format!(
                "--out {}: the file extension selects the format{}",
                path.display(),
                suggestion(other, ["safetensors", "npy", "jsonl"])
            ))),
        }
    }
}

/// A file of embeddings being written; if it is dropped before [`finish`](Self::finish), nothing is left on disk.
#[derive(Debug)]
pub struct VectorsFile {
    path: PathBuf,
    file: io::BufWriter<PartialFile>,
    format: Format,
    /// Number of vectors of each input, if there is one per position. Shorter inputs are padded with zeros to the longest.
    lengths: Option<Vec<usize>>,
    inputs: usize,
    begun: bool,
}

impl VectorsFile {
    /// Starts a file for `inputs` inputs, each of which has one vector, or as many as `lengths` says.
    ///
    /// # Errors
    /// If the path is a folder or cannot be written to.
    pub fn create(
        path: &Path,
        format: Format,
        inputs: usize,
        lengths: Option<Vec<usize>>,
    ) -> Result<Self> {
        let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if target.exists() && !target.is_file() {
            return Err(Error::usage(format!(
                "{} is not a file; name a file for the vectors",
                path.display()
            )));
        }
        let file = PartialFile::beside(&target).map_err(Error::io("write", path));
        Ok(Self {
            path: path.to_path_buf(),
            file: io::BufWriter::new(file.map_err(Error::into_usage_error)?),
            format,
            lengths,
            inputs,
            begun: false,
        })
    }

    /// Appends the vectors of the next input.
    ///
    /// # Errors
    /// If writing fails.
    pub fn add(&mut self, input: &str, vectors: &Vectors) -> Result<()> {
        let written = match self.format {
            Format::JsonLines => self.line(input, vectors),
            Format::Safetensors | Format::Numpy => self.numbers(vectors),
        };
        written.map_err(Error::io("write", &self.path))
    }

    fn line(&mut self, input: &str, vectors: &Vectors) -> io::Result<()> {
        let numbers =
            |vector: &[f32]| -> Vec<Value> { vector.iter().map(|x| number(*x)).collect() };
        let object = match &self.lengths {
            None => json!({ "input": input, "vector": numbers(&vectors.values) }),
            Some(_) => {
                let each = vectors.values.chunks(vectors.width.max(1)).map(numbers);
                json!({ "input": input, "vectors": each.collect::<Vec<_>>() })
            }
        };
        writeln!(self.file, "{object}")
    }

    fn numbers(&mut self, vectors: &Vectors) -> io::Result<()> {
        if !self.begun {
            self.begun = true;
            self.begin(vectors.width)?;
        }
        for number in &vectors.values {
            self.file.write_all(&number.to_le_bytes())?;
        }
        let room = self.longest() * vectors.width;
        for _ in vectors.values.len()..room {
            self.file.write_all(&0.0f32.to_le_bytes())?;
        }
        Ok(())
    }

    /// Number of vectors of the longest input.
    fn longest(&self) -> usize {
        let lengths = self.lengths.as_ref();
        lengths.map_or(1, |lengths| lengths.iter().copied().max().unwrap_or(0))
    }

    /// Shape of the array: `[inputs, width]`, or `[inputs, positions, width]`.
    fn shape(&self, width: usize) -> Vec<usize> {
        match &self.lengths {
            None => vec![self.inputs, width],
            Some(_) => vec![self.inputs, self.longest(), width],
        }
    }

    fn begin(&mut self, width: usize) -> io::Result<()> {
        let shape = self.shape(width);
        match self.format {
            Format::Numpy => self.begin_numpy(&shape),
            Format::Safetensors => self.begin_safetensors(shape),
            Format::JsonLines => Ok(()),
        }
    }

    fn begin_numpy(&mut self, shape: &[usize]) -> io::Result<()> {
        let sides: Vec<String> = shape.iter().map(|side| format!("{side}, ")).collect();
        let shape = sides.concat();
        let mut header = format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}",
            shape.trim_end()
        );
        let before = NUMPY.len() + size_of::<u16>();
        let length = (before + header.len() + 1).next_multiple_of(NUMPY_ALIGNMENT) - before;
        header.extend(std::iter::repeat_n(' ', length - 1 - header.len()));
        header.push('\n');
        self.file.write_all(NUMPY)?;
        self.file.write_all(&(length as u16).to_le_bytes())?;
        self.file.write_all(header.as_bytes())
    }

    fn begin_safetensors(&mut self, shape: Vec<usize>) -> io::Result<()> {
        let end = shape.iter().product::<usize>() * size_of::<f32>();
        // The 8-byte lengths come first, so that both arrays are aligned to their element size.
        let ahead = self
            .lengths
            .as_ref()
            .map_or(0, |lengths| lengths.len() * size_of::<i64>());
        let mut all = Vec::new();
        if let Some(lengths) = &self.lengths {
            let info = TensorInfo {
                dtype: Dtype::I64,
                shape: vec![lengths.len()],
                data_offsets: (0, ahead),
            };
            all.push(("lengths".to_string(), info));
        }
        let info = TensorInfo {
            dtype: Dtype::F32,
            shape,
            data_offsets: (ahead, ahead + end),
        };
        all.push(("embeddings".to_string(), info));
        let header = Metadata::new(Some(HashMap::new()), all).map_err(io::Error::other)?;
        let mut header = serde_json::to_vec(&header)?;
        header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
        self.file.write_all(&(header.len() as u64).to_le_bytes())?;
        self.file.write_all(&header)?;
        for length in self.lengths.iter().flatten() {
            self.file.write_all(&(*length as i64).to_le_bytes())?;
        }
        Ok(())
    }

    /// Moves the complete file to its path.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(self) -> Result<()> {
        let file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error);
        file.and_then(PartialFile::persist)
            .map_err(Error::io("write", &self.path))
    }
}

/// Converts a number to JSON with the shortest decimal that identifies it as a 32-bit float.
pub fn number(number: f32) -> Value {
    let short = number.to_string().parse::<f64>();
    short.map_or(Value::Null, Into::into)
}
