//! Checkpoints of version 1, as formwork wrote them up to commit e1903db, converted to the current version on reading.
//!
//! The differences, which only this module knows:
//!
//! * paths contained the names of enum variants (`attention.MultiHead.query.weight`); these are the segments that begin
//!   with an upper-case letter, and are removed;
//! * the weights of linear maps were `[d_in, d_out]`. Which parameters those are is known from the model, not the path;
//! * optimizer states follow their parameters: ids are hashes of the paths, moments have the shape of their parameter,
//!   and Adafactor's second moments of rows and of columns are swapped;
//! * `state.json` counted items in its window.

use super::State;
use crate::train::parameters::id_of;
use burn::tensor::{Bytes, TensorData};
use burn_pack::{Reader, Tensor, Writer};
use std::collections::{BTreeMap, BTreeSet};

/// Note for the journal of a run that is resumed from version 1: everything that changed with version 2.
pub(super) const NOTE: &str = "the checkpoint has version 1: linear weights are transposed, names of variants \
    are removed from the paths of parameters, and later checkpoints have version 2; dropout draws different numbers, \
    since they are keyed by the part of the model, and sums of micro-batches and of products may differ in their last bits";

/// Adafactor's name of the second moments of a matrix's rows.
pub(super) const ROWS: &str = "second_moment";
/// Adafactor's name of the second moments of a matrix's columns.
pub(super) const COLUMNS: &str = "column_second_moment";

/// Converts the path of a parameter from version 1.
pub(super) fn convert_path(old: &str) -> String {
    let field = |name: &&str| !name.starts_with(|c: char| c.is_ascii_uppercase());
    old.split('.').filter(field).collect::<Vec<_>>().join(".")
}

/// Reads the bookkeeping of version 1, whose window also counted items; nothing read that count.
///
/// # Errors
/// If the text is not a state.
pub(super) fn read_state(text: &[u8]) -> serde_json::Result<State> {
    let mut state: serde_json::Value = serde_json::from_slice(text)?;
    if let Some(window) = state.get_mut("window").and_then(|w| w.as_object_mut()) {
        window.remove("items");
    }
    serde_json::from_value(state)
}

/// Transposes a matrix; other data is returned unchanged.
pub(super) fn transpose(data: TensorData) -> TensorData {
    let &[rows, columns] = data.shape().as_slice() else {
        return data;
    };
    let (dtype, from) = (data.dtype(), data.as_bytes());
    let size = from.len() / (rows * columns).max(1);
    let mut bytes = Vec::with_capacity(from.len());
    for column in 0..columns {
        for row in 0..rows {
            bytes.extend_from_slice(&from[(row * columns + column) * size..][..size]);
        }
    }
    TensorData::from_bytes_vec(bytes, vec![columns, rows], dtype)
}

/// Converts the state of an optimizer to the current version; `linear` lists the paths of the weights of linear maps.
///
/// # Errors
/// If the file cannot be read, or a state lacks the path of its parameter.
pub(super) fn convert_moments(bytes: Bytes, linear: &BTreeSet<String>) -> Result<Bytes, String> {
    let reader = Reader::from_bytes(bytes).map_err(|e| e.to_string())?;
    let paths: BTreeMap<String, String> = reader
        .metadata()
        .iter()
        .map(|(id, old)| (id.clone(), convert_path(old)))
        .collect();
    let factored: BTreeSet<String> = reader
        .tensor_names()
        .iter()
        .filter_map(|name| {
            Some(
                name.strip_suffix(COLUMNS)?
                    .trim_end_matches('.')
                    .to_string(),
            )
        })
        .collect();
    // For a state named `id.leaf`: the path of its parameter, the id, and the leaf.
    let owner = |name: &str| {
        let (id, leaf) = name.split_once('.').unwrap_or((name, ""));
        let path = paths
            .get(id)
            .ok_or_else(|| format!("`{name}` has no path"))?;
        Ok::<_, String>((path, id.to_string(), leaf.to_string()))
    };
    let scalars = reader.scalars().clone();
    let mut tensors = Vec::new();
    for tensor in reader.into_tensors().map_err(|e| e.to_string())? {
        let (name, dtype, shape, _, bytes) = tensor.into_parts().map_err(|e| e.to_string())?;
        let (path, id, leaf) = owner(&name)?;
        let mut data = TensorData::from_bytes(bytes, shape, dtype);
        let mut leaf = leaf.as_str();
        if linear.contains(path) {
            data = transpose(data);
            leaf = match leaf {
                ROWS if factored.contains(&id) => COLUMNS,
                COLUMNS => ROWS,
                other => other,
            };
        }
        let id = id_of(path).val();
        let shape = data.shape().clone();
        tensors.push(Tensor::new(
            format!("{id}.{leaf}"),
            dtype,
            shape,
            Some(id),
            data.into_bytes(),
        ));
    }
    let mut writer = Writer::new(tensors);
    for path in paths.values() {
        writer = writer.with_metadata(&id_of(path).val().to_string(), path);
    }
    for (name, value) in scalars {
        let (path, _, leaf) = owner(&name)?;
        writer = writer.with_scalar(&format!("{}.{leaf}", id_of(path).val()), value);
    }
    writer.into_bytes().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_leave_the_paths() {
        assert_eq!(
            convert_path(
                "model.Vision.stem.Resnet.network.stages.1.blocks.0.layers.0.norm.Batch.gamma"
            ),
            "model.stem.network.stages.1.blocks.0.layers.0.norm.gamma"
        );
        assert_eq!(convert_path("head.weight"), "head.weight");
    }

    #[test]
    fn matrices_are_turned() {
        let data = TensorData::new(vec![1_f32, 2., 3., 4., 5., 6.], [2, 3]);
        let turned = TensorData::new(vec![1_f32, 4., 2., 5., 3., 6.], [3, 2]);
        assert_eq!(transpose(data), turned);
        let vector = TensorData::new(vec![1_f32, 2.], [2]);
        assert_eq!(transpose(vector.clone()), vector);
    }
}
