//! An optimizer's state as a burnpack file.
//!
//! Burn keeps states in a hash map and writes them in its order; here they are sorted by name, so that
//! equal states are equal bytes. States belong to parameter ids: load the weights first, into a model
//! whose ids come from its paths.

use super::legacy;
use crate::error::{Error, Result};
use crate::nn::linear;
use crate::train::parameters::{self, Parameter};
use burn::module::Module;
use burn::optim::{ModuleOptimizer, OptimizerRecord};
use burn::tensor::Bytes;
use burn_pack::{Reader, Writer};
use std::collections::BTreeMap;
use std::path::Path;

/// Writes the state of the optimizer of a model.
///
/// # Errors
/// When the disk refuses.
pub fn save<M: Module>(optimizer: &ModuleOptimizer, model: &M, path: &Path) -> Result<()> {
    sorted(optimizer, model)
        .and_then(|writer| writer.write_to_file(path).map_err(|e| e.to_string()))
        .map_err(|e| Error::run(format!("cannot write {}: {e}", path.display())))
}

fn sorted<M: Module>(optimizer: &ModuleOptimizer, model: &M) -> Result<Writer, String> {
    let bytes = optimizer.into_bytes().map_err(|e| e.to_string())?;
    let reader = Reader::from_bytes(bytes).map_err(|e| e.to_string())?;
    let (scalars, mut metadata) = (reader.scalars().clone(), reader.metadata().clone());
    // Burn's paths name the variants of enums, ours do not.
    for Parameter { id, path, .. } in parameters::list(model) {
        if let Some(burns) = metadata.get_mut(&id.val().to_string()) {
            *burns = path;
        }
    }
    // The reader hands tensors out by rising name.
    let mut writer = Writer::new(reader.into_tensors().map_err(|e| e.to_string())?);
    for (name, value) in &metadata {
        writer = writer.with_metadata(name, value);
    }
    for (name, value) in scalars {
        writer = writer.with_scalar(&name, value);
    }
    Ok(writer)
}

/// Puts a file's state, of a checkpoint of this version, into an optimizer that was built for `model`.
///
/// # Errors
/// When the file cannot be read, or holds the state of another model or another kind of optimizer.
pub fn load<M: Module>(
    optimizer: ModuleOptimizer,
    model: &M,
    path: &Path,
    version: u32,
) -> Result<ModuleOptimizer> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    let refuse = |what: String| Error::run(format!("{}: {what}", path.display()));
    let bytes = match version {
        1 => legacy::moments(Bytes::from_bytes_vec(bytes), &linear::weights(model))
            .map_err(refuse)?,
        _ => Bytes::from_bytes_vec(bytes),
    };
    let record = OptimizerRecord::from_bytes(bytes.clone())
        .map_err(|e| refuse(format!("not an optimizer's state: {e}")))?;
    let reader = Reader::from_bytes(bytes).map_err(|e| refuse(e.to_string()))?;
    check_parameters(model, reader.metadata()).map_err(refuse)?;
    let states = record.len();
    let optimizer = optimizer.load_record(record);
    // Burn leaves out, without a word, what the optimizer cannot read.
    if optimizer.to_record().len() != states {
        return Err(refuse("the state is of another kind of optimizer".into()));
    }
    Ok(optimizer)
}

/// Whether every state belongs to a parameter of the model.
fn check_parameters<M: Module>(model: &M, paths: &BTreeMap<String, String>) -> Result<(), String> {
    let known: BTreeMap<String, String> = parameters::list(model)
        .into_iter()
        .map(|p| (p.id.val().to_string(), p.path))
        .collect();
    match paths.iter().find(|(id, _)| !known.contains_key(*id)) {
        Some((_, path)) => Err(format!(
            "it has a state for `{path}`, which is no parameter of this model"
        )),
        None => Ok(()),
    }
}
