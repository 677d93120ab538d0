//! Files of weights as PyTorch pickles them, through burn's own reader: tensors are found when a file is opened, and read
//! when they are asked for. Nothing of a pickle is run.

use super::weights::invalid;
use crate::error::{Error, Result};
use burn::tensor::{bf16, f16};
use pytorch_reader::{DType, PytorchReader, Tensor};
use std::path::Path;

/// The tensors of a file by their names.
///
/// # Errors
/// A file that is no checkpoint of PyTorch's.
pub(super) fn tensors(path: &Path) -> Result<Vec<(String, Tensor)>> {
    let reader = PytorchReader::new(path)
        .map_err(|e| invalid(path, format!("is not a file of PyTorch's weights: {e}")))?;
    Ok(reader.into_tensors().into_iter().collect())
}

/// The numbers of a tensor as 32-bit floats.
///
/// # Errors
/// A file that cannot be read, numbers that are not 16-, 32- or 64-bit floats.
pub(super) fn floats(tensor: &Tensor, path: &Path, name: &str) -> Result<Vec<f32>> {
    let bytes = tensor.read().map_err(Error::io("read", path))?;
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
