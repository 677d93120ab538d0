//! An optimizer's state as a burnpack file.
//!
//! Burn keeps states in a hash map and writes them in its order; here they are sorted by name, so that equal states
//! give equal bytes. States are keyed by parameter id: load the weights first, into a model whose ids come from its paths.

use super::legacy::{self, COLUMNS, ROWS};
use crate::error::{Error, Result};
use crate::nn::linear;
use crate::train::optim::soap;
use crate::train::parameters::{self, Parameter};
use burn::module::Module;
use burn::optim::{ModuleOptimizer, OptimizerRecord};
use burn::tensor::{Bytes, Shape};
use burn_pack::{Reader, Scalar, Tensor, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

/// Burn's name of the record of a parameter's rank.
const RANK: &str = "__rank";

/// Writes the state of a model's optimizer; `others` holds the states of the other ranks for their values, in order of
/// rank, which follow those of this optimizer.
///
/// # Errors
/// If the disk cannot be written.
pub fn save<M: Module>(
    optimizer: &ModuleOptimizer,
    others: Vec<Vec<u8>>,
    model: &M,
    path: &Path,
) -> Result<()> {
    merged_writer(optimizer, others, model)
        .and_then(|writer| writer.write_to_file(path).map_err(|e| e.to_string()))
        .map_err(|e| Error::run(format!("cannot write {}: {e}", path.display())))
}

/// Serializes the state of an optimizer, for other ranks.
///
/// # Errors
/// If the state cannot be serialized.
pub fn bytes(optimizer: &ModuleOptimizer) -> Result<Vec<u8>> {
    let bytes = optimizer.into_bytes();
    let bytes = bytes.map_err(|e| Error::run(format!("cannot serialize the moments: {e}")))?;
    Ok(bytes.to_vec())
}

/// The part of a parameter's values whose moments a rank keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptValues {
    /// No values.
    Nothing,
    /// All values.
    Whole,
    /// Some consecutive values.
    Part(Range<usize>),
}

/// Restricts the optimizer to the states that `keeps` selects by parameter id. Moments of a part are stored as one row.
///
/// # Errors
/// If the state cannot be read.
pub fn restricted_to(
    optimizer: ModuleOptimizer,
    keeps: &dyn Fn(u64) -> KeptValues,
) -> Result<ModuleOptimizer> {
    filtered_record(&optimizer, keeps, &|_, value| value)
        .map(|record| optimizer.load_record(record))
        .map_err(|e| Error::run(format!("cannot split the moments: {e}")))
}

/// Name of the record that counts the steps of a parameter, in Burn and here.
const TIME: &str = "time";

/// Sets the step counters of parameters back by the given numbers of steps, keyed by parameter id.
///
/// # Errors
/// If the state cannot be read.
pub fn rewind_counters(
    optimizer: ModuleOptimizer,
    by: &BTreeMap<u64, u64>,
) -> Result<ModuleOptimizer> {
    let earlier = |name: &str, value: Scalar| {
        let id = name.strip_suffix(TIME)?.strip_suffix('.')?.parse().ok()?;
        let time = u64::try_from(value).ok()?;
        Some(Scalar::from(time.saturating_sub(*by.get(&id)?)))
    };
    let changed = filtered_record(&optimizer, &|_| KeptValues::Whole, &|name, value| {
        earlier(name, value).unwrap_or(value)
    });
    changed
        .map(|record| optimizer.load_record(record))
        .map_err(|e| Error::run(format!("cannot restore the moments: {e}")))
}

fn filtered_record(
    optimizer: &ModuleOptimizer,
    keeps: &dyn Fn(u64) -> KeptValues,
    becomes: &dyn Fn(&str, Scalar) -> Scalar,
) -> Result<OptimizerRecord, String> {
    let bytes = optimizer.into_bytes().map_err(|e| e.to_string())?;
    let reader = Reader::from_bytes(bytes).map_err(|e| e.to_string())?;
    let (scalars, metadata) = (reader.scalars().clone(), reader.metadata().clone());
    let kept = |name: &str| {
        let id = name.split('.').next().unwrap_or(name).parse();
        id.map_or(KeptValues::Nothing, keeps)
    };
    let is_kept = |name: &str| kept(name) != KeptValues::Nothing;
    let mut tensors = Vec::new();
    for tensor in reader.into_tensors().map_err(|e| e.to_string())? {
        match kept(&tensor.name) {
            KeptValues::Nothing => {}
            KeptValues::Whole => tensors.push(tensor),
            KeptValues::Part(values) => tensors.push(slice_as_row(tensor, values)?),
        }
    }
    let mut writer = Writer::new(tensors);
    for (name, value) in metadata.iter().filter(|(name, _)| is_kept(name)) {
        writer = writer.with_metadata(name, value);
    }
    for (name, value) in scalars.into_iter().filter(|(name, _)| is_kept(name)) {
        let value = becomes(&name, value);
        writer = writer.with_scalar(&name, value);
    }
    let bytes = writer.into_bytes().map_err(|e| e.to_string())?;
    OptimizerRecord::from_bytes(bytes).map_err(|e| e.to_string())
}

/// Extracts consecutive values of a tensor as one row with the same number of dimensions.
fn slice_as_row(tensor: Tensor, values: Range<usize>) -> Result<Tensor, String> {
    let (name, dtype, shape, id, bytes) = tensor.into_parts().map_err(|e| e.to_string())?;
    let mut row = vec![1; shape.num_dims()];
    if let Some(last) = row.last_mut() {
        *last = values.len();
    }
    let own = bytes.get(values.start * dtype.size()..values.end * dtype.size());
    let own = own.ok_or_else(|| format!("`{name}` has no values {values:?}"))?;
    let own = Bytes::from_bytes_vec(own.to_vec());
    Ok(Tensor::new(name, dtype, Shape::from(row), id, own))
}

/// Joins consecutive tensors with the same name into one of the parameter's shape; `tensors` must be sorted by name.
fn concatenate<M: Module>(tensors: Vec<Tensor>, model: &M) -> Result<Vec<Tensor>, String> {
    let all = parameters::list(model).into_iter();
    let shapes: BTreeMap<u64, Vec<usize>> = all.map(|p| (p.id.val(), p.shape)).collect();
    let mut found: Vec<Tensor> = Vec::new();
    for tensor in tensors {
        let Some(first) = found.pop_if(|last| last.name == tensor.name) else {
            found.push(tensor);
            continue;
        };
        let (name, dtype, _, id, bytes) = first.into_parts().map_err(|e| e.to_string())?;
        let shape = id.and_then(|id| shapes.get(&id)).cloned();
        let shape = shape.ok_or_else(|| format!("`{name}` belongs to no parameter"))?;
        let mut bytes = bytes.to_vec();
        bytes.extend_from_slice(&tensor.into_bytes().map_err(|e| e.to_string())?);
        let bytes = Bytes::from_bytes_vec(bytes);
        found.push(Tensor::new(name, dtype, Shape::from(shape), id, bytes));
    }
    Ok(found)
}

fn merged_writer<M: Module>(
    optimizer: &ModuleOptimizer,
    others: Vec<Vec<u8>>,
    model: &M,
) -> Result<Writer, String> {
    let bytes = optimizer.into_bytes().map_err(|e| e.to_string())?;
    let reader = Reader::from_bytes(bytes).map_err(|e| e.to_string())?;
    let (mut scalars, mut metadata) = (reader.scalars().clone(), reader.metadata().clone());
    // The reader returns tensors sorted by name.
    let mut tensors = reader.into_tensors().map_err(|e| e.to_string())?;
    let alone = others.is_empty();
    for bytes in others {
        let bytes = Bytes::from_bytes_vec(bytes);
        let reader = Reader::from_bytes(bytes).map_err(|e| e.to_string())?;
        scalars.extend(reader.scalars().clone());
        metadata.extend(reader.metadata().clone());
        tensors.extend(reader.into_tensors().map_err(|e| e.to_string())?);
    }
    if !alone {
        // A stable sort: parts with the same name stay in order of rank.
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        tensors = concatenate(tensors, model)?;
    }
    // Burn's paths contain the names of enum variants, ours do not.
    for Parameter { id, path, .. } in parameters::list(model) {
        if let Some(burns) = metadata.get_mut(&id.val().to_string()) {
            *burns = path;
        }
    }
    let mut writer = Writer::new(tensors);
    for (name, value) in &metadata {
        writer = writer.with_metadata(name, value);
    }
    for (name, value) in scalars {
        writer = writer.with_scalar(&name, value);
    }
    Ok(writer)
}

/// Loads a file's state, of a checkpoint of this format version, into an optimizer that was built for `model`.
///
/// # Errors
/// If the file cannot be read, or holds the state of another model or another kind of optimizer.
pub fn load<M: Module>(
    optimizer: ModuleOptimizer,
    model: &M,
    path: &Path,
    version: u32,
) -> Result<ModuleOptimizer> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    let refuse = |what: String| Error::run(format!("{}: {what}", path.display()));
    let bytes = Bytes::from_bytes_vec(bytes);
    check_sizes(bytes.clone()).map_err(|e| refuse(format!("not an optimizer state: {e}")))?;
    let bytes = match version {
        1 => legacy::convert_moments(bytes, &linear::weight_paths(model)).map_err(refuse)?,
        _ => bytes,
    };
    let reader = Reader::from_bytes(bytes.clone())
        .map_err(|e| refuse(format!("not an optimizer state: {e}")))?;
    let wanted = check(model, reader).map_err(refuse)?;
    let record = OptimizerRecord::from_bytes(bytes)
        .map_err(|e| refuse(format!("not an optimizer state: {e}")))?;
    let optimizer = optimizer.load_record(record);
    // Burn silently skips records that the optimizer cannot read.
    let taken = optimizer
        .into_bytes()
        .and_then(|bytes| Ok(Reader::from_bytes(bytes)?))
        .map_err(|e| refuse(e.to_string()))?;
    match names(&taken) == wanted {
        true => Ok(optimizer),
        false => Err(refuse("the state is of another kind of optimizer".into())),
    }
}

/// Checks that every tensor has as many bytes as its shape says.
fn check_sizes(bytes: Bytes) -> Result<(), String> {
    let reader = Reader::from_bytes(bytes).map_err(|e| e.to_string())?;
    for tensor in reader.into_tensors().map_err(|e| e.to_string())? {
        let (name, dtype, shape, _, bytes) = tensor.into_parts().map_err(|e| e.to_string())?;
        let shape = shape.to_vec();
        let values = shape.iter().try_fold(1_usize, |all, n| all.checked_mul(*n));
        let size = values.and_then(|n| n.checked_mul(dtype.size()));
        if !dtype.is_float() || size != Some(bytes.len()) {
            let found = bytes.len();
            return Err(format!(
                "`{name}` has {found} bytes for {dtype:?} of the shape {shape:?}"
            ));
        }
    }
    Ok(())
}

/// Returns the names of all tensors and scalars.
fn names(reader: &Reader) -> BTreeSet<String> {
    let tensors = reader.tensor_names().into_iter().map(str::to_string);
    tensors.chain(reader.scalars().keys().cloned()).collect()
}

/// Checks a file's content against the model before Burn reads it, since Burn trusts the ids, ranks and shapes of a
/// record. Every state must belong to a parameter of the model by id and path and have its rank, and each of its
/// tensors must have the shape of the parameter, or of its row or column means. Returns the names of all records.
fn check<M: Module>(model: &M, reader: Reader) -> Result<BTreeSet<String>, String> {
    let known: BTreeMap<String, Parameter> = parameters::list(model)
        .into_iter()
        .map(|p| (p.id.val().to_string(), p))
        .collect();
    for (id, path) in reader.metadata() {
        if known.get(id).is_none_or(|p| p.path != *path) {
            return Err(format!(
                "it has a state for `{path}`, which is not a parameter of this model"
            ));
        }
    }
    let found = names(&reader);
    let scalars = reader.scalars().clone();
    let paths = reader.metadata().clone();
    // The parameter and the leaf of a record's name.
    let owner = |name: &str| {
        let (id, leaf) = name.split_once('.').unwrap_or((name, ""));
        let parameter = known.get(id).filter(|_| paths.contains_key(id));
        let parameter = parameter.ok_or_else(|| {
            format!("it has the record `{name}`, which belongs to no parameter of this model")
        })?;
        Ok::<_, String>((parameter, leaf.to_string()))
    };
    for (name, value) in &scalars {
        let (parameter, leaf) = owner(name)?;
        let rank = parameter.shape.len();
        if leaf == RANK && usize::try_from(*value).ok() != Some(rank) {
            return Err(format!(
                "the state of `{}` does not have the rank of the parameter, {rank}",
                parameter.path
            ));
        }
    }
    let ranked = |id: &String| scalars.contains_key(&format!("{id}.{RANK}"));
    if let Some((_, path)) = paths.iter().find(|(id, _)| !ranked(id)) {
        return Err(format!(
            "the state of `{path}` is incomplete: it has no rank"
        ));
    }
    for tensor in reader.into_tensors().map_err(|e| e.to_string())? {
        let (name, dtype, shape, id, _) = tensor.into_parts().map_err(|e| e.to_string())?;
        let (parameter, leaf) = owner(&name)?;
        let path = &parameter.path;
        if id != Some(parameter.id.val()) {
            return Err(format!(
                "the state of `{path}` has the id of another parameter"
            ));
        }
        let factored = |leaf: &str| found.contains(&format!("{}.{leaf}", parameter.id.val()));
        let wanted = shape_of(&leaf, &parameter.shape, factored(ROWS) && factored(COLUMNS));
        if shape.to_vec() != wanted {
            return Err(format!(
                "`{leaf}` in the state of `{path}` is {dtype:?} with the shape {:?}, but the shape must be {wanted:?}",
                shape.to_vec()
            ));
        }
    }
    let lone = |p: &&Parameter| {
        let has = |leaf: &str| found.contains(&format!("{}.{leaf}", p.id.val()));
        has(COLUMNS) != (has(ROWS) && p.shape.len() >= 2)
    };
    match known.values().find(lone) {
        Some(p) => Err(format!(
            "the state of `{}` is incomplete: it has second moments of only the rows or only the columns",
            p.path
        )),
        None => Ok(found),
    }
}

/// Returns the expected shape of a tensor of a parameter's state.
fn shape_of(leaf: &str, parameter: &[usize], factored: bool) -> Vec<usize> {
    if let Some(length) = soap::side_of(leaf).and_then(|at| parameter.get(at)) {
        return vec![*length; 2];
    }
    let mut shape = parameter.to_vec();
    let last = shape.len();
    match leaf {
        ROWS if factored && last >= 2 => shape[last - 1] = 1,
        COLUMNS if factored && last >= 2 => shape[last - 2] = 1,
        _ => {}
    }
    shape
}
