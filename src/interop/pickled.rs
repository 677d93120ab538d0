//! Reads PyTorch's pickled weight files through burn's own reader: tensors are found when a file is opened, and read
//! when they are asked for. No code in a pickle is run.

use super::weights::invalid;
use crate::error::Result;
use burn::tensor::{bf16, f16};
use pytorch_reader::{DType, PickleValue, PytorchReader, Tensor};
use std::collections::HashMap;
use std::path::Path;

/// The contents of a file.
pub(super) struct Pickled {
    /// Tensors by name.
    pub tensors: Vec<(String, Tensor)>,
    /// Names of the entries that are not tensors: counts, settings.
    pub others: Vec<String>,
}

/// Reads the entries of a file.
///
/// # Errors
/// If the file is not a PyTorch checkpoint.
pub(super) fn read(path: &Path) -> Result<Pickled> {
    let wrong = |e| invalid(path, format!("is not a PyTorch weights file: {e}"));
    let tensors = PytorchReader::new(path).map_err(wrong)?.into_tensors();
    let mut others = Vec::new();
    name_others(
        &PytorchReader::read_pickle_data(path, None).map_err(wrong)?,
        "",
        &tensors,
        &mut others,
    );
    others.sort();
    Ok(Pickled {
        tensors: tensors.into_iter().collect(),
        others,
    })
}

/// Collects the dotted names of all entries that are not tensors.
fn name_others(
    value: &PickleValue,
    name: &str,
    tensors: &HashMap<String, Tensor>,
    others: &mut Vec<String>,
) {
    match value {
        PickleValue::Dict(entries) => {
            for (key, value) in entries {
                let below = match name {
                    "" => key.clone(),
                    name => format!("{name}.{key}"),
                };
                name_others(value, &below, tensors, others);
            }
        }
        _ if tensors.contains_key(name) => {}
        _ => others.push(name.to_string()),
    }
}

/// Reads the values of a tensor as 32-bit floats.
///
/// # Errors
/// If the file cannot be read, or the numbers are not 16-, 32- or 64-bit floats.
pub(super) fn floats(tensor: &Tensor, path: &Path, name: &str) -> Result<Vec<f32>> {
    let bytes = tensor.read().map_err(|e| {
        let message = format!("tensor `{name}` cannot be read: {e}; the file is damaged");
        invalid(path, message)
    })?;
    fn each<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|b| number(*b)).collect()
    }
    Ok(match tensor.dtype() {
        DType::F32 => each(&bytes, f32::from_le_bytes),
        DType::F64 => each(&bytes, |b| f64::from_le_bytes(b) as f32),
        DType::F16 => each(&bytes, |b| f16::from_le_bytes(b).to_f32()),
        DType::BF16 => each(&bytes, |b| bf16::from_le_bytes(b).to_f32()),
        other => {
            let message =
                format!("tensor `{name}` is {other:?}; F64, F32, F16 and BF16 can be imported");
            return Err(invalid(path, message));
        }
    })
}
