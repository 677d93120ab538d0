//! Writes weight files in Hugging Face's format while holding only the tensors of one rule besides the model.

use super::Parameters;
use super::exported_tensors::Exported;
use super::rename::Table;
use super::weights::Array;
use crate::error::{Error, Result};
use crate::files::tensors::{Header, write_floats};
use safetensors::Dtype;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Writes a model's parameters as an HF weight file; returns the number of float tensors. The batch counts that a
/// table names are written as integers, all 0.
///
/// # Errors
/// If the file cannot be written.
pub fn write_parameters(path: &Path, table: &Table, parameters: &Parameters) -> Result<usize> {
    let exported = Exported::of(table, &parameters.shapes());
    let mut header = header();
    // 64-bit integers come before 32-bit floats, so that every tensor is aligned.
    for name in &exported.counts {
        header.add(name, Dtype::I64, &[], size_of::<i64>());
    }
    let mut tensors = exported.constants.len();
    for made in &exported.tensors {
        for (name, _) in &made.names {
            add(&mut header, name, &made.shape);
            tensors += 1;
        }
    }
    for (name, array) in &exported.constants {
        add(&mut header, name, &array.shape);
    }
    let body = || -> std::io::Result<()> {
        let mut file = header.create(path)?;
        for _ in &exported.counts {
            file.write_all(&0_i64.to_le_bytes())?;
        }
        for made in &exported.tensors {
            let arrays = made.arrays(|path| parameters.read(path));
            for (_, part) in &made.names {
                write_floats(&mut file, &arrays[*part].values)?;
            }
        }
        for array in exported.constants.values() {
            write_floats(&mut file, &array.values)?;
        }
        file.flush()
    };
    body().map_err(Error::io("write", path))?;
    Ok(tensors)
}

/// Writes tensors that are already in memory.
///
/// # Errors
/// If the file cannot be written.
pub fn write_arrays(path: &Path, arrays: &BTreeMap<String, Array>) -> Result<()> {
    let mut header = header();
    for (name, array) in arrays {
        add(&mut header, name, &array.shape);
    }
    let body = || -> std::io::Result<()> {
        let mut file = header.create(path)?;
        for array in arrays.values() {
            write_floats(&mut file, &array.values)?;
        }
        file.flush()
    };
    body().map_err(Error::io("write", path))
}

fn header() -> Header {
    Header::new(json!({ "format": "pt" }))
}

fn add(header: &mut Header, name: &str, shape: &[usize]) {
    let bytes = shape.iter().product::<usize>() * size_of::<f32>();
    header.add(name, Dtype::F32, shape, bytes);
}
