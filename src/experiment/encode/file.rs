//! Files of vectors: safetensors, NumPy's format, JSON lines. Each is written beside its place and put there whole.

use super::Vectors;
use crate::error::{Error, Result, suggestion};
use crate::files::Partial;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The beginning of NumPy's files of version 1.0.
const NUMPY: &[u8] = b"\x93NUMPY\x01\x00";
/// The numbers behind NumPy's header begin at a multiple of this.
const NUMPY_ALIGNMENT: usize = 64;
/// Those of safetensors at a multiple of this.
const ALIGNMENT: usize = 8;

/// The format of a file of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `embeddings`, and `lengths` where there is a vector for each position.
    Safetensors,
    /// One array.
    Numpy,
    /// An object a line.
    JsonLines,
}

impl Format {
    /// By the ending of a file's name.
    ///
    /// # Errors
    /// Another ending.
    pub fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        match ending {
            "safetensors" => Ok(Self::Safetensors),
            "npy" => Ok(Self::Numpy),
            "jsonl" => Ok(Self::JsonLines),
            other => Err(Error::usage(format!(
                "--out {}: the ending says the format{}",
                path.display(),
                suggestion(other, ["safetensors", "npy", "jsonl"])
            ))),
        }
    }
}

/// A file of vectors in the making; dropped before it is placed, it leaves nothing.
#[derive(Debug)]
pub struct VectorsFile {
    path: PathBuf,
    file: io::BufWriter<Partial>,
    format: Format,
    /// Vectors of each input, where there is one for each position; the longest fills the array.
    lengths: Option<Vec<usize>>,
    inputs: usize,
    begun: bool,
}

impl VectorsFile {
    /// Begins a file for so many inputs, of which each has one vector, or as many as `lengths` say.
    ///
    /// # Errors
    /// A folder, or a place that cannot be written to.
    pub fn create(
        path: &Path,
        format: Format,
        inputs: usize,
        lengths: Option<Vec<usize>>,
    ) -> Result<Self> {
        let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if target.exists() && !target.is_file() {
            return Err(Error::usage(format!(
                "{} is not a file: vectors are written to one",
                path.display()
            )));
        }
        let file = Partial::beside(&target).map_err(Error::io("write", path));
        Ok(Self {
            path: path.to_path_buf(),
            file: io::BufWriter::new(file.map_err(Error::before_running)?),
            format,
            lengths,
            inputs,
            begun: false,
        })
    }

    /// Adds the vectors of the next input.
    ///
    /// # Errors
    /// The disk's.
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

    /// Vectors of the longest input.
    fn longest(&self) -> usize {
        let lengths = self.lengths.as_ref();
        lengths.map_or(1, |lengths| lengths.iter().copied().max().unwrap_or(0))
    }

    /// `[inputs, width]`, or `[inputs, positions, width]`.
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
        // Whole numbers of 8 bytes come first, so that both lie at multiples of their size.
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

    /// Brings the file to its place.
    ///
    /// # Errors
    /// The disk's.
    pub fn place(self) -> Result<()> {
        let file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error);
        file.and_then(Partial::place)
            .map_err(Error::io("write", &self.path))
    }
}

/// A number as JSON, as short as it tells it from others of 32 bits.
pub fn number(number: f32) -> Value {
    let short = number.to_string().parse::<f64>();
    short.map_or(Value::Null, Into::into)
}
