//! Safetensors files of a folder as plain values, and copies of folders to damage.

use safetensors::tensor::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A tensor of any number format in these folders, with its values as floats.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

/// Reads the tensors of one file.
pub fn read(path: &Path) -> BTreeMap<String, Numbers> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let number = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        let shape = view.shape().to_vec();
        let values = floats(view.dtype(), view.data());
        (name, Numbers { shape, values })
    };
    file.tensors().into_iter().map(number).collect()
}

fn floats(dtype: Dtype, data: &[u8]) -> Vec<f32> {
    fn each<const N: usize>(data: &[u8], number: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        data.as_chunks().0.iter().map(|b| number(*b)).collect()
    }
    match dtype {
        Dtype::F32 => each(data, f32::from_le_bytes),
        Dtype::F16 => each(data, |b| burn::tensor::f16::from_le_bytes(b).to_f32()),
        Dtype::BF16 => each(data, |b| burn::tensor::bf16::from_le_bytes(b).to_f32()),
        Dtype::I64 => each(data, |b| i64::from_le_bytes(b) as f32),
        Dtype::BOOL => data.iter().map(|b| f32::from(*b != 0)).collect(),
        other => panic!("a fixture has {other:?}"),
    }
}

/// Reads the tensors of a folder, from one file or from its shards.
pub fn read_folder(dir: &Path) -> BTreeMap<String, Numbers> {
    let mut found = BTreeMap::new();
    for file in weights(dir) {
        found.extend(read(&file));
    }
    found
}

fn weights(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap();
    files
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("model") && name.ends_with(".safetensors")
        })
        .collect()
}

/// Writes the inputs of a reference file into a file of their own, bytes unchanged.
pub fn write_inputs(reference: &Path, to: &Path) {
    let bytes = std::fs::read(reference).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let inputs = file.tensors().into_iter();
    let inputs = inputs.filter(|(name, _)| !name.starts_with("expected."));
    safetensors::serialize_to_file(inputs, None, to).unwrap();
}

/// Copies a folder, so that the copy can be damaged.
pub fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::Builder::new().prefix("folder").tempdir().unwrap();
    copy_into(from, to.path());
    to
}

fn copy_into(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let there = to.join(path.file_name().unwrap());
        if path.is_dir() {
            std::fs::create_dir(&there).unwrap();
            copy_into(&path, &there);
        } else {
            std::fs::copy(&path, there).unwrap();
        }
    }
}

/// Reads header and data of a safetensors file.
pub fn parts(path: &Path) -> (serde_json::Value, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    (header, bytes[8 + length..].to_vec())
}

/// Writes a safetensors file with this header and data.
pub fn write_parts(path: &Path, header: &str, data: &[u8]) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    std::fs::write(path, bytes).unwrap();
}
